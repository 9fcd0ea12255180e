"""Full DP: the same Gaussian noise on every layer of every upload, as the LaDP-FL paper ran its baseline of Wei et al. 2020."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ladp.mechanisms.gaussian import GaussianMethod
from ladp.privacy.mechanism import Guarantee, Plan, Seen, constant_plan


@dataclass(frozen=True)
class Full(GaussianMethod):
    """sigma_j = c Delta / epsilon for all j, with c = sqrt(2 ln(1.25/delta))."""

    name: ClassVar[str] = "full"

    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        return constant_plan(self, seen, self.sigma(seen))

    def claim(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, "record", "one upload", "Gaussian mechanism as the paper applies it, per round")

    def certify(self) -> Guarantee:
        return self.unproved()
