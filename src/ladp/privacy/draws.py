"""Gaussians of unsampled records over a course: exact, where who takes part is certain and where it is drawn."""

from functools import lru_cache
from math import inf, sqrt

import numpy as np
from scipy.special import erfcx, ndtr
from scipy.stats import binom

from ladp.privacy import gaussian
from ladp.privacy.course import Course

LEFT = 1e-3  # share of delta left to numbers of participations too large to begin with
KINDS = 4096  # of numbers of participations


def epsilon_of(course: Course, delta: float) -> float:
    """Epsilon of unsampled Gaussians; the mean over participations is bisected, and what is returned has been seen to hold."""
    if course.chance == 1:
        return gaussian.epsilon_of(course.multiplier, delta)
    most = int(binom.isf(delta * LEFT, course.rounds, course.chance))
    upper = gaussian.epsilon_of(course.multiplier / sqrt(max(most, 1)), delta * (1 - LEFT))
    lower = 0.0
    while upper - lower > 1e-9 * upper and upper < inf:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if delta_of(course, middle) <= delta else (middle, upper)
    return upper


def delta_of(course: Course, epsilon: float) -> float:
    """E_n[delta_n(epsilon)] of unsampled Gaussians, n ~ Binomial(rounds, chance)."""
    if course.chance == 1:
        return float(_gaussian(epsilon, np.array([course.multiplier]))[0])
    number, chances, beyond = _participations(course.rounds, course.chance)
    return float(chances @ _gaussian(epsilon, course.multiplier / np.sqrt(number))) + beyond


@lru_cache(maxsize=64)
def _participations(rounds: int, chance: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The numbers n ~ Binomial(rounds, chance) that matter, how likely each is, and at most how likely one above them: 9 standard deviations and 60, or all."""
    mean = rounds * chance
    reach = 9 * sqrt(mean * (1 - chance)) + 60
    number = np.arange(max(1, int(mean - reach)), min(rounds, int(mean + reach)) + 1)
    below = binom.cdf(number[0] - 1, rounds, chance) if number[0] > 1 else 0.0
    chances = binom.pmf(number, rounds, chance) * (1 + 1e-9)
    chances[0] += below
    beyond = float(binom.sf(number[-1], rounds, chance)) * (1 + 1e-9)
    stride = len(number) // KINDS + 1  # numbers that are near one another count as the largest of them: delta_n does not fall in n
    first = np.arange(0, len(number), stride)
    return number[np.minimum(first + stride, len(number)) - 1], np.add.reduceat(chances, first), beyond


def _gaussian(epsilon: float, sigma: np.ndarray) -> np.ndarray:
    """`ladp.privacy.gaussian.delta_of` of many sigmas at once, for epsilon 0 too."""
    a, b = 0.5 / sigma - epsilon * sigma, 0.5 / sigma + epsilon * sigma
    density = 0.5 * np.exp(-a * a / 2)
    near = np.where(a >= 0, ndtr(a), density * erfcx(np.maximum(-a, 0) / sqrt(2)))
    return np.maximum(0.0, near - density * erfcx(b / sqrt(2)))
