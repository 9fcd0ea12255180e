"""Images of nothing: leaves that fall on each other (the model of Lee, Mumford & Huang 2001), which have edges, shades and sizes much as natural images do.

They are drawn from a fixed seed, so that what is learnt from them, such as how features are to be whitened, is learnt from nobody.
"""

import numpy as np
import torch
from torch import Tensor

from ladp.keys import Key

LEAVES, LEAST, MOST = 30, 1 / 16, 1 / 2  # in an image; half lengths between these shares of its side, of density r^-3
COLOUR, SHADE, TEXTURE = 0.15, 0.2, 0.05  # deviations: of a leaf's colour from grey, of its brightness from end to end of the image, of 1/f noise on top
FINE = 2  # they fall on a grid so many times finer, so that edges are soft


def imagined(count: int, channels: int, size: int) -> Tensor:
    """Bytes [count, C, size, size], the same in every process."""
    random = Key(0).at("imagined").numpy()
    return torch.from_numpy(np.stack([_image(random, channels, size) for _ in range(count)]))


def _image(random: np.random.Generator, channels: int, size: int) -> np.ndarray:
    fine = size * FINE
    image = np.full((channels, fine, fine), random.uniform(0.1, 0.9)) + COLOUR * random.standard_normal((channels, 1, 1))
    lengths = (LEAST**-2 + random.uniform(size=LEAVES) * (MOST**-2 - LEAST**-2)) ** -0.5 * fine
    for length in lengths:
        _fall(random, image, length)
    soft = image.reshape(channels, size, FINE, size, FINE).mean((2, 4)) + TEXTURE * _texture(random, size)
    return (255 * soft.clip(0, 1)).astype(np.uint8)


def _fall(random: np.random.Generator, image: np.ndarray, length: float) -> None:
    """One leaf, an ellipse of its own colour and shade, on top of what lies there."""
    side, turn = image.shape[1], random.uniform(0, np.pi)
    down, right = (np.arange(side) + 0.5 - random.uniform(-0.2, 1.2) * side for _ in range(2))
    along = down[:, None] * np.cos(turn) + right * np.sin(turn)
    across = right * np.cos(turn) - down[:, None] * np.sin(turn)
    leaf = along**2 + (across / random.uniform(0.4, 1)) ** 2 < length**2
    colour = random.uniform(0.05, 0.95) + COLOUR * random.standard_normal((len(image), 1))
    image[:, leaf] = colour + SHADE * random.standard_normal() * along[leaf] / side


def _texture(random: np.random.Generator, size: int) -> np.ndarray:
    """Noise whose waves fall with their frequency, as those of natural images do (Field 1987), of deviation 1."""
    waves = np.maximum(np.hypot(*np.meshgrid(np.fft.fftfreq(size), np.fft.fftfreq(size))), 1 / size)
    noise = np.fft.ifft2(np.fft.fft2(random.standard_normal((size, size))) / waves).real
    return noise / noise.std()
