"""The budget planner: the least noise that keeps an epsilon over a schedule, or the most rounds that a noise allows; what each view then costs.

Every figure that is returned has been worked out by `ladp.privacy.accounting` for exactly that schedule; the search only says where to look.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, log, log1p, sqrt
from typing import Any

from ladp.errors import Problem, choose
from ladp.privacy.accounting import VIEWS, Bound, cross_check
from ladp.privacy.gaussian import sigma_of
from ladp.privacy.schedule import FURTHEST, Schedule

LEAST = 1e-6  # no smaller z is looked for
CLOSE = 1e-4  # the least z is found when epsilon is this near to the budget, relatively


@dataclass(frozen=True)
class Plan:
    """A schedule, the noise over clip `z` of its releases, and what it costs in each view; None where a view hides nothing."""

    schedule: Schedule
    view: str
    z: float
    costs: dict[str, Bound | None]
    cross_check: Bound
    warnings: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """All that is to be shown with the figures."""
        bound, schedule = self.costs[self.view], self.schedule
        assert bound is not None
        found = {"z": self.z, "rounds": schedule.rounds, "epsilon": {view: cost and cost.epsilon for view, cost in self.costs.items()}}
        found |= {"delta": bound.delta, "unit": schedule.unit, "view": self.view, "accountant": bound.accountant}
        found |= {"cross_check": {"epsilon": self.cross_check.epsilon, "accountant": self.cross_check.accountant}, "participations": schedule.rule}
        return found | {"assumptions": list(schedule.assumptions(self.view)), "warnings": list(self.warnings)}


def plan(
    epsilon: float | None, delta: float, unit: str, view: str, clients: int, active: int, rounds: int | None, rate: float = 1.0, steps: int = 1,
    colluders: int = 1, participations: int | None = None, *, weights: Sequence[float] | None = None,
    z: float | None = None, z_most: float = inf, records: int | None = None,
) -> Plan:  # fmt: skip
    """Of epsilon, z and rounds two are given and the third is found: the least z, the most rounds, or the cost."""
    if [epsilon, rounds, z].count(None) != 1:
        raise Problem("give two of epsilon, rounds and z: the third is worked out")
    if rounds is None and participations is not None:
        raise Problem("the rounds that a z allows are those a client may take part in: leave participations out")
    choose("view", view, VIEWS)
    schedule = Schedule(unit, clients, active, 1 if rounds is None else rounds, rate, steps, colluders, participations, weights)
    budget = inf if epsilon is None else epsilon
    if epsilon is not None:
        sigma_of(epsilon, delta)
    if rounds is None and z is not None:
        schedule = _longest(schedule, z, view, budget, delta)
    return _planned(schedule, _least(schedule, view, budget, delta, z_most) if z is None else z, view, delta, records)


def _least(schedule: Schedule, view: str, epsilon: float, delta: float, z_most: float) -> float:
    """The least z: what the central limit would ask for, then by interpolation of logarithms; what is returned has been seen to hold."""
    if z_most < inf and (least := schedule.cost(z_most, view, delta).epsilon) > epsilon:
        raise Problem(f"epsilon {epsilon:g} cannot be kept with z at most {z_most:g}: the smallest that can is {least:.4g}; take fewer rounds or a larger z")
    (rounds, chance), rate = schedule.draws, schedule.rate if schedule.unit == "record" else 1.0
    count = max(rounds * chance, 1) * (schedule.steps if schedule.unit == "record" else 1)
    guess = 1 / sqrt(log1p(1 / (sigma_of(epsilon, delta) ** 2 * rate**2 * count)))
    guess /= schedule.turn(1.0, view)[-1].multiplier
    return min(lowest(lambda z: schedule.cost(z, view, delta).epsilon, epsilon, max(guess, LEAST)), z_most)


def lowest(cost: Callable[[float], float], target: float, guess: float) -> float:
    """The least x, but for CLOSE, at which a falling cost is at most target."""
    below, above = (0.0, inf), (inf, 0.0)
    for _ in range(200):
        found = cost(guess)
        if found <= target:
            above = (guess, found)
        else:
            below = (guess, found)
        if target * (1 - CLOSE) <= above[1] or above[0] <= max(below[0] * (1 + CLOSE / 100), LEAST):
            break
        guess = _between(below, above, target)
    return above[0]


def _between(below: tuple[float, float], above: tuple[float, float], target: float) -> float:
    """Where to look next: beyond what was tried, or between on the line through the logarithms, a fiftieth away from the ends at least."""
    if below[0] == 0:
        return above[0] / min(4.0, max(1.02, (target / above[1]) ** 0.75 if above[1] else 4.0))
    if above[0] == inf:
        return below[0] * min(4.0, max(1.02, (below[1] / target) ** 0.75))
    if below[1] == inf or above[1] == 0:
        return sqrt(below[0] * above[0])
    share = (log(below[1]) - log(target * (1 - CLOSE / 3))) / (log(below[1]) - log(above[1]))
    return below[0] * (above[0] / below[0]) ** min(0.98, max(0.02, share))


def _longest(schedule: Schedule, z: float, view: str, epsilon: float, delta: float) -> Schedule:
    """The most rounds that keep epsilon at z, FURTHEST at most; the longest has been seen to hold."""
    holds = lambda rounds: replace(schedule, rounds=rounds).cost(z, view, delta).epsilon <= epsilon  # noqa: E731
    if not holds(1):
        least = schedule.cost(z, view, delta).epsilon
        raise Problem(f"epsilon {epsilon:g} cannot be kept at z {z:g}: one round costs {least:.4g}, the smallest there is; take a larger z")
    low, high = 1, 8
    while holds(high):
        if high == FURTHEST:
            return replace(schedule, rounds=high)
        low, high = high, min(8 * high, FURTHEST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return replace(schedule, rounds=low)


def _planned(schedule: Schedule, z: float, view: str, delta: float, records: int | None) -> Plan:
    costs = {other: schedule.cost(z, other, delta) if _hides(schedule, other) or other == view else None for other in ("server", "peer")}
    check = cross_check(schedule.turn(z, view), delta, *schedule.draws)
    return Plan(schedule, view, z, costs, check, _warnings(schedule, delta, records))


def _hides(schedule: Schedule, view: str) -> bool:
    return view == "server" or schedule.colluders < schedule.active


def _warnings(schedule: Schedule, delta: float, records: int | None) -> tuple[str, ...]:
    number = schedule.clients if schedule.unit == "client" else records
    if number is None or delta * number <= 1:
        return ()
    return (
        f"delta {delta:g} is more than 1/{number} = {1 / number:.3g}: a mechanism that publishes one {schedule.unit} in full, drawn at random, keeps it; "
        f"take delta well below {1 / number:.3g}",
    )
