"""What a data set is once it has been read, and what every source of one offers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from ladp.errors import Problem
from ladp.keys import Key


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as bytes [N, C, H, W], or features in their place, and labels [N], for training and for testing; `writers` [N] says who made each training image.

    With `chosen` the training records are those of `images` alone, in this order, and `writers` are theirs: many choices can then share one tensor of images.
    """

    name: str
    images: torch.Tensor
    labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor
    classes: tuple[str, ...]
    writers: torch.Tensor | None = None
    chosen: torch.Tensor | None = None

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return self.images.shape[1]

    @property
    def size(self) -> int:
        """Height of an image, which is also its width."""
        return self.images.shape[2]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Reading:
    """A data set with what it was read from: the layout found and the digest of every file."""

    dataset: Dataset
    layout: str
    digests: dict[str, str]


@dataclass(frozen=True)
class Archive:
    """A file at its publisher's address: what `ladp data get` fetches."""

    url: str
    digest: str

    @property
    def file(self) -> str:
        """The name it has under the data directory."""
        return self.url.rsplit("/", 1)[-1]


class Source(Protocol):
    """One entry of the table of data sets: reading checks the digest of every published file."""

    name: str
    archive: Archive | None

    def read(self, root: Path) -> Reading:
        """The data set from its files under `root`."""
        ...

    def by_hand(self, root: Path) -> str:
        """What to do when nothing can be fetched, in one line."""
        ...


def pair(images: np.ndarray, labels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as byte tensor and labels as int64 tensor, copied only where the memory is read-only or not in order."""
    ready = (np.require(array, kind, ["C", "W"]) for array, kind in ((images, np.uint8), (labels, np.int64)))
    return tuple(map(torch.from_numpy, ready))


def hold_out(dataset: Dataset, share: float) -> Dataset:
    """A share of the training records in place of the test set, for choosing settings: the same records in every run, whatever its seed."""
    order = torch.from_numpy(Key(0).at("validation", dataset.name).numpy().permutation(len(dataset)))
    if not 0 < (cut := round(share * len(dataset))) < len(dataset):
        raise Problem(f"validation = {share:g} holds {cut:,} of the {len(dataset):,} training records of {dataset.name} out: there must be records to test on and to train on")
    held, left = order[:cut], order[cut:].sort().values
    writers = None if dataset.writers is None else dataset.writers[left]
    return Dataset(dataset.name, dataset.images[left], dataset.labels[left], dataset.images[held], dataset.labels[held], dataset.classes, writers)
