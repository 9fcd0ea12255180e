"""FEMNIST: 62 kinds of handwritten characters, grey 28x28 with white (255) paper, writers kept.

S. Caldas et al. (2018), "LEAF: A Benchmark for Federated Settings". LEAF publishes a script, not files: what it writes depends on its
options, so LEAF's JSON is checked for consistency and its digests are reported; the packed `femnist.npz` must have its published digest.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ladp.data.dataset import Archive, Dataset, Reading, pair
from ladp.data.files import content_of, digest_of, verify
from ladp.errors import Problem

CLASSES = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
SCRIPT = "https://github.com/TalwalkarLab/leaf, data/femnist: ./preprocess.sh -s niid --sf 0.05 -k 100 -t sample --tf 0.9"
Part = tuple[np.ndarray, np.ndarray, np.ndarray]  # images, labels, writers' names
Written = tuple[str, np.ndarray, np.ndarray]  # a writer's name, images and labels


@dataclass(frozen=True)
class Femnist:
    """Characters by writer, from `femnist.npz` or LEAF's JSON, under `root` or `root`/femnist."""

    name: str = "femnist"
    archive: Archive | None = None
    digest: str = "sha256:f4c36d1c693eeecf0271dff3a9154bf1067deb5d0e7dbdb8bfdbccb27d249e86"

    def read(self, root: Path) -> Reading:
        """The packed file if it is there, else LEAF's JSON."""
        for folder in (root / "femnist", root):
            if (folder / "femnist.npz").is_file():
                return self.unpack(folder / "femnist.npz", root)
            train, test = find(folder)
            if train:
                return self.gather(train, test)
        raise Problem(f"no femnist under {root}; {self.by_hand(root)}")

    def by_hand(self, root: Path) -> str:
        """LEAF's own script, and where its result goes."""
        return (
            f"by hand: run LEAF's script ({SCRIPT}) and put its folders data/train and data/test into {root / 'femnist'}, "
            f"then `ladp data check femnist --root {root}`"
        )

    def unpack(self, path: Path, root: Path) -> Reading:
        """`x` [N, 28, 28], `y`, `writer` and `split` (0 train, 1 test)."""
        content = verify(content_of(path), self.digest, path, f"delete it, or {self.by_hand(root)}")
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                columns, held = [arrays[key] for key in ("x", "y", "writer")], arrays["split"] == 1
        except (ValueError, KeyError) as error:
            raise Problem(f"{path} is not the packed data set ({error}): delete it, or {self.by_hand(root)}") from error
        train, test = (tuple(column[rows] for column in columns) for rows in (~held, held))
        return Reading(self.build(train, test), "npz", {path.name: self.digest})

    def gather(self, train: list[Path], test: list[Path]) -> Reading:
        """LEAF's training and test files; with `all_data` alone, every tenth image of a writer is for testing."""
        digests: dict[str, str] = {}
        parts = [stack(users(paths, digests)) for paths in ((train, test) if test else (train,))]
        return Reading(self.build(*(parts if test else tenth(*parts))), "leaf", digests)

    def build(self, train: Part, test: Part) -> Dataset:
        """Writers numbered in the order of their names."""
        for _, labels, _ in (train, test):
            if not len(labels) or not 0 <= labels.min() <= labels.max() < len(CLASSES):
                raise Problem(f"femnist needs training and test images with labels 0 to {len(CLASSES) - 1}; run LEAF's script again")
        writers = torch.from_numpy(np.unique(train[2], return_inverse=True)[1].astype(np.int64))
        pairs = (pair(images.reshape(-1, 1, 28, 28), labels) for images, labels, _ in (train, test))
        return Dataset(self.name, *next(pairs), *next(pairs), CLASSES, writers)


def find(folder: Path) -> tuple[list[Path], list[Path]]:
    """LEAF's files: train and test folders, or both in one, else all_data alone."""
    for place in (folder, folder / "data"):
        train, test = (sorted([*place.glob(f"{kind}/*.json"), *place.glob(f"*_{kind}*.json")]) for kind in ("train", "test"))
        if train and test:
            return train, test
    whole = [path for place in (".", "all_data", "data/all_data") for path in sorted((folder / place).glob("all_data_*.json"))]
    return [path for path in whole if "_train" not in path.name and "_test" not in path.name], []


def users(paths: list[Path], digests: dict[str, str]) -> Iterator[Written]:
    """Name, images and labels of every writer; each file's digest is noted, each file's counts must agree."""
    for path in paths:
        content = content_of(path)
        digests[f"{path.parent.name}/{path.name}"] = digest_of(content, "sha256")
        try:
            held = json.loads(content)
            pairs = list(zip(held["users"], held["num_samples"], strict=True))
            yield from ((user, *writing(held["user_data"][user], count, user)) for user, count in pairs)
        except (ValueError, KeyError, TypeError) as error:
            raise Problem(f"{path} is not LEAF's JSON ({error!r}): it is damaged or cut short; run LEAF's script again") from error


def writing(held: dict, count: int, user: str) -> tuple[np.ndarray, np.ndarray]:
    """One writer's images as bytes and labels, from floats 0..1 where 1 is paper."""
    values, labels = np.array(held["x"], np.float64).reshape(-1, 784), np.array(held["y"], np.int64)
    if not len(values) == len(labels) == count:
        raise ValueError(f"writer {user} has {len(values)} images and {len(labels)} labels, announced {count}")
    if values.size and not 0 <= values.min() <= values.max() <= 1:
        raise ValueError(f"writer {user} has pixels outside 0 to 1")
    return np.rint(values * 255).astype(np.uint8), labels


def stack(written: Iterator[Written]) -> Part:
    """All writers' images, labels and names, one row an image."""
    held = list(written)
    if not held:
        raise Problem("femnist: LEAF's files name no writers; run LEAF's script again")
    names, images, labels = zip(*held)
    return np.concatenate(images), np.concatenate(labels), np.repeat(np.array(names), [len(own) for own in labels])


def tenth(whole: Part) -> tuple[Part, Part]:
    """Training and test: every tenth image of each writer, in the order of the file, is for testing."""
    _, writers, counts = np.unique(whole[2], return_inverse=True, return_counts=True)
    rank = np.empty(len(writers), np.int64)
    rank[np.argsort(writers, kind="stable")] = np.concatenate([np.arange(count) for count in counts])
    return tuple(tuple(part[rows] for part in whole) for rows in (rank % 10 != 9, rank % 10 == 9))
