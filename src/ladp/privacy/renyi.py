"""Renyi accounting of Gaussians of sampled records: never below the truth, at any size, and a few per cent above it at most sizes.

One release of records drawn at rate q, noise z, has Renyi divergence of whole order a at most
D_a = ln(sum_k binom(a, k) q^k (1 - q)^(a - k) e^(k (k - 1) / (2 z^2))) / (a - 1) (Mironov, Talwar & Zhang 2019, equation 3); divergences of one order add up.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, log, log1p, pi, sqrt

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

WHOLE = np.unique([1, *range(2, 65), *(int(64 * 1.2**i) for i in range(1, 24))])
ORDERS = np.unique(np.concatenate([1 + np.geomspace(0.01, 1, 40), np.arange(2, 12, 0.1), WHOLE[1:]]))
SAFE = 1 + 1e-9  # above the rounding of the sums


@lru_cache(maxsize=256)
def divergence(multiplier: float, rate: float) -> np.ndarray:
    """D_a of one release at every order; between whole orders by the convexity of (a - 1) D_a in a, or by integration."""
    if rate == 1:
        return ORDERS * (0.5 / multiplier / multiplier)
    whole = [0.0, *(float(order - 1) * _divergence(multiplier, rate, int(order)) for order in WHOLE[1:])]
    above = np.interp(ORDERS, WHOLE, whole)
    if 0.1 <= multiplier <= 100:
        orders = ORDERS[ORDERS < (12 if multiplier >= 0.35 else 3)]  # above, the integrand overflows
        above[: len(orders)] = np.minimum(above[: len(orders)], _integrated(multiplier, rate, orders))
    return above / (ORDERS - 1)


def _integrated(z: float, rate: float, orders: np.ndarray) -> np.ndarray:
    """(a - 1) D_a = ln E (1 + u)^a, u = q (e^((2x - 1) / (2 z^2)) - 1), x ~ N(0, z^2), at small orders, where convexity says little.

    By the trapezoidal rule, whose error falls exponentially in the distance pi z^2 of the integrand's singularities from the real line;
    E u = 0 is used to sum only what is positive, and 1e-14 is added for rounding.
    """
    step = min(z / 8, z * z / 2)
    x = np.arange(-12 * z, orders[-1] + 12 * z, step)
    u = np.logaddexp(log1p(-rate), log(rate) + (2 * x - 1) / (2 * z * z))
    density = -x * x / (2 * z * z) + log(step / z / sqrt(2 * pi))
    power = orders[:, None] * u
    summed = np.exp(power + density) - np.exp(density) - orders[:, None] * (np.exp(u + density) - np.exp(density))
    return np.log1p(np.maximum(summed, 0).sum(1) + 1e-14) * SAFE


def _divergence(multiplier: float, rate: float, order: int) -> float:
    # The sum above its first terms, which make 1: so small divergences keep their digits.
    k = np.arange(2, order + 1)
    size = k * (k - 1) * (0.5 / multiplier / multiplier)
    chance = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1) + xlogy(k, rate) + (order - k) * log1p(-rate)
    with np.errstate(divide="ignore"):
        above = logsumexp(chance + size + np.log(-np.expm1(-size)))
    return float(np.logaddexp(0, above) / (order - 1) * SAFE)


def composed(turn: Sequence[tuple[float, float, int]], rounds: int, chance: float) -> np.ndarray:
    """D_a of `rounds` rounds, in each of which the releases of `turn` (multiplier, rate, times) are made with `chance`, and whether they are is public.

    Over the draw of one round E e^((a - 1) D) = 1 - chance + chance e^((a - 1) D_a), exactly.
    """
    one = sum((times * divergence(multiplier, rate) for multiplier, rate, times in turn), np.zeros(len(ORDERS)))
    if chance < 1:
        with np.errstate(divide="ignore"):
            above = log(chance) + (ORDERS - 1) * one + np.log(-np.expm1(-(ORDERS - 1) * one))
        one = np.logaddexp(0, above) / (ORDERS - 1) * SAFE
    return rounds * one


def epsilon_of(divergences: np.ndarray, delta: float) -> float:
    """The least epsilon over the orders (Canonne, Kamath & Steinke 2020, Proposition 12); 0 where `variation` is already below delta."""
    if variation(divergences) <= delta:
        return 0.0
    each = divergences + np.log1p(-1 / ORDERS) - (log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(np.min(each)))


def delta_of(divergences: np.ndarray, epsilon: float) -> float:
    """The least delta over the orders at an epsilon."""
    each = (ORDERS - 1) * (divergences - epsilon + np.log1p(-1 / ORDERS)) - np.log(ORDERS)
    least = float(np.min(each))
    return min(exp(least) if least < 0 else 1.0, variation(divergences))


def variation(divergences: np.ndarray) -> float:
    """No delta is ever larger than sqrt(D_1 / 2) (Pinsker), and D_1 is at most D_a."""
    return min(1.0, float(np.sqrt(divergences[0] / 2))) if divergences[0] < inf else 1.0
