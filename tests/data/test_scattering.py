"""The scattering transform beside Kymatio's, and beside its definition written out as sums over pixels."""

from cmath import exp
from math import pi

import numpy as np
import pytest
import torch

from ladp.data.scattering import Scattering
from ladp.errors import Problem


def filter_of(frame, width, turn=0.0, pitch=0.0, slant=1.0):
    """A Gaussian, or a Morlet wavelet if it has a pitch, going round the frame: one number a pixel, one sum for each."""
    spots = np.arange(-2 * frame, 3 * frame)
    row, column = np.meshgrid(spots, spots, indexing="ij")
    along, across = row * np.cos(turn) + column * np.sin(turn), column * np.cos(turn) - row * np.sin(turn)
    envelope = np.exp(-(along**2 + slant**2 * across**2) / (2 * width**2)) * slant / (2 * pi * width**2)
    wave = envelope * (np.exp(1j * pitch * along) - (np.sum(envelope * np.exp(1j * pitch * along)) / envelope.sum() if pitch else 0))
    return wave.reshape(5, frame, 5, frame).sum((0, 2))


def coarser(kernel, step):
    """A filter for every step-th pixel: only its waves that such a grid can show, by a plain Fourier sum."""
    frame, few = len(kernel), len(kernel) // step
    wave = np.array([[exp(-2j * pi * k * n / frame) for n in range(frame)] for k in range(-few // 2, few // 2)])
    back = np.array([[exp(2j * pi * k * n / few) / few for k in range(-few // 2, few // 2)] for n in range(few)])
    return back @ (wave @ kernel @ wave.T) @ back.T


def convolve(x, kernel):
    """sum_v x(u - v) k(v), going round the frame."""
    return sum(kernel[a, b] * np.roll(x, (a, b), (0, 1)) for a in range(len(x)) for b in range(len(x)))


def by_definition(image, scales, angles):
    """The coefficients of one grey image, path by path."""
    size = len(image)
    frame = (size // 2**scales + 2) * 2**scales
    border = frame - size
    x = np.pad(image, (border // 2, border - border // 2), mode="reflect")
    phi = filter_of(frame, 0.8 * 2 ** (scales - 1))

    def average(x):
        step = frame // len(x)
        return convolve(x, coarser(phi, step)).real[:: 2**scales // step, :: 2**scales // step][1:-1, 1:-1]

    def ripple(x, j, turn):
        step = frame // len(x)
        psi = filter_of(frame, 0.8 * 2**j, turn, 3 * pi / 4 / 2**j, 4 / angles)
        return np.abs(convolve(x, coarser(psi, step)))[:: 2**j // step, :: 2**j // step]

    turns = [pi * (angles - angles // 2 - 1 - k) / angles for k in range(angles)]
    first = [(j, ripple(x, j, turn)) for j in range(scales) for turn in turns]
    second = [ripple(u, k, turn) for j in range(scales) for part in [[u for i, u in first if i == j]] for u in part for k in range(j + 1, scales) for turn in turns]
    return np.stack([average(x), *(average(u) for _, u in first), *(average(u) for u in second)])


@pytest.mark.parametrize("size,scales,angles", [(8, 2, 4), (9, 2, 3), (6, 1, 2)])
def test_coefficients_are_their_definition_summed_pixel_by_pixel(size, scales, angles):
    image = np.random.default_rng(size).random((size, size))
    transform = Scattering(size, scales, angles)
    found = transform(torch.from_numpy(image)[None, None])[0].numpy()
    expected = by_definition(image, scales, angles)
    assert found.shape == expected.shape == (transform.paths, transform.side, transform.side)
    assert np.allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("size,scales,angles,shape", [(32, 2, 8, (243, 8, 8)), (28, 2, 8, (243, 7, 7)), (8, 2, 8, (243, 2, 2)), (32, 3, 6, (381, 4, 4)), (28, 3, 8, (651, 3, 3))])
def test_coefficients_are_those_of_kymatio(size, scales, angles, shape):
    kymatio = pytest.importorskip("kymatio.scattering2d.frontend.torch_frontend", reason="kymatio is not installed", exc_type=ImportError)
    images = torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(size))
    found, known = Scattering(size, scales, angles)(images), kymatio.ScatteringTorch2D(scales, (size, size), angles)(images).flatten(1, 2)
    assert found.shape == known.shape == (3, *shape)
    assert torch.allclose(found, known, rtol=1e-4, atol=1e-6)  # Kymatio's pi is 3.1415


def test_an_image_alone_and_in_a_batch_has_the_same_coefficients():
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    together, alone = Scattering(32)(images), Scattering(32)(images[2:3])
    assert torch.allclose(together[2:3], alone, atol=1e-6)


def test_an_even_image_has_no_waves_and_a_shifted_one_nearly_the_same_averages():
    transform = Scattering(32)
    even = transform(torch.full((1, 1, 32, 32), 0.7))[0]
    assert torch.allclose(even[0], torch.tensor(0.7), atol=1e-5) and even[1:].abs().max() < 1e-5
    image = torch.rand(1, 1, 33, 33, generator=torch.Generator().manual_seed(1))
    here, there = transform(image[..., :32, :32]), transform(image[..., :32, 1:])
    pixels = (image[..., :32, :32] - image[..., :32, 1:]).norm() / image[..., :32, :32].norm()
    assert (here - there).norm() / here.norm() < pixels / 3


@pytest.mark.parametrize("make,words", [(lambda: Scattering(3), "too small for 2 scales"), (lambda: Scattering(32, 0), "at least 1, got 0"), (lambda: Scattering(8, 3), "too small")])
def test_what_cannot_be_transformed_is_refused(make, words):
    with pytest.raises(Problem, match=words):
        make()
