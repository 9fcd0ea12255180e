"""Data sets by name; a new one is one file and one line of the table."""

import os
from pathlib import Path

from ladp.data.cifar import CIFAR10, CIFAR100
from ladp.data.dataset import Dataset, Reading, Source, hold_out
from ladp.data.digits import Digits
from ladp.data.features import FEATURES, featurise
from ladp.data.femnist import Femnist
from ladp.errors import choose

__all__ = ["DATA", "FEATURES", "Dataset", "Reading", "directory", "featurise", "hold_out", "load", "read"]

DATA: dict[str, Source] = {source.name: source for source in (Digits(), CIFAR10, CIFAR100, Femnist())}


def directory(root: str | Path | None = None) -> Path:
    """Where the files are: `root`, else $LADP_DATA, else ~/.cache/ladp."""
    return Path(root or os.environ.get("LADP_DATA") or "~/.cache/ladp").expanduser()


def read(name: str, root: str | Path | None = None) -> Reading:
    """The data set, the layout it was found in and the digests of its files, every published file checked."""
    return DATA[choose("data set", name, DATA)].read(directory(root))


def load(name: str, root: str | Path | None = None, validation: float = 0.0, features: str | None = None) -> Dataset:
    """The data set of that name from its files under `root`, every published file checked; with `features`, `featurise`, and with a `validation` share, `hold_out` of it."""
    dataset = read(name, root).dataset
    dataset = featurise(dataset, features) if features else dataset
    return hold_out(dataset, validation) if validation else dataset
