"""Time-Varying DP: noise whose amplitude falls geometrically over the rounds.

Yuan et al., Amplitude-Varying Perturbation for Balancing Privacy and Utility in Federated Learning, TIFS 2023. The geometric series: known;
its constants, and the rate of the LaDP-FL paper's runs: reconstructed (docs/methods.md). The online refinement of the series is not built.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

from torch import Tensor

from ladp.errors import Problem
from ladp.mechanisms.gaussian import MINI_BATCHES, Baseline, full_batch
from ladp.privacy.mechanism import Guarantee, Plan, Seen, constant_plan


@dataclass(frozen=True)
class TimeVarying(Baseline):
    """sigma_t = sigma_0 r^t, r = `ratio`. As run, sigma_0 is Full DP's.

    Faithful: sigma_0 = (Delta/epsilon) sqrt(2 q ln(1/delta) (r^(-2T) - 1)/(r^(-2) - 1)) with q = K/N: all T rounds together cost epsilon by the
    moments bound sum 1/sigma_t^2 <= epsilon^2 / (2 q Delta^2 ln(1/delta)).
    """

    name: ClassVar[str] = "time-varying"
    ratio: float = 0.99788

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ratio <= 1:
            raise Problem(f"ratio must lie above 0 and at most at 1, got {self.ratio}")

    def amplitude(self, t: int) -> float:
        return self.ratio**t

    def faithful(self, seen: Seen, local: Tensor | None, memory: Tensor | None) -> Plan:
        rate = seen.population.active / seen.population.clients
        series = sum(amplitude**-2 for amplitude in self.schedule(seen.rounds))
        first = full_batch(seen) / self.epsilon * sqrt(2 * rate * log(1 / self.delta) * series)
        return constant_plan(self, seen, first * self.amplitude(seen.round - 1))

    def claim(self) -> Guarantee:
        return self.claims("moments bound, K of N clients taken as amplification")

    def certify(self) -> Guarantee:
        return self.doubts(MINI_BATCHES, "choosing few clients does not amplify a record's guarantee: all records of a client are missing at once", "the moments bound is used outside of its conditions")
