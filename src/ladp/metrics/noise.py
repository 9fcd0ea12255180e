"""How long Gaussian noise is: the law of its norm, and the "noise scale" that the paper's tables sum up."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from ladp.errors import Problem

SERIES = 100  # from this size on the difference of two log-gammas has lost more digits than the series leaves out


def expected_norm(sigma: ArrayLike, size: ArrayLike) -> np.ndarray:
    """E||N(0, sigma^2 I_d)|| = sigma sqrt(2) Gamma((d+1)/2) / Gamma(d/2), the mean of the chi law, for every d in `size`."""
    return np.asarray(sigma, float) * np.sqrt(np.asarray(size, float) - _spread(size))


def norm_deviation(sigma: ArrayLike, size: ArrayLike) -> np.ndarray:
    """The standard deviation of ||N(0, sigma^2 I_d)||: sigma sqrt(d - E^2), close to sigma / sqrt(2) for large d."""
    return np.asarray(sigma, float) * np.sqrt(_spread(size))


def expected_noise_scale(sizes: Sequence[int], sigma: ArrayLike, rounds: int, active: int) -> float:
    """active * sum over rounds and entries of E||N(0, (sigma/active)^2 I_d)||: the noise is measured as it enters the mean of the cohort.

    `sigma` is one number, or one for each round and entry: [rounds, entries], or what numpy broadcasts to that.
    """
    return float(active * expected_norm(_checked(sizes, sigma, rounds, active) / active, sizes).sum())


def noise_scale_deviation(sizes: Sequence[int], sigma: ArrayLike, rounds: int, active: int) -> float:
    """The standard deviation of the same sum, all draws being independent."""
    return float(np.sqrt(active * (norm_deviation(_checked(sizes, sigma, rounds, active) / active, sizes) ** 2).sum()))


def noise_scale(records: Iterable[Mapping[str, Any]]) -> float:
    """The noise scale of a run from its records: the sum over rounds, clients and entries of ||n||, counted after division by the cohort."""
    return sum(sum(record["noise"].values()) for record in records)


def noise_per_coordinate(records: Sequence[Mapping[str, Any]], sizes: Mapping[str, int]) -> float:
    """The noise of a coordinate after division by the cohort: ||n|| / sqrt(d) of each entry, averaged over rounds, clients and coordinates.

    For the same sigma everywhere this is sigma / K, whatever the model; the noise scale itself grows with its size and its number of entries.
    """
    total = sum(norm * sqrt(sizes[name]) / len(record["clients"]) for record in records for name, norm in record["noise"].items())
    return total / (len(records) * sum(sizes.values()))


def _spread(size: ArrayLike) -> np.ndarray:
    # The variance at sigma 1. The series is that of d - 2 (Gamma((d+1)/2) / Gamma(d/2))^2 in powers of 1/d.
    size = np.asarray(size, float)
    small, large = np.minimum(size, SERIES), np.maximum(size, SERIES)
    direct = small - 2 * np.exp(2 * (gammaln((small + 1) / 2) - gammaln(small / 2)))
    return np.where(size < SERIES, direct, 0.5 - (1 / 8 + (1 / 16 - 5 / 128 / large) / large) / large)


def _checked(sizes: Sequence[int], sigma: ArrayLike, rounds: int, active: int) -> np.ndarray:
    sigma = np.asarray(sigma, float)
    if not ((sigma >= 0) & (sigma < inf)).all():
        raise Problem(f"sigma must be finite and not negative, got {sigma[~((sigma >= 0) & (sigma < inf))].flat[0]:g}")
    if rounds < 0 or active < 1:
        raise Problem(f"rounds must not be negative and active must be at least 1, got {rounds} and {active}")
    if min(sizes, default=1) < 1:
        raise Problem(f"every size must be at least 1, got {min(sizes)}")
    return np.broadcast_to(sigma, (rounds, len(sizes)))
