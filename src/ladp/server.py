"""What the server makes of the noisy mean: a step of its own, and a mean over rounds. Both are functions of what has been released, and cost no privacy."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from ladp.errors import Problem, choose
from ladp.params import Layout

OPTIMISERS = ("mean", "momentum", "nesterov", "adam")
SECOND, TINY = 0.99, 1e-3  # of Adam: its second moment's memory, and what keeps it from dividing by nothing (Reddi et al. 2021)
AVERAGED = "averaged"


@dataclass(frozen=True)
class Server:
    """w <- w + lr d for the mean d of the cohort's updates; or d with momentum (`momentum`, `nesterov`), or Adam's step along d (Reddi et al. 2021).

    With `average` a > 0 what is tested and kept as the final model is the mean over rounds, A <- a_t A + (1 - a_t) w with a_t = min(a, (1 + t)/(10 + t)).
    """

    optimiser: str = "mean"
    lr: float = 1.0
    momentum: float = 0.9
    average: float = 0.0

    def __post_init__(self) -> None:
        choose("optimiser of the server", self.optimiser, OPTIMISERS)
        if not 0 < self.lr < inf:
            raise Problem(f"lr of the server must be positive, got {self.lr}")
        for name in ("momentum", "average"):
            if not 0 <= getattr(self, name) < 1:
                raise Problem(f"{name} of the server must be at least 0 and below 1, got {getattr(self, name)}")

    @property
    def plain(self) -> bool:
        """Whether the new global model is the mean and nothing else (equation 3)."""
        return self.optimiser == "mean" and self.lr == 1 and self.average == 0

    def step(self, layout: Layout, round: int, current: Tensor, mean: Tensor, moments: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The new global model and the moments after it; what is not trainable is the mean."""
        if self.plain:
            return mean, {}
        direction, kept = self._direction(round, mean - current, moments)
        moved = current + self.lr * direction
        for e in layout.entries:
            if not e.trainable:
                moved[e.start : e.stop] = mean[e.start : e.stop]
        if self.average:
            share = min(self.average, (1 + round) / (10 + round))
            kept[AVERAGED] = share * moments.get(AVERAGED, current) + (1 - share) * moved
        return moved, kept

    def _direction(self, round: int, update: Tensor, moments: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        if self.optimiser == "mean":
            return update, {}
        first = moments.get("first", torch.zeros_like(update))
        if self.optimiser == "adam":
            first = self.momentum * first + (1 - self.momentum) * update
            second = SECOND * moments.get("second", torch.zeros_like(update)) + (1 - SECOND) * update.square()
            length = (second / (1 - SECOND**round)).sqrt() + TINY
            return first / (1 - self.momentum**round) / length, {"first": first, "second": second}
        first = self.momentum * first + update
        return update + self.momentum * first if self.optimiser == "nesterov" else first, {"first": first}
