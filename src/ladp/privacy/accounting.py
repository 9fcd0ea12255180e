"""What Gaussian releases cost together: one epsilon at one delta, never below the truth, whatever the noise and however many.

All records released (rate 1): exact, as one Gaussian of multiplier (sum 1/z^2)^(-1/2). Records drawn at a rate: privacy loss distributions of dp-accounting
where a grid can hold them; at extremes the smaller of the Renyi bound and of the cost without sampling. Neighbours differ by one record added or removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, sqrt
from typing import Any

import numpy as np
from scipy.special import erfcx, ndtr
from scipy.stats import binom

from ladp.errors import Problem, choose
from ladp.privacy import gaussian, losses, renyi

EXACT = "exact composition of Gaussians"
LOSSES = "privacy loss distributions (dp-accounting)"
RENYI = "Renyi divergences"
SHOWN = "exact composition of Gaussians, as if it were seen which records are drawn"
GROUPS = 12  # kinds of releases a distribution is worked out for; more are merged to the safe side
MOST = 10**9  # releases
LEFT = 1e-3  # share of delta left to numbers of participations too large to be looked at
SAFE = 1 - 1e-12
UNITS, VIEWS = ("record", "client"), ("peer", "server")


@dataclass(frozen=True, order=True)
class Charge:
    """What Gaussian releases cost: `times` releases at noise multiplier z (noise over sensitivity), each of records taken independently at `rate` (1: all of them)."""

    multiplier: float
    rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        if not self.multiplier > 0:
            raise Problem(f"a noise multiplier must be positive, got {self.multiplier}: without noise there is no finite epsilon")
        if not 0 <= self.rate <= 1:
            raise Problem(f"the rate of records must lie between 0 and 1, got {self.rate}")
        if not (self.times >= 0 and self.times == int(self.times)):
            raise Problem(f"times must be a whole number, 0 or more, got {self.times}")


@dataclass(frozen=True)
class Bound:
    """An epsilon at delta, and the accountant that gives it."""

    epsilon: float
    delta: float
    accountant: str


@dataclass(frozen=True)
class Course:
    """`rounds` rounds, in each of which `turn` is charged with probability `chance`; who takes part is public, and drawn without looking at data."""

    turn: tuple[Charge, ...]
    rounds: int = 1
    chance: float = 1.0

    @property
    def releases(self) -> tuple[tuple[float, float, int], ...]:
        return tuple((charge.multiplier, charge.rate, charge.times) for charge in self.turn)

    @property
    def sampled(self) -> bool:
        return any(charge.rate < 1 for charge in self.turn)

    @property
    def multiplier(self) -> float:
        """Of the one Gaussian that a turn is, or costs at most if records are sampled."""
        least = min(charge.multiplier for charge in self.turn)
        return least / sqrt(sum(charge.times * (least / charge.multiplier) ** 2 for charge in self.turn)) * SAFE


def epsilon(charges: Iterable[Charge], delta: float) -> Bound:
    """What all the charges of one record or client cost together, at delta."""
    return _epsilon(_course(charges), _probability(delta))


def delta(charges: Iterable[Charge], epsilon: float) -> float:
    """The delta at which all the charges together keep `epsilon`."""
    if not epsilon >= 0:
        raise Problem(f"epsilon must not be negative, got {epsilon}")
    return _delta(_course(charges), epsilon)


def expected(turn: Iterable[Charge], rounds: int, chance: float, delta: float) -> Bound:
    """What `rounds` rounds cost a client that is drawn into each with probability `chance`: epsilon where E_n[delta_n(epsilon)] = delta, n ~ Binomial(rounds, chance).

    Averaged over the draw of cohorts, which everybody may see: delta given who took part is delta_n(epsilon), since the draw looks at no data.
    A bound of the run before it begins; of a run that has been, charge the participations that took place.
    """
    if not 0 <= chance <= 1:
        raise Problem(f"the chance of taking part must lie between 0 and 1, got {chance}")
    return _epsilon(_course(turn, rounds, chance), _probability(delta))


def cross_check(turn: Iterable[Charge], delta: float, rounds: int = 1, chance: float = 1.0) -> Bound:
    """The Renyi bound on what `expected` (or, by default, `epsilon`) gives: looser, and worked out another way."""
    return renyi_bound(_course(turn, rounds, chance), _probability(delta))


def turn(
    unit: str, view: str, z: float, *, rate: float = 1.0, steps: int = 1, active: int, colluders: int = 1, weights: Sequence[float] | None = None
) -> tuple[Charge, ...]:
    """What one participation costs in that view: `steps` noised steps on records drawn at `rate` (unit record), or one upload of a client that may be replaced.

    Record, server: every step a sampled Gaussian at z. Record, peers: the last step at z g, g^2 = sum_{honest k} p_k^2 / max p_i^2 (K - c for equal weights),
    since noise of others enters after it; steps before at z. Client: sensitivity 2, so z/2 to the server and z g/2 to peers, and sampling counts for nothing.
    """
    if steps < 1:
        raise Problem(f"steps of a participation must be at least 1, got {steps}")
    gain = shared(active, colluders, weights) if choose("view", view, VIEWS) == "peer" else 1.0
    if choose("unit", unit, UNITS) == "client":
        return (Charge(z * gain / 2),)
    return _merged((Charge(z, rate, steps - 1), Charge(z * gain, rate)))


def shared(active: int, colluders: int = 1, weights: Sequence[float] | None = None) -> float:
    """g: how many times its own noise hides a client among the uploads of its cohort, for the client and the colluders for which that is least.

    g^2 = sum_{honest k} p_k^2 / p_i^2 is least for the client i of the largest weight when the colluders have the next largest.
    """
    if not 0 <= colluders < active:
        raise Problem(f"{colluders} colluders in a cohort of {active}: no noise but their own is left; take more active clients or view = 'server'")
    if weights is None:
        return sqrt(active - colluders)
    if len(weights) != active or not all(0 < weight < inf for weight in weights):
        raise Problem(f"weights must be positive, one for each of {active} active clients, got {len(weights)} with least {min(weights, default=0)}")
    first, *others = sorted(weights, reverse=True)
    return sqrt(1 + sum((weight / first) ** 2 for weight in others[colluders:]))


def renyi_bound(course: Course, delta: float) -> Bound:
    """What Renyi divergences say of a course."""
    divergences = renyi.course(course.releases, course.rounds, course.chance) if course.turn else np.zeros(len(renyi.ORDERS))
    return Bound(renyi.epsilon_of(divergences, delta), delta, RENYI)


def _course(turn: Iterable[Charge], rounds: int = 1, chance: float = 1.0) -> Course:
    """One form for all ways to say the same: rounds that are certain are charges."""
    if not (rounds >= 0 and rounds == int(rounds)):
        raise Problem(f"rounds must be a whole number, 0 or more, got {rounds}")
    repeated = rounds if chance == 1 else 1
    turn = tuple(turn)
    if (count := rounds * sum(charge.times for charge in turn)) > MOST:
        raise Problem(f"{count:,} releases are more than the {MOST:,} that can be accounted for: take fewer rounds or steps")
    charges = _merged(replace(charge, times=charge.times * repeated) for charge in turn) if rounds * chance > 0 else ()
    return Course(charges, 1 if chance == 1 else rounds, chance)


def _merged(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Charges of one kind added up, those that cost nothing left out, all Gaussians of unsampled records as one."""
    total: dict[tuple[float, float], int] = {}
    for charge in charges:
        if charge.times and charge.rate and charge.multiplier < inf:
            kind = (float(charge.multiplier), float(charge.rate))
            total[kind] = total.get(kind, 0) + int(charge.times)
    return tuple(sorted(Charge(*kind, times) for kind, times in total.items()))


