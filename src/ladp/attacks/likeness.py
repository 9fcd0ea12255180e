"""How like a class its forgeries are: what a classifier of the real thing takes them for, how near the nearest real images are, and distances between features."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ladp.data import Dataset
from ladp.metrics.fidelity import Fidelity
from ladp.training.local import normalise

MOST, BATCH, SEEN = 500, 500, 0.01  # real images of each class to be near to; images at a time; the least share that is told


@dataclass(frozen=True, eq=False)
class Likeness:
    """A data set that has every class, a classifier trained on all its real training images, and features to compare in."""

    dataset: Dataset
    judge: Fidelity
    fidelity: Fidelity
    device: str

    @staticmethod
    def of(dataset: Dataset, features: str, device: str) -> "Likeness":
        """The judge depends on the data set alone, so one judge scores all attacks on it."""
        judge = Fidelity.of("small", dataset, device)
        return Likeness(dataset, judge, judge if features == "small" else Fidelity.of(features, dataset, device), device)

    def score(self, images: Tensor, label: int) -> dict[str, Any]:
        """Of images in [-1, 1] that should show the class: the share that is recognised and what the others are taken for; root mean square difference to the
        nearest real image of the class and of the nearest other class, and by how much the class is nearer; FID and KID to all real training images of the class."""
        taken, real = self.taken(images), self.dataset.images[self.dataset.labels == label]
        near = self.distances(images)
        other = min((c for c in range(len(near)) if c != label), key=near.__getitem__)
        far = self.fidelity.compare(real, images.cpu())
        return {
            "margin": near[other] - near[label], "distance": near[label], "distance_other": near[other], "nearest_other": self.dataset.classes[other], "fid": far["fid"], "kid": far["kid"], "recognised": taken[label],
            "taken_for": {self.dataset.classes[c]: taken[c] for c in sorted(range(len(taken)), key=taken.__getitem__, reverse=True) if taken[c] >= SEEN},
        }  # fmt: skip

    @torch.no_grad()
    def taken(self, images: Tensor) -> list[float]:
        """The share of the images that the judge takes for each class."""
        model = self.judge.network.model
        found = torch.cat([model(part.to(self.device, torch.float32)).argmax(1).cpu() for part in images.split(BATCH)])
        return (torch.bincount(found, minlength=len(self.dataset.classes)).double() / len(found)).tolist()

    def distances(self, images: Tensor) -> list[float]:
        """For each class, the mean over the images of the root mean square difference to the nearest of its real images: as many of each class, for more are nearer."""
        flat = images.flatten(1).to(self.device, torch.float32)
        return [torch.cdist(flat, real).min(1).values.mean().item() / flat.shape[1] ** 0.5 for real in self.gallery()]

    def gallery(self) -> list[Tensor]:
        """The first real training images of each class, flat and in [-1, 1]."""
        count = min(MOST, int(torch.bincount(self.dataset.labels, minlength=len(self.dataset.classes)).min()))
        chosen = (self.dataset.images[self.dataset.labels == c][:count] for c in range(len(self.dataset.classes)))
        return [normalise(images.to(self.device)).flatten(1) for images in chosen]
