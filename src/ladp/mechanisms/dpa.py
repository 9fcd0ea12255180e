"""DPA-LDP: the variance of each round chosen to make a bound on the final error least under a fixed total budget.

Zhang, Fay & Johansson, Dynamic Privacy Allocation for Locally Differentially Private Federated Learning with Composite Objectives, ICASSP 2024.
The problem is known; its solution here is the only one that problem has, its constants and its use for networks are reconstructed.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

from torch import Tensor

from ladp.errors import Problem
from ladp.mechanisms.gaussian import MINI_BATCHES, Baseline, full_batch
from ladp.privacy.mechanism import Guarantee, Plan, Seen, constant_plan


@dataclass(frozen=True)
class DPA(Baseline):
    """sigma_t = sigma_0 q^(t/4), q = `contraction`: by how much a round shrinks the distance to the optimum. As run, sigma_0 is Full DP's.

    Faithful: the error bound sum_t q^(T-1-t) v_t is least, at sum_t Delta^2/(2 v_t) = rho, for
    v_t = Delta^2/(2 rho) q^(-(T-1-t)/2) sum_s q^((T-1-s)/2); rho is the zCDP that epsilon and delta allow.
    """

    name: ClassVar[str] = "dpa"
    contraction: float = 0.98607

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.contraction <= 1:
            raise Problem(f"contraction must lie above 0 and at most at 1, got {self.contraction}")

    def amplitude(self, t: int) -> float:
        return self.contraction ** (t / 4)

    def faithful(self, seen: Seen, local: Tensor | None, memory: Tensor | None) -> Plan:
        falling = self.schedule(seen.rounds)  # q^(t/4), squared q^(t/2)
        series = sum(amplitude**2 for amplitude in falling)
        relative = sqrt(series / (2 * concentration(self.epsilon, self.delta))) / falling[seen.rounds - seen.round]  # T-1-t
        return constant_plan(self, seen, full_batch(seen) * relative)

    def claim(self) -> Guarantee:
        return self.claims("zero-concentrated DP, added up over the rounds")

    def certify(self) -> Guarantee:
        return self.doubts(MINI_BATCHES, "the bound it minimises is that of strongly convex losses")


def concentration(epsilon: float, delta: float) -> float:
    """The largest rho with rho + 2 sqrt(rho ln(1/delta)) <= epsilon (Bun & Steinke 2016, Proposition 1.3)."""
    tail = log(1 / delta)
    return (sqrt(epsilon + tail) - sqrt(tail)) ** 2
