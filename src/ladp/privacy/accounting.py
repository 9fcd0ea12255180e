"""What Gaussian releases cost together: one epsilon at one delta, never below the truth, whatever the noise and however many.

All records released (rate 1): exact, as one Gaussian of multiplier (sum 1/z^2)^(-1/2). Records drawn at a rate: privacy loss distributions of dp-accounting
where a grid can hold them; at extremes the smaller of the Renyi bound and of the exact cost if it were seen which releases hold the record. Neighbours differ by one record added or removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, sqrt
from typing import Any

from ladp.errors import Problem, choose
from ladp.privacy import draws, losses, renyi
from ladp.privacy.course import Charge, Course, canonical, grouped, merged, shown

EXACT = "exact composition of Gaussians"
LOSSES = "privacy loss distributions (dp-accounting)"
RENYI = "Renyi divergences"
SHOWN = "exact composition of Gaussians, as if it were seen which records are drawn"
UNITS, VIEWS = ("record", "client"), ("peer", "server")


@dataclass(frozen=True)
class Bound:
    """An epsilon at delta, and the accountant that gives it."""

    epsilon: float
    delta: float
    accountant: str


def epsilon(charges: Iterable[Charge], delta: float) -> Bound:
    """What all the charges of one record or client cost together, at delta."""
    return _epsilon(canonical(charges), _probability(delta))


def delta(charges: Iterable[Charge], epsilon: float) -> float:
    """The delta at which all the charges together keep `epsilon`."""
    if not epsilon >= 0:
        raise Problem(f"epsilon must not be negative, got {epsilon}")
    return _delta(canonical(charges), epsilon)


def expected(turn: Iterable[Charge], rounds: int, chance: float, delta: float) -> Bound:
    """What `rounds` rounds cost a client that is drawn into each with probability `chance`: epsilon where E_n[delta_n(epsilon)] = delta, n ~ Binomial(rounds, chance).

    Averaged over the draw of cohorts, which everybody may see: delta given who took part is delta_n(epsilon), since the draw looks at no data.
    A bound of the run before it begins; of a run that has been, charge the participations that took place.
    """
    if not 0 <= chance <= 1:
        raise Problem(f"the chance of taking part must lie between 0 and 1, got {chance}")
    return _epsilon(canonical(turn, rounds, chance), _probability(delta))


def cross_check(turn: Iterable[Charge], delta: float, rounds: int = 1, chance: float = 1.0) -> Bound:
    """The Renyi bound on what `expected` (or, by default, `epsilon`) gives: looser, and worked out another way."""
    return renyi_bound(canonical(turn, rounds, chance), _probability(delta))


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
    return merged((Charge(z, rate, steps - 1), Charge(z * gain, rate)))


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
    divergences = renyi.composed(course.releases, course.rounds, course.chance)
    return Bound(renyi.epsilon_of(divergences, delta), delta, RENYI)


@lru_cache(maxsize=1024)
def _epsilon(course: Course, delta: float) -> Bound:
    if not course.turn:
        return Bound(0.0, delta, EXACT)
    if not course.sampled:
        return Bound(draws.epsilon_of(course, delta), delta, EXACT)
    rough = min(renyi_bound(course, delta), Bound(draws.epsilon_of(shown(course), delta), delta, SHOWN), key=lambda bound: bound.epsilon)
    kinds = grouped(course)
    if not losses.usable(kinds.releases, kinds.rounds, rough.epsilon, delta):
        return rough
    found = losses.epsilon_of(_losses(kinds, rough.epsilon), delta - losses.slack(kinds.releases, kinds.rounds))
    return min(Bound(found, delta, LOSSES), rough, key=lambda bound: bound.epsilon)


@lru_cache(maxsize=1024)
def _delta(course: Course, epsilon: float) -> float:
    if not course.turn or epsilon == inf:
        return 0.0
    if not course.sampled:
        return draws.delta_of(course, epsilon)
    divergences = renyi.composed(course.releases, course.rounds, course.chance)
    rough = min(renyi.delta_of(divergences, epsilon), draws.delta_of(shown(course), epsilon))
    size = max(epsilon, sqrt(8 * divergences[0]))  # at least two standard deviations of the loss
    kinds = grouped(course)
    if not losses.usable(kinds.releases, kinds.rounds, size, rough):
        return rough
    return min(rough, losses.delta_of(_losses(kinds, size), epsilon) + losses.slack(kinds.releases, kinds.rounds))


def _losses(course: Course, epsilon: float) -> Any:
    return losses.distribution(course.releases, course.rounds, course.chance, losses.interval(course.releases, course.rounds, epsilon))


def _probability(delta: float) -> float:
    if not 0 < delta < 1:
        raise Problem(f"delta must lie strictly between 0 and 1, got {delta}")
    return delta
