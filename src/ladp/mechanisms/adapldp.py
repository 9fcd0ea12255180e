"""AdapLDP: a scaler inside the Gaussian mechanism's logarithm that follows how far a client is from the global model, and a direction step.

Yue et al., AdapLDP-FL: An Adaptive Local Differential Privacy for Federated Learning, TMC 2025. Formulas: known, those of the authors' released
program; that the paper's equations are the same: likely (docs/methods.md).
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import torch
from torch import Tensor

from ladp.columns import norms
from ladp.errors import Problem, choose
from ladp.mechanisms.gaussian import Baseline
from ladp.params import Layout
from ladp.privacy.mechanism import Guarantee, Plan, Seen, constant_plan

ROTATIONS = ("released", "intended")
FRESH = 0.001  # c_i and c_g before the first exchange
LEAST = 1e-6  # of a scaler, which stands in a logarithm
C, SPENT, UPLOAD = 0, 1, 2  # where a client's memory holds its scaler, its spent budget, and (from here on) its last upload


@dataclass(frozen=True)
class AdapLDP(Baseline):
    """As run: sigma = kappa sqrt(2 ln(1.25/(delta c)))/epsilon with a constant `scaler` c.

    Faithful, in round t of a client with learning rate eta_i: c_i <- .6 |c_i - c_g| + .4 ||w_g - w_i|| / eta_i from the second round on;
    sigma_i = sqrt(2 ln(1.25/(delta c_i))) Delta / epsilon_r with Delta = 2 eta_i C/|D_i| and epsilon_r = epsilon N/(K T); the noisy weights are
    multiplied by 1 + alpha cos(angle), the angle of each number's own part in the cosine between the client's step and the global one
    (`rotate`: released gives degrees to a cosine of radians, as the program does); the server replaces the cohort's c_i by their z-scores.
    """

    name: ClassVar[str] = "adapldp"
    scaler: float = 0.92
    alpha: float = 0.02
    rotate: str = "released"

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("rotation", self.rotate, ROTATIONS)
        if not 0 < self.delta * self.scaler < 1.25:
            raise Problem(f"scaler must be positive and delta times scaler below 1.25, got {self.scaler} at delta {self.delta}")

    @property
    def peeks(self) -> bool:
        """The scaler follows the private weights."""
        return self.form == "faithful"

    def remembers(self, layout: Layout) -> int:
        return UPLOAD + layout.size if self.peeks else 0

    def announces(self, layout: Layout) -> int:
        return int(self.peeks)

    def amplitude(self, t: int) -> float:
        return sqrt(log(1.25 / (self.delta * self.scaler)) / log(1.25 / self.delta))

    def schedule(self, rounds: int) -> list[float]:
        return [1.0] * rounds

    def faithful(self, seen: Seen, local: Tensor | None, memory: Tensor | None) -> Plan:
        c = self.scale(seen, local, memory)
        per_round = self.epsilon * seen.population.clients / (seen.population.active * seen.rounds)
        sensitivity = 2 * rate(seen) * seen.training.clip / seen.sizes.double()
        plan = constant_plan(self, seen, self.logarithm(seen, c) * sensitivity / per_round)
        return Plan(plan.layers, plan.sigma, memory=_with(memory, C, c))

    def scale(self, seen: Seen, local: Tensor, memory: Tensor) -> Tensor:
        """c_i of each client of the cohort: [K]."""
        own = torch.where(seen.turns > 0, memory[:, C].double().cpu(), FRESH)
        if seen.round == 1:
            return own
        distance = norms(local - seen.current, seen.layout.layers(self.layers, self.state)).square().sum(1).sqrt().cpu()
        return (0.6 * (own - seen.shared[0]).abs() + 0.4 * distance / rate(seen)).clamp_min(LEAST)

    def logarithm(self, seen: Seen, c: Tensor) -> Tensor:
        """sqrt(2 ln(1.25/(delta c))), refused where it has no value."""
        if bool((self.delta * c >= 1.25).any()):
            k = int(c.argmax())
            raise Problem(f"client {seen.cohort[k]}, round {seen.round}: its scaler is {c[k].item():.4g}, and delta times scaler must be below 1.25: take a smaller delta than {self.delta:g}")
        return (2 * (1.25 / (self.delta * c)).log()).sqrt()

    def finish(self, seen: Seen, uploads: Tensor, memory: Tensor | None = None) -> None:
        """The direction step, on what is noisy or public already, for clients that have uploaded before."""
        if not self.peeks:
            return
        again = (seen.turns > 0).nonzero().flatten().to(uploads.device)
        if seen.previous is not None and len(again):
            for layer in seen.layout.layers("tensor", "trainable"):
                part = slice(layer.start, layer.stop)
                last = memory[again, UPLOAD + layer.start : UPLOAD + layer.stop]
                uploads[again, part] *= 1 + self._turned(uploads[again, part] - last, seen.current[part] - seen.previous[part])
        memory[:, UPLOAD:] = uploads

    def _turned(self, own: Tensor, common: Tensor) -> Tensor:
        """alpha cos(angle) for every number of a tensor."""
        parts = own * common / (own.norm(dim=1, keepdim=True) * common.norm() + 1e-4)
        angle = parts.clamp(-1, 1).arccos()
        return self.alpha * (angle.rad2deg() if self.rotate == "released" else angle).cos()

    def exchange(self, seen: Seen, memory: Tensor | None) -> Tensor:
        """c_i <- (c_i - mean)/(deviation + 1e-5) over the cohort, and c_g <- the mean of what comes out."""
        if not self.peeks:
            return seen.shared
        c = memory[:, C].double()
        scores = (c - c.mean()) / (c.std(correction=0) + 1e-5)
        memory[:, C] = scores.to(memory.dtype)
        return scores.mean().reshape(1).cpu()

    def share(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        """Under a common budget the scaler decides how a client spreads its own share over its turns; the last turn spends what is left."""
        plan = super().share(seen, local, memory)
        if not self.peeks:
            return plan
        c, granted = self.scale(seen, local, memory), seen.allowance
        relative = self.logarithm(seen, c) / sqrt(2 * log(1.25 / self.delta))
        left = (seen.turns + 1 + granted.coming) / granted.multiplier**2 - memory[:, SPENT].double().cpu()
        charge = torch.where(granted.coming > 0, left * (1 / ((granted.coming + 1) * relative**2)).clamp_max(0.5), left)
        return Plan(plan.layers, plan.sigma, memory=_with(_with(memory, C, c), SPENT, memory[:, SPENT].double().cpu() + charge), multiplier=charge**-0.5)

    def claim(self) -> Guarantee:
        return self.claims("Gaussian mechanism with the scaler in its logarithm, basic composition of epsilon alone")

    def certify(self) -> Guarantee:
        return self.doubts(
            "sigma depends on the private weights through the scaler",
            "the scalers themselves are exchanged without noise",
            "Delta = 2 eta C/|D_i| is that of one full-batch step on gradients clipped record by record",
            "delta is not divided among the rounds",
        )


def rate(seen: Seen) -> Tensor:
    """The learning rate of each client after its steps of this round: [K]."""
    return seen.training.lr * seen.training.decay ** (seen.steps * (seen.turns + 1)).double()


def _with(memory: Tensor, place: int, values: Tensor) -> Tensor:
    """The memory with one number of each client replaced."""
    changed = memory.clone()
    changed[:, place] = values.to(memory)
    return changed
