"""One honest budget for every method: what each client may spend in all its rounds, and what that leaves for each round.

Unit client: neighbouring federations differ in one client's whole data set, which is replaced. An update clipped to S moves by at most 2S;
with noise z S on each upload one release is a Gaussian mechanism of multiplier M = g z, and releases of multipliers M_t compose to exactly
one of multiplier (sum 1/M_t^2)^(-1/2). The server's view has g = 1/2. The peers' view, the sum of K uploads of which c are the adversary's
own, carries the noise of the other K - c and has g = sqrt(K - c)/2. Cohorts are drawn without looking at data, so who takes part when is public.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

import torch
from torch import Tensor

from ladp.errors import Problem, choose
from ladp.params import Layout
from ladp.privacy.gaussian import epsilon_of, sigma_of
from ladp.privacy.mechanism import Guarantee, Mechanism, Plan, Seen

VIEWS = ("peer", "server")
SAFE = 1 + 1e-12  # rounding never costs more than the budget
ACCOUNTANT = "exact composition of Gaussians"
PEEKS = "its noise depends on the private weights: the budget that it keeps is nominal"
TERMS = (
    "every client's whole data set may be replaced; how many records it holds and when it takes part are public",
    "noise is drawn from a seed, for simulation: the guarantee is that of the same noise from the operating system's entropy",
)


@dataclass(frozen=True)
class Budget:
    """epsilon at delta for all uploads of a client together, against a view; `clip` is S, `colluders` c of the peers' view."""

    epsilon: float = 8.0
    delta: float = 1e-5
    view: str = "peer"
    clip: float = 1.0
    colluders: int = 1

    def __post_init__(self) -> None:
        choose("view", self.view, VIEWS)
        sigma_of(self.epsilon, self.delta)
        if not self.clip > 0:
            raise Problem(f"clip of the budget must be positive, got {self.clip}")
        if self.colluders < 0:
            raise Problem(f"colluders must not be negative, got {self.colluders}")

    def gain(self, active: int) -> float:
        """g: how many times z the multiplier of one release is."""
        if self.view == "peer" and self.colluders >= active:
            raise Problem(f"{self.colluders} colluders in a cohort of {active}: no noise but their own is left; take more active clients or view = 'server'")
        return sqrt(active - self.colluders) / 2 if self.view == "peer" else 0.5

    def allot(self, schedule: Sequence[float], cohorts: Sequence[Sequence[int]]) -> list[float]:
        """z of each round, in the ratios of the schedule, such that the client that spends most ends exactly at epsilon."""
        spent = _spent((client, 1 / amplitude**2) for amplitude, cohort in zip(schedule, cohorts, strict=True) for client in cohort)
        least = sigma_of(self.epsilon, self.delta) * sqrt(max(spent.values())) / self.gain(len(cohorts[0]))
        return [least * SAFE * amplitude for amplitude in schedule]

    def claim(self, peeks: bool, active: int) -> Guarantee:
        """What all uploads of a client are to cost together; of a mechanism that peeks, what they would cost if it did not."""
        return self._guarantee(self.epsilon, active, "nominal, as if no noise depended on private weights" if peeks else ACCOUNTANT)

    def certify(self, peeks: bool, active: int, spent: float | None = None) -> Guarantee:
        """What is proved: of uploads with sum 1/z^2 = `spent` by the client that spent most, or of the whole budget."""
        if peeks:
            return replace(self._guarantee(inf, active, "none applies"), reasons=(PEEKS,))
        exact = self.epsilon if spent is None else epsilon_of(self.gain(active) / sqrt(spent), self.delta)
        return self._guarantee(exact, active, ACCOUNTANT)

    def _guarantee(self, epsilon: float, active: int, accountant: str) -> Guarantee:
        colluding = f", {self.colluders} of {active} active clients colluding" if self.view == "peer" else ""
        return Guarantee(epsilon, self.delta, "client", f"{self.view}, all uploads{colluding}", accountant, TERMS)


def _spent(charges: Iterable[tuple[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for client, charge in charges:
        total[client] = total.get(client, 0.0) + charge
    return total


def matched(mechanism: Mechanism, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
    """The mechanism's own shares under the budget's clip and multiplier: s_j = S share_j, scaled so that equal z means equally long noise."""
    plan, granted = mechanism.share(seen, local, memory), seen.allowance
    sizes = torch.tensor([len(layer) for layer in plan.layers], dtype=torch.float64)
    even = (sizes.sum() / (sizes * plan.sigma.square()).sum(1, keepdim=True)).sqrt()
    clip = (granted.clip if plan.clip is None else plan.clip) * plan.sigma * even
    multiplier = granted.multiplier if plan.multiplier is None else plan.multiplier
    kept = (plan.divergence, plan.privacy, plan.selected, plan.memory)
    return Plan(plan.layers, multiplier.unsqueeze(1) * clip, *kept, clip=clip, multiplier=multiplier)


def refuse(mechanism: Mechanism, layout: Layout, buffers: Iterable[str], equal: bool) -> None:
    """What no budget can be kept for."""
    if mechanism.name == "none":
        raise Problem("method 'none' adds no noise: it has no budget; leave [budget] out")
    if left := [*buffers, *layout.counters]:
        raise Problem(f"{left[0]!r} would leave without noise, and no budget covers it: take norm = 'group' in place of BatchNorm")
    if not equal:
        raise Problem("mean = 'size' weighs uploads by numbers of records, and the budget is worked out for equal weights: set mean = 'equal'")
