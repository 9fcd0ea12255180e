"""Full DP: the same Gaussian noise on every layer of every upload; by its own paper NbAFL, which clips weights and noises both ways.

Wei et al., Federated Learning With Differential Privacy: Algorithms and Performance Analysis, TIFS 2020. Formulas: known.
"""

from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import ClassVar

import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.mechanisms.gaussian import Baseline
from ladp.privacy.gaussian import classical
from ladp.privacy.mechanism import Guarantee, Plan, Population, Seen, constant_plan


@dataclass(frozen=True)
class Full(Baseline):
    """As run: sigma_j = c Delta / epsilon for all j, with c = sqrt(2 ln(1.25/delta)).

    Faithful: the weights are shortened to ||w_i|| <= C (`norm_bound`), the upload gets c L Delta_U / epsilon with Delta_U = 2C/m for the
    smallest of all data sets, m, and L uploads of a client (`exposures`; 0 takes the number that is expected), and the server adds noise
    to the new global model where the uploads' own is too little for T rounds.
    """

    name: ClassVar[str] = "full"
    norm_bound: float = 20.0
    exposures: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.norm_bound > 0:
            raise Problem(f"norm_bound must be positive, got {self.norm_bound}")
        if self.exposures < 0:
            raise Problem(f"exposures must not be negative, got {self.exposures}")

    def faithful(self, seen: Seen, local: Tensor | None, memory: Tensor | None) -> Plan:
        up = classical(self.epsilon, self.delta) * self._exposed(seen) * 2 * self.norm_bound / seen.population.smallest
        plan = constant_plan(self, seen, torch.full((len(seen.cohort),), up, dtype=torch.float64))
        return Plan(plan.layers, plan.sigma, clip=torch.full_like(plan.sigma, self.norm_bound), clips="weights")

    def downlink(self, seen: Seen) -> float:
        """sigma_D of K-random scheduling: 2 c C sqrt(T^2/b^2 - L^2 K) / (m K epsilon) where that is above 0."""
        if self.form != "faithful" or seen.allowance:
            return 0.0
        spread = inflation(self.epsilon, seen.rounds, seen.population)
        rest = (seen.rounds / spread) ** 2 - self._exposed(seen) ** 2 * seen.population.active
        base = 2 * classical(self.epsilon, self.delta) * self.norm_bound / (seen.population.smallest * seen.population.active)
        return base * sqrt(max(rest, 0.0))

    def _exposed(self, seen: Seen) -> int:
        return self.exposures or seen.population.uploads(seen.rounds)

    def claim(self) -> Guarantee:
        return self.claims("NbAFL: Gaussian mechanism, basic composition over L uploads and T rounds")

    def certify(self) -> Guarantee:
        return self.doubts(
            "Delta = 2C/m is that of a mean of per-record solutions; weights trained by gradient steps can move by 2C",
            "the constant is proved for a per-upload epsilon below 1, and L uploads get epsilon/L each while delta is never divided",
            "a client that is drawn more often than L times is not covered",
        )


def inflation(epsilon: float, rounds: int, population: Population) -> float:
    """b = -(T/epsilon) ln(1 - N/K + (N/K) e^(-epsilon/T)): how much less a release tells when K of N take part; infinite where the logarithm has no value.

    T > epsilon/gamma, the condition of the paper, says just that T/b exceeds L sqrt(K).
    """
    many = population.clients / population.active
    inside = 1 - many + many * exp(-epsilon / rounds)
    return -rounds / epsilon * log(inside) if inside > 0 else inf
