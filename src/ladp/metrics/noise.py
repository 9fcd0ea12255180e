"""How long Gaussian noise is: the law of its norm, and the "noise scale" that the paper's tables sum up."""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from torch import nn

from ladp.errors import Problem
from ladp.params import Layout

SERIES = 100  # from this size on the difference of two log-gammas has lost more digits than the series leaves out


def expected_norm(sigma: float, size: ArrayLike) -> np.ndarray:
    """E||N(0, sigma^2 I_d)|| = sigma sqrt(2) Gamma((d+1)/2) / Gamma(d/2), the mean of the chi law, for every d in `size`."""
    return sigma * np.sqrt(np.asarray(size, float) - _spread(size))


def norm_deviation(sigma: float, size: ArrayLike) -> np.ndarray:
    """The standard deviation of ||N(0, sigma^2 I_d)||: sigma sqrt(d - E^2), close to sigma / sqrt(2) for large d."""
    return sigma * np.sqrt(_spread(size))


def expected_noise_scale(sizes: Sequence[int], sigma: float, rounds: int, active: int) -> float:
    """rounds * active * sum over entries of E||N(0, (sigma/active)^2 I_d)||: the noise is measured as it enters the mean of the cohort."""
    _check(sizes, sigma, rounds, active)
    return float(rounds * active * expected_norm(sigma / active, sizes).sum())


def noise_scale_deviation(sizes: Sequence[int], sigma: float, rounds: int, active: int) -> float:
    """The standard deviation of the same sum, all draws being independent."""
    _check(sizes, sigma, rounds, active)
    return float(np.sqrt(rounds * active * (norm_deviation(sigma / active, sizes) ** 2).sum()))


def noised_sizes(model: nn.Module, by: str = "tensor", state: str = "all", counters: bool = True) -> list[int]:
    """The sizes of what gets noise of its own: layers of the state and, with `counters`, integer buffers.

    The paper's 727,901 for ResNet-18 is met only if BatchNorm's 20 batch counters are noised like the 102 float tensors.
    """
    layout = Layout.of(model)
    sizes = [len(layer) for layer in layout.layers(by, state)]
    return sizes + [model.get_buffer(name).numel() for name in layout.counters if counters]


def _spread(size: ArrayLike) -> np.ndarray:
    # The variance at sigma 1. The series is that of d - 2 (Gamma((d+1)/2) / Gamma(d/2))^2 in powers of 1/d.
    size = np.asarray(size, float)
    small, large = np.minimum(size, SERIES), np.maximum(size, SERIES)
    direct = small - 2 * np.exp(2 * (gammaln((small + 1) / 2) - gammaln(small / 2)))
    return np.where(size < SERIES, direct, 0.5 - (1 / 8 + (1 / 16 - 5 / 128 / large) / large) / large)


def _check(sizes: Sequence[int], sigma: float, rounds: int, active: int) -> None:
    if not 0 <= sigma < inf:
        raise Problem(f"sigma must be finite and not negative, got {sigma}")
    if rounds < 0 or active < 1:
        raise Problem(f"rounds must not be negative and active must be at least 1, got {rounds} and {active}")
    if min(sizes, default=1) < 1:
        raise Problem(f"every size must be at least 1, got {min(sizes)}")
