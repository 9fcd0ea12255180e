"""Features in place of pixels: what is fixed beforehand and looks at one record at a time costs no privacy.

A front-end takes each record by itself, and no data had a part in its numbers. Data sets that differ in a record still differ in that record
alone when their records have become features, so every guarantee about the features is one about the records (Tramer and Boneh 2021).
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from ladp.data.dataset import Dataset
from ladp.data.imagined import imagined
from ladp.data.scattering import Scattering
from ladp.errors import Problem, choose

BATCH = 10  # images at a time: what fits the caches of a core
GROUPS = 27  # of channels
IMAGINED, SMOOTH = 1000, 2.0  # images to whiten by; how much of the channels' likeness is left: less, and noise is spent on directions in which images hardly differ
VERSION = "3"  # of the numbers: another one is another address in the cache
Front = Callable[[Tensor, str], Tensor]
Progress = Callable[[int, int], None]  # images done, images in all


def scattering(images: Tensor, device: str = "cpu") -> Tensor:
    """Scattering of order 2 at J = 2, L = 8, by groups: 81 coefficients of each channel on a quarter of the side, 243 x 8 x 8 for CIFAR."""
    return normalise_groups(Scattering(images.shape[-1], device=device)(images))


def normalise_groups(features: Tensor, groups: int = GROUPS) -> Tensor:
    """Mean 0 and variance 1 over each group of neighbouring channels of one record: what other records are does not matter."""
    return F.group_norm(features, groups)


def whitened(images: Tensor, device: str = "cpu") -> Tensor:
    """The same, moved and turned so that on imagined images its channels have mean 0, deviations that are alike and less to do with each other: nobody's images say how."""
    mean, turn = whitening(images.shape[1], images.shape[-1], device)
    return torch.einsum("oc,nchw->nohw", turn, scattering(images, device) - mean)


@cache
def whitening(channels: int, size: int, device: str) -> tuple[Tensor, Tensor]:
    """The mean [C, 1, 1] of every channel over imagined images and all places, and (R + s I)^(-1/2) D^(-1), R their correlations, D their deviations: [C, C]."""
    features = torch.cat([scattering(part, device) for part in imagined(IMAGINED, channels, size).split(BATCH)]).double().transpose(0, 1).flatten(1)
    mean = features.mean(1, keepdim=True)
    deviation = (features - mean).square().mean(1, keepdim=True).sqrt()
    centred = (features - mean) / deviation
    lengths, directions = torch.linalg.eigh(centred @ centred.T / centred.shape[1])
    turn = directions @ torch.diag((lengths.clamp_min(0) + SMOOTH).rsqrt()) @ directions.T / deviation.T
    return mean.float().unsqueeze(2), turn.float()


FEATURES: dict[str, Front] = {"scattering": scattering, "whitened": whitened}


def featurise(dataset: Dataset, name: str, cache: Path | None = None, device: str = "cpu", progress: Progress = lambda done, total: None) -> Dataset:
    """The data set with features [N, C, H, W] in float16 for images; they are made once, and read from the cache afterwards."""
    front, folder = FEATURES[choose("features", name, FEATURES)], cache or cache_folder()
    first, total = len(dataset.images), len(dataset.images) + len(dataset.test_images)

    def kept(images: Tensor, before: int) -> Tensor:
        path = folder / f"{name}-{address(images)}.safetensors"
        if (found := recall(path)) is None:
            keep(path, found := make(images, front, device, lambda done: progress(before + done, total)))
        progress(before + len(images), total)
        return found

    return replace(dataset, images=kept(dataset.images, 0), test_images=kept(dataset.test_images, first))


def cache_folder() -> Path:
    """Where features are kept: $LADP_CACHE, else ~/.cache/ladp/features."""
    return Path(os.environ.get("LADP_CACHE") or "~/.cache/ladp/features").expanduser()


def address(images: Tensor) -> str:
    """What the features of these images are found by."""
    if images.dtype != torch.uint8:
        raise Problem(f"features are made of images in bytes, got {images.dtype}: give the data set as it was read")
    return _digest(images, f"{VERSION} {tuple(images.shape)}")[:32]


def make(images: Tensor, front: Front, device: str, progress: Callable[[int], None]) -> Tensor:
    """The features of all images in float16, on the CPU."""
    found: Tensor | None = None
    for at in range(0, len(images), BATCH):
        part = front(images[at : at + BATCH], device)
        found = torch.empty(len(images), *part.shape[1:], dtype=torch.float16) if found is None else found
        found[at : at + BATCH] = part
        progress(at)
    if found is None:
        raise Problem("features were asked for, but there are no images: give at least one")
    return found


def recall(path: Path) -> Tensor | None:
    """The features in a file of the cache; None if there is none, or if one bit of it is not as it was written."""
    try:
        with safe_open(path, "pt") as file:
            features, digest = file.get_tensor("features"), (file.metadata() or {}).get("sha256")
    except (OSError, SafetensorError):
        return None
    return features if digest == _digest(features) else None


def keep(path: Path, features: Tensor) -> None:
    """Write a file of the cache whole or not at all; two processes that make the same do not meet."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"features": features}, beside, {"sha256": _digest(features)})
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except (OSError, SafetensorError) as error:
        raise Problem(f"cannot write {path}: {error}; free some space, or name another folder in LADP_CACHE") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _digest(tensor: Tensor, about: str = "") -> str:
    """sha256 of a tensor's bytes, and of what is said of it."""
    total = hashlib.sha256(about.encode())
    total.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return total.hexdigest()