@lru_cache(maxsize=1024)
def _epsilon(course: Course, delta: float) -> Bound:
    if not course.turn:
        return Bound(0.0, delta, EXACT)
    if not course.sampled:
        return Bound(_exact(course, delta), delta, EXACT)
    rough = min(renyi_bound(course, delta), Bound(_exact(_shown(course), delta), delta, SHOWN), key=lambda bound: bound.epsilon)
    grouped = _grouped(course)
    if not losses.usable(grouped.releases, grouped.rounds, rough.epsilon, delta):
        return rough
    found = losses.epsilon_of(_losses(grouped, rough.epsilon), delta - losses.slack(grouped.releases, grouped.rounds))
    return min(Bound(found, delta, LOSSES), rough, key=lambda bound: bound.epsilon)


@lru_cache(maxsize=1024)
def _delta(course: Course, epsilon: float) -> float:
    if not course.turn or epsilon == inf:
        return 0.0
    if not course.sampled:
        return _averaged(course, epsilon)
    divergences = renyi.course(course.releases, course.rounds, course.chance)
    rough = min(renyi.delta_of(divergences, epsilon), _averaged(_shown(course), epsilon))
    size = max(epsilon, sqrt(8 * divergences[0]))  # at least two standard deviations of the loss
    grouped = _grouped(course)
    if not losses.usable(grouped.releases, grouped.rounds, size, rough):
        return rough
    return min(rough, losses.delta_of(_losses(grouped, size), epsilon) + losses.slack(grouped.releases, grouped.rounds))


