"""The kernel distance between two sets of features (KID, Binkowski et al. 2018): unlike FID its mean does not depend on how many images there are."""

from statistics import fmean, stdev

import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.keys import Key

SUBSETS, SIZE = 100, 1000


def discrepancy(one: Tensor, other: Tensor) -> float:
    """The unbiased estimate of MMD^2 with k(x, y) = (x'y / d + 1)^3, from as many features on both sides; it may be below 0."""
    n = len(one)
    within = sum(((gram := kernel(x, x)).sum() - gram.trace()).item() for x in (one, other))
    return within / (n * (n - 1)) - 2 * kernel(one, other).mean().item()


def kernel(one: Tensor, other: Tensor) -> Tensor:
    """(x'y / d + 1)^3 for every pair."""
    return (one @ other.T / one.shape[1] + 1) ** 3


def kernel_distance(one: Tensor, other: Tensor, key: Key, subsets: int = SUBSETS, size: int = SIZE) -> tuple[float, float]:
    """Mean and deviation of the discrepancy over subsets of each side; drawn without repetition, of `size` images or, so that subsets differ, half of the smaller side."""
    fewer = min(len(one), len(other))
    if fewer < 2 or subsets < 2:
        raise Problem(f"KID needs at least 2 images on both sides and 2 subsets, got {len(one)} and {len(other)} images and {subsets} subsets: give more")
    size = min(size, max(2, fewer // 2))
    sides = [features.double() for features in (one, other)]
    found = [discrepancy(*(draw(side, key.at(k, name), size) for side, name in zip(sides, ("one", "other")))) for k in range(subsets)]
    return fmean(found), stdev(found)


def draw(features: Tensor, key: Key, size: int) -> Tensor:
    """Some of the features, each once."""
    return features[torch.from_numpy(key.numpy().choice(len(features), size, replace=False))]
