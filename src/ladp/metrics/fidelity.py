"""How close generated images come to real ones: FID and KID over the features that a data set calls for.

    fidelity = Fidelity.of("small", dataset)
    fidelity.compare(real, fake)["fid"]
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ladp.data import Dataset
from ladp.data.features import Progress, address, keep, recall
from ladp.errors import Problem, choose
from ladp.keys import Key
from ladp.metrics.frechet import Gaussian, distance
from ladp.metrics.inception import Inception
from ladp.metrics.kernel import kernel_distance
from ladp.metrics.small import Small

PART = {"cpu": 25, "cuda": 250}  # images at a time
VERSION = "1"  # of the numbers: another one is another address in the cache


class Features(Protocol):
    """A network that turns bytes into features [n, dimension]; `published`: whether distances between them are what papers print."""

    name: str
    about: str
    dimension: int
    published: bool

    def __call__(self, images: Tensor) -> Tensor: ...


FEATURES: dict[str, Callable[[Dataset, Key, str], Features]] = {
    "inception": lambda dataset, key, device: Inception.of(device),
    "small": Small.of,
}


def quantise(images: Tensor) -> Tensor:
    """Images as bytes [n, 1 or 3, H, W], the same for real and generated ones: numbers in [-1, 1] are rounded as a picture file would."""
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.numel():
        raise Problem(f"images must be [n, 1 or 3, height, width], at least one, got {tuple(images.shape)}")
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point() or not (images.abs() <= 1 + 1e-3).all():
        raise Problem(f"images must be bytes or numbers in [-1, 1], got {images.dtype} from {images.min().item():g} to {images.max().item():g}")
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Compares sets of images; features of real ones are remembered, and Inception's are kept on the disk where a `cache` is named."""

    network: Features
    key: Key = Key(0)
    device: str = "cpu"
    cache: Path | None = None
    known: dict[str, tuple[Tensor, Gaussian]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(name: str, dataset: Dataset, device: str = "cpu", key: Key = Key(0), cache: Path | None = None) -> "Fidelity":
        """`inception`, with the published weights, or `small`, trained now on the data set."""
        return Fidelity(FEATURES[choose("features", name, FEATURES)](dataset, key.at("features"), device), key, device, cache)

    def features(self, images: Tensor, progress: Progress = lambda done, total: None) -> Tensor:
        """Features [n, dimension] in float32, on the CPU, of bytes or of numbers in [-1, 1]."""
        images, found, part = quantise(images), torch.empty(len(images), self.network.dimension), PART.get(torch.device(self.device).type, PART["cuda"])
        with torch.no_grad():
            for at in range(0, len(images), part):
                found[at : at + part] = self.network(images[at : at + part])
                progress(min(at + part, len(images)), len(images))
        return found

    def real(self, images: Tensor, progress: Progress = lambda done, total: None) -> tuple[Tensor, Gaussian]:
        """Features of real images and their Gaussian, found once."""
        images = quantise(images)
        if (place := address(images)) not in self.known:
            path = self.cache / f"{self.network.name}-{VERSION}-{place}.safetensors" if self.cache and self.network.published else None
            if path is None or (found := recall(path)) is None:
                found = self.features(images, progress)
                if path:
                    keep(path, found)
            self.known[place] = found, Gaussian.of(found)
        return self.known[place]

    def compare(self, real: Tensor, fake: Tensor, progress: Progress = lambda done, total: None) -> dict[str, Any]:
        """FID and KID between two sets of images, what they were computed with, and whether that FID may stand beside a published one."""
        if real.shape[1:] != fake.shape[1:]:
            raise Problem(f"real images are {tuple(real.shape[1:])}, generated ones {tuple(fake.shape[1:])}: compare like with like")
        (ours, known), theirs = self.real(real, progress), self.features(fake, progress)
        kid, deviation = kernel_distance(ours, theirs, self.key.at("kid"))
        few = min(len(ours), len(theirs)) <= self.network.dimension
        return {
            "fid": distance(known, Gaussian.of(theirs)), "kid": kid, "kid_deviation": deviation, "n": {"real": len(ours), "fake": len(theirs)},
            "features": self.network.name, "comparable": self.network.published and not few, "notes": self._notes(few),
        }  # fmt: skip

    def _notes(self, few: bool) -> list[str]:
        """What must be known to read the score."""
        own = [] if self.network.published else ["not comparable with any published FID, nor across data sets"]
        biased = [f"no more images than the {self.network.dimension} features: FID is far too high, compare it only at the same numbers of images"] if few else []
        return [self.network.about, *own, *biased]
