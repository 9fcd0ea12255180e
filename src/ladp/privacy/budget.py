"""One honest budget for every method: what each client may spend in all its rounds, and what that leaves for each round.

Unit client: neighbouring federations differ in one client's whole data set, which is replaced. An update clipped to S moves by at most 2S, and gets
noise z S. Unit record: they differ in one record of one client, added or removed. A client takes `steps` local steps; each takes every record with
probability `rate`, clips its gradient to S, and gets noise z S on the sum. What one participation costs, and why, is `ladp.privacy.accounting.turn`
(docs/guarantees.md). Cohorts are drawn without looking at data, so who takes part when is public.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf, log1p, log2, sqrt

import torch
from torch import Tensor

from ladp.errors import Problem, choose
from ladp.params import Layout
from ladp.privacy.accounting import EXACT, LOSSES, UNITS, VIEWS, Bound, Charge, epsilon, turn
from ladp.privacy.gaussian import epsilon_of, sigma_of
from ladp.privacy.mechanism import Guarantee, Mechanism, Plan, Seen
from ladp.privacy.planning import lowest

Spent = Mapping[tuple[float, int], int]  # how often a client took part, by z and by how many took part
SAFE = 1 + 1e-12  # rounding never costs more than the budget
CLOSE = 1 - 1e-6  # to the client that spends most: rounding cannot make more than that of a difference
LEVEL = 8  # of a schedule, for each factor of two: losses of sampled Gaussians are composed kind by kind
PEEKS = "its noise depends on the private weights: the budget that it keeps is nominal"
SEEDED = "noise is drawn from a seed, for simulation: the guarantee is that of the same noise from the operating system's entropy"
TERMS = {
    "client": ("every client's whole data set may be replaced; how many records it holds and when it takes part are public", SEEDED),
    "record": ("one record of one client may be added or removed; what its sum is divided by, and when it takes part, are public", SEEDED),
}


@dataclass(frozen=True)
class Budget:
    """epsilon at delta for all uploads of a client together, against a view; `clip` is S, `colluders` c of the peers' view.

    With unit record: `rate` q of the records in each of `steps` local steps, the gradients of `copies` augmented copies of a record averaged before clipping.
    """

    epsilon: float = 8.0
    delta: float = 1e-5
    view: str = "peer"
    unit: str = "client"
    clip: float = 1.0
    colluders: int = 1
    rate: float = 0.1
    steps: int = 1
    copies: int = 1

    def __post_init__(self) -> None:
        choose("view", self.view, VIEWS)
        choose("unit", self.unit, UNITS)
        sigma_of(self.epsilon, self.delta)
        if not self.clip > 0:
            raise Problem(f"clip of the budget must be positive, got {self.clip}")
        if self.colluders < 0:
            raise Problem(f"colluders must not be negative, got {self.colluders}")
        if not 0 < self.rate <= 1:
            raise Problem(f"rate of the budget must lie above 0 and at most at 1, got {self.rate}")
        for name in ("steps", "copies"):
            if getattr(self, name) < 1:
                raise Problem(f"{name} of the budget must be at least 1, got {getattr(self, name)}")

    @property
    def records(self) -> bool:
        """Whether noise enters at every local step, for single records."""
        return self.unit == "record"

    @property
    def accountant(self) -> str:
        """What works its epsilon out."""
        return LOSSES if self.records and self.rate < 1 else EXACT

    def turn(self, z: float, active: int, view: str | None = None) -> tuple[Charge, ...]:
        """What one participation among so many costs in a view, its own by default."""
        return turn(self.unit, view or self.view, z, rate=self.rate, steps=self.steps, active=active, colluders=self.colluders)

    def cost(self, spent: Spent, view: str | None = None) -> Bound:
        """What a client has spent that took part so many times at each z, among so many."""
        charges = [replace(charge, times=charge.times * times) for (z, active), times in spent.items() for charge in self.turn(z, active, view)]
        return epsilon(charges, self.delta)

    def allot(self, schedule: Sequence[float], cohorts: Sequence[Sequence[int]]) -> list[float]:
        """z of each round, in the ratios of the schedule, such that the client that spends most ends at epsilon and nobody above it."""
        active, plan = len(cohorts[0]), self._levels(schedule)
        turns = _turns(plan, cohorts)
        if not self.records:
            most = max(map(_weight, turns))
            least = sigma_of(self.epsilon, self.delta) * sqrt(most) / self.turn(1.0, active)[0].multiplier * SAFE
            least = self._raised(least, [spent for spent in turns if _weight(spent) > most * CLOSE], active)
        else:
            least = self._least(turns, active)
        return [least * amplitude for amplitude in plan]

    def _levels(self, schedule: Sequence[float]) -> list[float]:
        """The schedule; with unit record in steps of 2^(1/8), as every kind of release costs its accountant the same effort."""
        return [2 ** (floor(LEVEL * log2(amplitude)) / LEVEL) for amplitude in schedule] if self.records else list(schedule)

    def _least(self, turns: Sequence[Mapping[float, int]], active: int) -> float:
        """The least z that keeps every client within epsilon: found for those that seem to spend most, and seen to hold for all."""
        ranked = sorted(turns, key=lambda spent: -_weight(spent))
        count = _weight(ranked[0]) * self.steps
        guess = 1 / sqrt(log1p(1 / (sigma_of(self.epsilon, self.delta) ** 2 * self.rate**2 * count))) / self.turn(1.0, active)[-1].multiplier
        worst = ranked[:1]
        while True:
            z = lowest(lambda x: max(self._at(x, spent, active) for spent in worst), self.epsilon, guess)  # noqa: B023
            over = [spent for spent in ranked if spent not in worst and self._at(z, spent, active) > self.epsilon]
            if not over:
                return z
            worst, guess = worst + over, z

    def _raised(self, z: float, turns: Sequence[Mapping[float, int]], active: int) -> float:
        """z, raised until the accountant that charges it finds nobody above epsilon: where epsilon is small its rounding counts."""
        step = SAFE - 1
        while any(self._at(z, spent, active) > self.epsilon for spent in turns):
            z, step = z * (1 + step), 2 * step
        return z

    def _at(self, z: float, spent: Mapping[float, int], active: int) -> float:
        return self.cost({(z * amplitude, active): times for amplitude, times in spent.items()}).epsilon

    def claim(self, peeks: bool, active: int) -> Guarantee:
        """What all uploads of a client are to cost together; of a mechanism that peeks, what they would cost if it did not."""
        return self._guarantee(Bound(self.epsilon, self.delta, "nominal, as if no noise depended on private weights" if peeks else self.accountant), active, self.view)

    def certify(self, peeks: bool, active: int, spent: Iterable[Spent] | None = None, view: str | None = None) -> Guarantee:
        """What is proved in a view: of clients that took part so many times at each z, among so many (`spent`), for the one that spent most; or of the whole budget."""
        view, patterns = view or self.view, None if spent is None else _distinct(spent)
        if view == "peer" and self.colluders >= min([active, *(among for pattern in patterns or () for _, among in pattern)]):
            return replace(self._guarantee(Bound(inf, self.delta, "none applies"), active, view), reasons=(f"{self.colluders} colluders in a cohort of {active}: no noise but their own is left",))
        if peeks:
            return replace(self._guarantee(Bound(inf, self.delta, "none applies"), active, view), reasons=(PEEKS,))
        if patterns is None:
            return self._guarantee(Bound(self.epsilon, self.delta, self.accountant), active, view)
        return self._guarantee(max((self.cost(one, view) for one in patterns), key=lambda bound: bound.epsilon), active, view)

    def _guarantee(self, bound: Bound, active: int, view: str) -> Guarantee:
        colluding = f", {self.colluders} of {active} active clients colluding" if view == "peer" else ""
        return Guarantee(bound.epsilon, self.delta, self.unit, f"{view}, all uploads{colluding}", bound.accountant, TERMS[self.unit])


def _turns(schedule: Sequence[float], cohorts: Sequence[Sequence[int]]) -> list[Mapping[float, int]]:
    """How often each client takes part at each amplitude, every pattern once."""
    found: dict[int, Counter[float]] = {}
    for amplitude, cohort in zip(schedule, cohorts, strict=True):
        for client in cohort:
            found.setdefault(client, Counter())[amplitude] += 1
    return _distinct(found.values())


def _distinct(patterns: Iterable[Mapping]) -> list[Mapping]:
    """Every pattern once."""
    return list({tuple(sorted(pattern.items())): pattern for pattern in patterns}.values())


def _weight(spent: Mapping[float, int]) -> float:
    return sum(times / amplitude**2 for amplitude, times in spent.items())


def matched(mechanism: Mechanism, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
    """The mechanism's own shares under the budget's clip and multiplier: s_j = S share_j, scaled so that equal z means equally long noise.

    A layer whose share is 0 is frozen: it keeps the global value and costs nothing.
    """
    plan, granted = mechanism.share(seen, local, memory), seen.allowance
    share, sizes = plan.sigma.to(torch.float64), torch.tensor([len(layer) for layer in plan.layers], dtype=torch.float64)
    open_ = (share > 0).to(torch.float64)
    even = ((sizes * open_).sum(1, keepdim=True) / (sizes * share.square()).sum(1, keepdim=True)).sqrt()
    clip = (granted.clip if plan.clip is None else plan.clip) * share * even
    multiplier = granted.multiplier if plan.multiplier is None else plan.multiplier
    kept = (plan.divergence, plan.privacy, plan.selected, plan.memory)
    return Plan(plan.layers, multiplier.unsqueeze(1) * clip, *kept, clip=clip, multiplier=multiplier)


def refuse(mechanism: Mechanism, layout: Layout, buffers: Iterable[str], equal: bool, budget: Budget) -> None:
    """What no budget can be kept for."""
    if mechanism.name == "none":
        raise Problem("method 'none' adds no noise: it has no budget; leave [budget] out")
    if mechanism.peeks and budget.records:
        raise Problem(f"method {mechanism.name!r} looks at private weights to choose its noise: no budget of unit record can be certified for it; take a method that does not, such as 'certified'")
    if left := [*buffers, *layout.counters]:
        raise Problem(f"{left[0]!r} would leave without noise, and no budget covers it: take norm = 'group' in place of BatchNorm")
    if not equal:
        raise Problem("mean = 'size' weighs uploads by numbers of records, and the budget is worked out for equal weights: set mean = 'equal'")
