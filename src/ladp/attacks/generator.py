"""What forges images: a deconvolutional network from a latent vector and a class to a picture, the counterpart of the global model in an ACGAN."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ladp.keys import Key
from ladp.training.work import Work

HALVINGS, BATCH = 3, 500


class Generator(nn.Module):
    """z times an embedding of the class, a linear layer, transposed convolutions that double the side, tanh (Odena et al. 2017; Radford et al. 2016).

    It begins at the smallest side that is reached by up to three halvings: 32 at 4, 28 at 7, 8 at 2.
    """

    def __init__(self, classes: int, channels: int, size: int, latent: int = 100, width: int = 64):
        super().__init__()
        sides = list(halvings(size))
        maps = [width << k for k in range(len(sides) - 1)][::-1]
        self.start = (maps[0], sides[-1], sides[-1])
        self.embed = nn.Embedding(classes, latent)
        self.project = nn.Linear(latent, maps[0] * sides[-1] ** 2)
        self.grow = nn.Sequential(*(layer for a, b in zip(maps, [*maps[1:], channels]) for layer in (nn.BatchNorm2d(a), nn.ReLU(), nn.ConvTranspose2d(a, b, 4, 2, 1))), nn.Tanh())

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        return self.grow(self.project(z * self.embed(labels)).view(-1, *self.start))


def halvings(side: int) -> Iterator[int]:
    """The side, its half, the half of that: while it is even and more than 2, at most three times."""
    for _ in range(HALVINGS):
        yield side
        if side % 2 or side <= 2:
            return
        side //= 2
    yield side


def fresh(work: Work, classes: int, latent: int, width: int, key: Key) -> Generator:
    """An untrained generator of images like the run's."""
    with key.at("generator").reign():
        made = Generator(classes, *work.images.shape[1:3], latent, width)
    return made.to(work.device, work.dtype)


def noise(generator: torch.Generator, count: int, latent: int, like: Tensor) -> Tensor:
    """Latent vectors, drawn on the CPU so that they are the same everywhere."""
    return torch.randn(count, latent, generator=generator).to(like.device, like.dtype)


@torch.no_grad()
def forge(generator: Generator, label: int, count: int, key: Key) -> Tensor:
    """Images of one class, [count, C, H, W] in [-1, 1]; the generator is left in the mode that it was in."""
    before, weights = generator.training, generator.embed.weight
    z = noise(key.at("forge", label).generator(), count, weights.shape[1], weights)
    generator.eval()
    images = torch.cat([generator(part, torch.full((len(part),), label, device=z.device)) for part in z.split(BATCH)])
    generator.train(before)
    return images
