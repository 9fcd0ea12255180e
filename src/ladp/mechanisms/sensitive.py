"""Sensitive DP: noise in proportion to a sensitivity that is estimated from what earlier rounds showed, at the client and of the global model.

Xue et al., Differentially Private Federated Learning With an Adaptive Noise Mechanism, TIFS 2024. The idea (two histories, bounds for four
optimisers): known from its abstract; the formulas: reconstructed, with low confidence (docs/methods.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor

from ladp.columns import norms
from ladp.errors import Problem, choose
from ladp.mechanisms.gaussian import Baseline
from ladp.privacy.gaussian import constant
from ladp.privacy.mechanism import Guarantee, Plan, Seen, constant_plan

# How long an update of s steps can be: eta s G, with momentum m eta s G / (1 - m), and for optimisers that scale each number eta s sqrt(d).
OPTIMISERS: dict[str, Callable[[float, float, float, int], float]] = {
    "sgd": lambda reach, clip, momentum, size: reach * clip,
    "momentum": lambda reach, clip, momentum, size: reach * clip / (1 - momentum),
    "adagrad": lambda reach, clip, momentum, size: reach * sqrt(size),
    "adam": lambda reach, clip, momentum, size: reach * sqrt(size),
}


@dataclass(frozen=True)
class Sensitive(Baseline):
    """Noise follows S_i^t = beta ||last clean update of client i|| + (1 - beta) ||last step of the global model||.

    Before there is such a history S is the most that the optimiser allows. beta = 0 uses public history alone.

    As run: sigma = kappa c s / epsilon with s = S / `reference` held between `least` and `most`, the range of the paper's noise over Full DP's.
    Faithful: the update is shortened to S (never under `shortest`), and sigma = 2 c S / epsilon.
    """

    name: ClassVar[str] = "sensitive"
    foreseen: ClassVar[str] = "noise taken at the middle of the range it is held in: what it looks at is known only in a run"
    beta: float = 0.5
    reference: float = 6.0
    least: float = 0.22
    most: float = 0.42
    shortest: float = 1e-3
    optimiser: str = "sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("optimiser", self.optimiser, OPTIMISERS)
        if not 0 <= self.beta <= 1:
            raise Problem(f"beta must lie between 0 and 1, got {self.beta}")
        if not (0 < self.least <= self.most and self.reference > 0 and self.shortest > 0):
            raise Problem(f"reference, shortest and least must be positive and most at least `least`, got {self.reference}, {self.shortest}, {self.least} and {self.most}")

    @property
    def peeks(self) -> bool:
        """It measures the private update for the client's next turn."""
        return self.beta > 0

    def remembers(self, layout) -> int:
        return int(self.peeks)

    def estimate(self, seen: Seen, memory: Tensor | None) -> Tensor:
        """S for each client of the cohort: [K]."""
        layers, most = seen.layout.layers(self.layers, self.state), self._most(seen)
        if seen.previous is None:
            return most
        step = norms((seen.previous - seen.current).unsqueeze(0), layers).square().sum().sqrt().cpu()
        own = memory[:, 0].double().cpu() if self.peeks else torch.zeros_like(most)
        known = self.beta * own + (1 - self.beta) * step
        return torch.where((seen.turns > 0) | (self.beta == 0), known, most).minimum(most)

    def _most(self, seen: Seen) -> Tensor:
        size = sum(len(layer) for layer in seen.layout.layers(self.layers, self.state))
        return OPTIMISERS[self.optimiser](seen.training.lr * seen.steps.double(), seen.training.clip, seen.training.momentum, size)

    def foresee(self, seen: Seen) -> Tensor:
        """As run, the middle of the range that the noise is held in."""
        return self.sigma(seen) * (self.least + self.most) / 2

    def measure(self, seen: Seen, local: Tensor | None) -> Tensor | None:
        """What the client remembers for its next turn: how long its clean update is."""
        if not self.peeks:
            return None
        length = norms(local - seen.current, seen.layout.layers(self.layers, self.state)).square().sum(1, keepdim=True).sqrt()
        return length.to(local.dtype)

    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        if self.form == "faithful":
            return self.faithful(seen, local, memory)
        factor = (self.estimate(seen, memory) / self.reference).clamp(self.least, self.most)
        plan = constant_plan(self, seen, self.sigma(seen) * factor)
        return Plan(plan.layers, plan.sigma, memory=self.measure(seen, local))

    def faithful(self, seen: Seen, local: Tensor | None, memory: Tensor | None) -> Plan:
        bound = self.estimate(seen, memory).clamp_min(self.shortest)
        plan = constant_plan(self, seen, 2 * bound * constant(self.epsilon, self.delta, self.constant) / self.epsilon)
        return Plan(plan.layers, plan.sigma, memory=self.measure(seen, local), clip=bound.unsqueeze(1).expand_as(plan.sigma))

    def share(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        """Under a common budget the estimate is where updates are clipped, never above the budget's own clip."""
        plan = super().share(seen, local, memory)
        bound = self.estimate(seen, memory).clamp(min(self.shortest, seen.allowance.clip), seen.allowance.clip)
        return Plan(plan.layers, plan.sigma, memory=self.measure(seen, local), clip=bound.unsqueeze(1))

    def claim(self) -> Guarantee:
        form = "Gaussian mechanism at the estimated sensitivity, per round"
        return Guarantee(self.epsilon, self.delta, "record", "one upload", form)

    def certify(self) -> Guarantee:
        peeking = ("sigma depends on the length of the client's private updates, which is paid for nowhere",) if self.peeks else ()
        return self.doubts(*peeking, "uploads of one client over the rounds are not composed by the method's own paper") if self.form == "faithful" else self.unproved(*peeking)
