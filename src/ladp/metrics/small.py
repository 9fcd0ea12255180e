"""Features for images that Inception was not made for (8x8 digits, letters): the last hidden layer of a small classifier trained on the data set itself.

Distances between them tell runs on one data set apart. They are no FID: no other classifier, and no other data set, gives the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from ladp.data import Dataset
from ladp.errors import Problem
from ladp.keys import Key, one_thread
from ladp.models.cnn import SmallCNN

LEAST, EPOCHS, BATCH, RATE = 1000, 3, 64, 1e-3
PART, SAMPLE = 500, 2000  # images at a time; about as many for the unit


def scale(images: Tensor) -> Tensor:
    """Bytes to [-1, 1]."""
    return images.float() / 127.5 - 1


def train(dataset: Dataset, key: Key, device: str = "cpu") -> SmallCNN:
    """A classifier of all real training images: Adam on batches of 64, three times over them and at least 1,000 steps; the same key, the same network, on any number of cores."""
    with key.at("initialisation").reign():
        model = SmallCNN(len(dataset.classes), dataset.channels, dataset.size).to(device)
    descent, picks = torch.optim.Adam(model.parameters(), RATE), key.at("batches").numpy()
    with one_thread():
        for _ in range(max(LEAST, EPOCHS * len(dataset) // BATCH)):
            picked = torch.from_numpy(picks.integers(0, len(dataset), BATCH))
            loss = F.cross_entropy(model(scale(dataset.images[picked].to(device))), dataset.labels[picked].to(device))
            descent.zero_grad()
            loss.backward()
            descent.step()
    return model.requires_grad_(False).eval()


def recognised(classify: Callable[[Tensor], Tensor], images: Tensor, labels: int | Tensor) -> float:
    """The share of images in [-1, 1] that a classifier (to logits [n, classes]) takes for what they should be; of generated images ask one that the generator never met."""
    if not len(images):
        raise Problem("there is no image to recognise: give at least one")
    labels = torch.as_tensor(labels, device=images.device).expand(len(images))
    with torch.no_grad():
        return sum(int((classify(x).argmax(1) == y).sum()) for x, y in zip(images.split(PART), labels.split(PART))) / len(images)


def hidden(model: SmallCNN, images: Tensor) -> Tensor:
    """What the last hidden layer says, after its ReLU, to images in [-1, 1]."""
    with torch.no_grad():
        return model.relu(model.fc1(model.flatten(model.features(images))))


@dataclass(frozen=True, eq=False)
class Small:
    """64 features in units of their root mean square over real images; `model` classifies images in [-1, 1], `accuracy` of the test images rightly."""

    model: SmallCNN
    name: str
    about: str
    accuracy: float
    unit: float
    device: str = "cpu"
    dimension: ClassVar[int] = 64
    published: ClassVar[bool] = False

    @staticmethod
    def of(dataset: Dataset, key: Key, device: str = "cpu") -> "Small":
        """Trained here, on the data set's own images."""
        if dataset.images.dtype != torch.uint8:
            raise Problem(f"{dataset.name} holds features, not images: score images of the data set as it was read")
        model = train(dataset, key, device)
        accuracy = recognised(model, scale(dataset.test_images.to(device)), dataset.test_labels.to(device))
        unit = hidden(model, scale(dataset.images[:: 1 + len(dataset) // SAMPLE].to(device))).square().mean().sqrt().item()
        about = f"hidden layer of a cnn-small trained here on {len(dataset):,} images of {dataset.name}, {accuracy:.1%} right on its test images"
        return Small(model, f"{dataset.name}-features", about, accuracy, unit, device)

    def __call__(self, images: Tensor) -> Tensor:
        """Bytes [n, C, H, W] to features [n, 64] in float32, on the CPU."""
        return hidden(self.model, scale(images.to(self.device))).cpu() / self.unit
