"""What Gaussian methods of the paper's family share: epsilon and delta of one upload, the constant, and the sensitivity."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ladp.errors import Problem, choose
from ladp.privacy.gaussian import RULES, constant
from ladp.privacy.mechanism import Guarantee, Mechanism, Seen, Training

SENSITIVITIES: dict[str, Callable[[Training, Tensor, float], Tensor]] = {  # of clients that take so many steps [K]
    # Theorem 2 of the paper, as printed (Algorithm 2, line 10): epochs are counted, not steps.
    "theorem": lambda training, steps, kappa: torch.full_like(steps, 2 * training.lr * training.epochs * training.clip, dtype=torch.float64),
    # The same argument with every mini-batch step counted.
    "steps": lambda training, steps, kappa: 2 * training.lr * training.clip * steps.double(),
    # What the paper's runs used in its place: a constant that depends on nothing.
    "as-run": lambda training, steps, kappa: torch.full_like(steps, kappa, dtype=torch.float64),
}


@dataclass(frozen=True)
class GaussianMethod(Mechanism):
    """sigma = c Delta / epsilon, times what the method itself decides.

    `constant` is c by rule: `classical` sqrt(2 ln(1.25/delta)), `paper` the constant of the paper's privacy theorem (without B),
    `exact` the least that is enough. `sensitivity` is Delta by rule: `theorem` 2 eta E G_c, `steps` 2 eta G_c steps, `as-run` kappa.
    """

    epsilon: float = 0.5
    delta: float = 0.02
    constant: str = "classical"
    sensitivity: str = "as-run"
    kappa: float = 0.01

    def __post_init__(self) -> None:
        choose("constant", self.constant, RULES)
        choose("sensitivity", self.sensitivity, SENSITIVITIES)
        constant(self.epsilon, self.delta, self.constant)
        if not self.kappa > 0:
            raise Problem(f"kappa must be positive, got {self.kappa}")

    def sigma(self, seen: Seen) -> Tensor:
        """c Delta / epsilon for each client of the cohort: [K], float64."""
        return constant(self.epsilon, self.delta, self.constant) / self.epsilon * SENSITIVITIES[self.sensitivity](seen.training, seen.steps, self.kappa)

    def unproved(self, *reasons: str) -> Guarantee:
        """Infinity, with why: the method's own reasons and those of the rule for Delta."""
        return Guarantee(float("inf"), self.delta, "record", "server", "none applies", (*reasons, *WHY[self.sensitivity]))


WHY = {
    "theorem": (
        "Delta = 2 eta E G_c counts epochs; mini-batch training takes 2 eta G_c for every step",
        "the clip bounds the mini-batch gradient, not each record's, and nothing bounds how one record moves later steps beyond it",
    ),
    "steps": ("uploads of one client over the rounds are not composed by the method's own paper",),
    "as-run": ("kappa is a constant that bounds nothing: the noise is not tied to any sensitivity",),
}
