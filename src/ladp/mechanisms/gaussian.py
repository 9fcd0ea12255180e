"""What Gaussian methods of the paper's family share: epsilon and delta of one upload, the constant, and the sensitivity."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ladp.errors import Problem, choose
from ladp.privacy.gaussian import RULES, constant
from ladp.privacy.mechanism import Guarantee, Mechanism, Plan, Seen, Training, constant_plan

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

    foreseen: ClassVar[str] = "every layer taken as noised at the method's constant: what it looks at is known only in a run"
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

    def foresee(self, seen: Seen) -> Tensor:
        """Sigma [K] to reckon with before a run, for a method whose own sigma follows what only a run has: the constant, on every layer."""
        return self.sigma(seen)

    def unproved(self, *reasons: str) -> Guarantee:
        """Infinity, with why: the method's own reasons and those of the rule for Delta."""
        return Guarantee(float("inf"), self.delta, "record", "server", "none applies", (*reasons, *WHY[self.sensitivity]))


FORMS = ("as-run", "faithful")
LEAST = 1e-100  # of a falling amplitude, which is divided by in squares
AS_RUN_CLAIM = "Gaussian mechanism as the paper applies it, per round"
MINI_BATCHES = "Delta = 2 eta G_c / |D_i| is that of one full-batch step on gradients clipped record by record, and several mini-batch steps are taken"


@dataclass(frozen=True)
class Baseline(GaussianMethod):
    """A method that the paper compares with: `as-run`, kappa c s_t / epsilon with the method's own schedule s_t, as the LaDP-FL paper ran it;
    `faithful`, as its own paper has it, where epsilon and delta are those of all rounds together."""

    form: str = "as-run"

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("form", self.form, FORMS)

    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        if self.form == "faithful":
            return self.faithful(seen, local, memory)
        return constant_plan(self, seen, self.sigma(seen) * self.amplitude(seen.round - 1))

    @abstractmethod
    def faithful(self, seen: Seen, local: Tensor | None, memory: Tensor | None) -> Plan:
        """The plan of the method's own paper."""

    def amplitude(self, t: int) -> float:
        """s_t, t = 0, 1, ..: the noise of a round relative to that of the first."""
        return 1.0

    def schedule(self, rounds: int) -> list[float]:
        if (last := self.amplitude(rounds - 1)) < LEAST:
            raise Problem(f"after {rounds} rounds {self.name!r} has {last:g} of its first noise left, too little to reckon with: let it fall more slowly, or take fewer rounds")
        return [self.amplitude(t) for t in range(rounds)]

    def claims(self, accountant: str) -> Guarantee:
        """What the form that is used claims: of one upload as run, of all of them by its own paper's accountant."""
        view, said = ("all uploads", accountant) if self.form == "faithful" else ("one upload", AS_RUN_CLAIM)
        return Guarantee(self.epsilon, self.delta, "record", view, said)

    def doubts(self, *faithful: str) -> Guarantee:
        """Infinity, with the reasons against the form that is used."""
        return Guarantee(float("inf"), self.delta, "record", "server", "none applies", faithful) if self.form == "faithful" else self.unproved()


def full_batch(seen: Seen) -> Tensor:
    """Delta = 2 eta G_c / |D_i| for each client of the cohort: one full-batch step on clipped gradients."""
    return 2 * seen.training.lr * seen.training.clip / seen.sizes.double()


WHY = {
    "theorem": (
        "Delta = 2 eta E G_c counts epochs; mini-batch training takes 2 eta G_c for every step",
        "the clip bounds the mini-batch gradient, not each record's, and nothing bounds how one record moves later steps beyond it",
    ),
    "steps": ("uploads of one client over the rounds are not composed by the method's own paper",),
    "as-run": ("kappa is a constant that bounds nothing: the noise is not tied to any sensitivity",),
}
