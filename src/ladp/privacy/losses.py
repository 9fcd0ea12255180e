"""Privacy loss distributions of Gaussians of sampled records, by dp-accounting, at an interval chosen from the size of the problem.

Losses are rounded to a grid in such a way that no delta falls (Doroshenko et al. 2022), for adding and for removing a record; the larger counts.
A coarser grid is a weaker claim, never a wrong one, so the interval is free: fine enough to cost 0.03 per cent where that fits into memory and time.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import expm1, floor, inf, log, log1p, log2, sqrt
from typing import Any

import numpy as np

from ladp.errors import Problem

FINE = 3e-4  # what rounding may add to epsilon, relatively, where the limits below leave room
SINGLE, WHOLE = 25_000, 250_000  # points of one release, of all of them
LONGEST = 2 * 10**6  # releases
ROUNDING = 2e-15  # set aside from delta for floating point, a composition; against closed forms none of it was ever used
STEADY = 2e-15  # below sqrt(this, times releases, times their width) rounding of the probabilities of an interval adds up to something
TAIL = 10.0  # standard deviations of the noise that are on the grid
Release = tuple[float, float, int]  # multiplier, rate, times


def library() -> Any:
    """dp_accounting's privacy loss distributions, loaded when they are first asked for."""
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError as missing:
        raise Problem("the cost of sampled records is worked out by dp-accounting, which is not installed: pip install dp-accounting") from missing
    return privacy_loss_distribution


def interval(turn: Sequence[Release], rounds: int, epsilon: float) -> float:
    """The grid for a course that costs about `epsilon`.

    Rounding to an interval h adds a variance of at most h^2 / 4 a release to the loss, whose standard deviation s follows from epsilon = s^2 / 2 + 4 s.
    """
    spread = 2 * epsilon / (4 + sqrt(16 + 2 * epsilon))
    count = rounds * sum(times if rate < 1 else 1 for _, rate, times in turn)
    widest = max(_width(multiplier / sqrt(times if rate == 1 else 1), rate) for multiplier, rate, times in turn)
    least = max(widest * len(turn) / SINGLE, (epsilon + 20 * spread) / WHOLE, sqrt(count * widest * STEADY))
    wanted = max(sqrt(3 * FINE * epsilon * spread / count), least)
    return 2.0 ** (floor(2 * log2(wanted)) / 2)  # few values, so that distributions can be kept


def _width(multiplier: float, rate: float) -> float:
    """How far apart the losses of one release lie."""
    most = 0.5 / multiplier / multiplier + TAIL / multiplier
    if rate == 1:
        return 2 * most
    return (log1p(rate * expm1(most)) if most < 600 else most + log(rate)) - log1p(rate * expm1(-most))


def usable(turn: Sequence[Release], rounds: int, epsilon: float, delta: float) -> bool:
    """Whether a grid can hold the course, and floating point the delta."""
    return 0 < epsilon < 1e6 and rounds * sum(times for *_, times in turn) <= LONGEST and slack(turn, rounds) < delta / 50 and 1e-11 < interval(turn, rounds, epsilon) < 20


def slack(turn: Sequence[Release], rounds: int) -> float:
    """What is taken from delta before it is looked up."""
    return ROUNDING * (10 + rounds * sum(times for *_, times in turn))


@lru_cache(maxsize=32)
def distribution(turn: tuple[Release, ...], rounds: int, chance: float, step: float) -> Any:
    """The loss of `rounds` rounds, in each of which the releases of `turn` are made with `chance`, and whether they are is public.

    A round's loss is then that of the turn with `chance`, else 0: composing rounds is exactly the mean of delta over the number of participations.
    """
    one = _product([_release(*release, step) for release in turn])
    if chance < 1:
        one = one.compute_mixture(library().identity(step), chance)
    return _power(one, rounds)


def _release(multiplier: float, rate: float, times: int, step: float) -> Any:
    return _single(multiplier / sqrt(times), 1.0, step) if rate == 1 else _power(_single(multiplier, rate, step), times)


@lru_cache(maxsize=64)
def _single(multiplier: float, rate: float, step: float) -> Any:
    return library().from_gaussian_mechanism(multiplier, value_discretization_interval=step, sampling_prob=rate, use_connect_dots=True)


def _power(one: Any, times: int) -> Any:
    # Large powers in two stages: dp-accounting's bound on the tails of a high power of a short distribution is slow to work out, and loose.
    if times <= 4096:
        return one.self_compose(times) if times > 1 else one
    most = one.self_compose(64).self_compose(times // 64)
    return most.compose(_power(one, times % 64)) if times % 64 else most


def _product(parts: Sequence[Any]) -> Any:
    whole, *rest = parts
    for part in rest:
        whole = whole.compose(part)
    return whole


def epsilon_of(losses: Any, delta: float) -> float:
    """The least epsilon at delta: rounded up, inf where the grid ends below it."""
    with np.errstate(over="ignore"):  # a quotient beyond floating point is a loss beyond the grid, and is taken for one
        found = float(losses.get_epsilon_for_delta(delta))
    return found * (1 + 1e-9) if found < inf else inf


def delta_of(losses: Any, epsilon: float) -> float:
    """The least delta at epsilon."""
    return min(1.0, float(losses.get_delta_for_epsilon(epsilon)))