def _losses(course: Course, epsilon: float) -> Any:
    return losses.distribution(course.releases, course.rounds, course.chance, losses.interval(course.releases, course.rounds, epsilon))


def _exact(course: Course, delta: float) -> float:
    """Epsilon of unsampled Gaussians; the mean over participations is bisected, and what is returned has been seen to hold."""
    if course.chance == 1:
        return gaussian.epsilon_of(course.multiplier, delta)
    most = int(binom.isf(delta * LEFT, course.rounds, course.chance))
    upper = gaussian.epsilon_of(course.multiplier / sqrt(max(most, 1)), delta * (1 - LEFT))
    lower = 0.0
    while upper - lower > 1e-9 * upper and upper < inf:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if _averaged(course, middle) <= delta else (middle, upper)
    return upper


def _averaged(course: Course, epsilon: float) -> float:
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
    stride = len(number) // 4096 + 1  # numbers that are near one another count as the largest of them: delta_n does not fall in n
    first = np.arange(0, len(number), stride)
    return number[np.minimum(first + stride, len(number)) - 1], np.add.reduceat(chances, first), beyond


def _gaussian(epsilon: float, sigma: np.ndarray) -> np.ndarray:
    """`ladp.privacy.gaussian.delta_of` of many sigmas at once, for epsilon 0 too."""
    a, b = 0.5 / sigma - epsilon * sigma, 0.5 / sigma + epsilon * sigma
    density = 0.5 * np.exp(-a * a / 2)
    near = np.where(a >= 0, ndtr(a), density * erfcx(np.maximum(-a, 0) / sqrt(2)))
    return np.maximum(0.0, near - density * erfcx(b / sqrt(2)))


def _shown(course: Course) -> Course:
    """Unsampled Gaussians that tell at least as much: which releases hold the record is seen too, or, where these are not draws of one kind, all do."""
    (charge, *others), rounds = course.turn, course.rounds
    if others or (course.chance < 1 and charge.times > 1):
        return course
    return Course((Charge(charge.multiplier),), rounds * charge.times, course.chance * charge.rate)


def _grouped(course: Course) -> Course:
    """At most GROUPS kinds: neighbouring kinds become one of the smallest multiplier and the largest rate, from which each follows by adding noise or leaving records out."""
    if len(course.turn) <= GROUPS:
        return course
    ordered = sorted(course.turn, key=lambda charge: (charge.rate, charge.multiplier))
    parts = [ordered[len(ordered) * i // GROUPS : len(ordered) * (i + 1) // GROUPS] for i in range(GROUPS)]
    return replace(course, turn=_merged(Charge(min(c.multiplier for c in part), max(c.rate for c in part), sum(c.times for c in part)) for part in parts))


def _probability(delta: float) -> float:
    if not 0 < delta < 1:
        raise Problem(f"delta must lie strictly between 0 and 1, got {delta}")
    return delta
