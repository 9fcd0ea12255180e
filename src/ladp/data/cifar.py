"""CIFAR-10 and CIFAR-100 as their author publishes them: binary or python files, in a folder or still in the archive.

A. Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images"; MD5 of the archives from the page that offers them.
"""

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ladp.data import cifar_files, pickles
from ladp.data.dataset import Archive, Dataset, Reading, pair
from ladp.data.files import content_of, verify
from ladp.errors import Problem

PIXELS = 3 * 32 * 32
SITE = "https://www.cs.toronto.edu/~kriz/"
Decode = Callable[[bytes, str, int], tuple[np.ndarray, np.ndarray]]


def decode_binary(content: bytes, file: str, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Records of one label byte (CIFAR-100: coarse, then fine) and 3,072 pixels in channel, row, column order."""
    width = PIXELS + (1 if classes == 10 else 2)
    if not content or len(content) % width:
        raise Problem(f"{file} has {len(content):,} bytes, not whole records of {width}: fetch it again")
    records = np.frombuffer(content, np.uint8).reshape(-1, width)
    return records[:, -PIXELS:], records[:, -PIXELS - 1]


def decode_python(content: bytes, file: str, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """A pickled dict with b"data" [N, 3072] and b"labels" (CIFAR-100: b"fine_labels")."""
    held = pickles.loads(content, file)
    batch = held if isinstance(held, dict) else {}
    images, labels = batch.get(b"data"), batch.get(b"labels" if classes == 10 else b"fine_labels")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != PIXELS:
        raise Problem(f"{file} holds no images: fetch it again")
    if not isinstance(labels, list) or len(labels) != len(images) or any(type(label) is not int for label in labels):
        raise Problem(f"{file} does not hold one label an image: fetch it again")
    return images, np.array(labels)


@dataclass(frozen=True)
class Layout:
    """One published form: the files of the two splits with their digests, and the archive that holds them all."""

    name: str
    decode: Decode
    train: dict[str, str]
    test: dict[str, str]
    archive: Archive

    @property
    def files(self) -> dict[str, str]:
        """Every file with its digest."""
        return self.train | self.test

    def missing(self, root: Path) -> list[str]:
        """Files of this form that are not under `root`."""
        return [file for file in self.files if not (root / file).is_file()]


@dataclass(frozen=True)
class Cifar:
    """32x32 colour images, 50,000 to train and 10,000 to test."""

    name: str
    classes: tuple[str, ...]
    layouts: tuple[Layout, ...]

    @property
    def archive(self) -> Archive:
        """The one to fetch: the binary form needs no pickle."""
        return self.layouts[0].archive

    def by_hand(self, root: Path) -> str:
        """The archive, where to put it, and the digest it must have."""
        return (
            f"by hand: download {self.archive.url} into {root} (expected {self.archive.digest}), "
            f"then `ladp data check {self.name} --root {root}`"
        )

    def read(self, root: Path) -> Reading:
        """From the first form that is complete under `root`: folders before archives, binary before python."""
        layout, packed = self.find(root)
        contents, digests = self.unpack(root, layout) if packed else self.collect(root, layout)
        train, test = (self.decode(layout, contents, files) for files in (layout.train, layout.test))
        form = f"{layout.name} {'archive' if packed else 'folder'}"
        return Reading(Dataset(self.name, *train, *test, self.classes), form, digests)

    def find(self, root: Path) -> tuple[Layout, bool]:
        """The form to read and whether it is still packed; a Problem that names what is missing."""
        for layout in self.layouts:
            if not layout.missing(root):
                return layout, False
        for layout in self.layouts:
            if (root / layout.archive.file).is_file():
                return layout, True
        nearest = min(self.layouts, key=lambda layout: len(layout.missing(root)))
        raise Problem(f"{self.name} is not complete under {root}: {nearest.missing(root)[0]} is missing; {self.remedy(root)}")

    def remedy(self, root: Path) -> str:
        """How to get a good copy."""
        return f"run `ladp data get {self.name} --root {root}`"

    def collect(self, root: Path, layout: Layout) -> tuple[dict[str, bytes], dict[str, str]]:
        """The files of a folder, each verified."""
        mend = f"delete it and {self.remedy(root)}"
        read = lambda file: verify(content_of(root / file), layout.files[file], root / file, mend, layout.files)
        return {file: read(file) for file in layout.files}, layout.files

    def unpack(self, root: Path, layout: Layout) -> tuple[dict[str, bytes], dict[str, str]]:
        """The files inside the archive, which is verified as a whole and never written out."""
        path, archives = root / layout.archive.file, {other.archive.file: other.archive.digest for other in self.layouts}
        mend = f"delete it and {self.remedy(root)}"
        content = verify(content_of(path), layout.archive.digest, path, mend, archives)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            members = (member for member in tar if member.isfile() and member.name in layout.files)
            contents = {member.name: tar.extractfile(member).read() for member in members}
        return contents, {path.name: layout.archive.digest}

    def decode(self, layout: Layout, contents: dict[str, bytes], files: dict[str, str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of one split, in the published order."""
        parts = [layout.decode(contents[file], file, len(self.classes)) for file in files]
        images, labels = np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])
        if not 0 <= labels.min() <= labels.max() < len(self.classes):
            found = f"{labels.min()} to {labels.max()}"
            raise Problem(f"{self.name} has labels 0 to {len(self.classes) - 1}, {next(iter(files))} has {found}: fetch it again")
        return pair(images.reshape(-1, 3, 32, 32), labels)


def layout(name: str, decode: Decode, train: dict[str, str], test: dict[str, str], archive: str) -> Layout:
    """A form with its archive at the publisher's address."""
    return Layout(name, decode, train, test, Archive(SITE + archive, cifar_files.ARCHIVES[archive]))


CIFAR10 = Cifar(
    "cifar10",
    cifar_files.CIFAR10_CLASSES,
    (
        layout("binary", decode_binary, cifar_files.CIFAR10_BINARY_TRAIN, cifar_files.CIFAR10_BINARY_TEST, "cifar-10-binary.tar.gz"),
        layout("python", decode_python, cifar_files.CIFAR10_PYTHON_TRAIN, cifar_files.CIFAR10_PYTHON_TEST, "cifar-10-python.tar.gz"),
    ),
)
CIFAR100 = Cifar(
    "cifar100",
    cifar_files.CIFAR100_CLASSES,
    (
        layout("binary", decode_binary, cifar_files.CIFAR100_BINARY_TRAIN, cifar_files.CIFAR100_BINARY_TEST, "cifar-100-binary.tar.gz"),
        layout("python", decode_python, cifar_files.CIFAR100_PYTHON_TRAIN, cifar_files.CIFAR100_PYTHON_TEST, "cifar-100-python.tar.gz"),
    ),
)
