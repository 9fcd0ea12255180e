"""Certified LaDP: the paper's idea, layers chosen by importance and noised by a privacy estimate, from public history alone, so that it can be proved.

One Gaussian release of multiplier z whatever the shares s_j (docs/guarantees.md, Theorem 1): how noise is spread over layers is free, and only z is paid for.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ladp.columns import divergences, norms
from ladp.errors import Problem, choose
from ladp.mechanisms.ladp import quantile
from ladp.params import Layer, Layout
from ladp.privacy.mechanism import Guarantee, Mechanism, Plan, Seen

SHARES = ("uniform", "size", "update", "divergence", "curvature")
SPREAD = 10.0  # no layer's share is further than this from the others' middle


@dataclass(frozen=True)
class Certified(Mechanism):
    """Noise z s_j on layer j, under a budget that finds z. Everything it looks at has been shown to all: the last global models and what it announced.

    `share_by` says s_j: uniform, 1; size, d_j^(-1/4); update, (G_j^2/d_j)^(1/4) with G_j the length of the layer's public steps; divergence, P_j^(-power) with P_j the
    KL of the paper between successive global models; curvature, (G_j^2/(h_j d_j))^(1/4) with h_j from successive public steps. Layers whose public norm is below
    `importance` R (a number, or "q0.25") are frozen for the round and cost nothing. With `adapt` a > 0 the clip follows the public steps, S (G_t/G_1)^a within [S/10, S].
    """

    name: ClassVar[str] = "certified"
    needs_budget: ClassVar[bool] = True
    share_by: str = "uniform"
    power: float = 0.25
    importance: float | str = 0.0
    adapt: float = 0.0
    smoothing: float = 0.9
    ratio: float = 1.0

    def __post_init__(self) -> None:
        choose("share", self.share_by, SHARES)
        quantile(self.importance)
        if not 0 <= self.smoothing < 1:
            raise Problem(f"smoothing of the public history must be at least 0 and below 1, got {self.smoothing}")
        if not 0 < self.ratio <= 1:
            raise Problem(f"ratio must lie above 0 and at most at 1, got {self.ratio}")
        if not (self.power >= 0 and self.adapt >= 0):
            raise Problem(f"power and adapt must not be negative, got {self.power} and {self.adapt}")

    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        raise Problem("method 'certified' has no noise of its own, only shares of a budget's")

    def certify(self) -> Guarantee:
        return Guarantee(float("inf"), None, "record", "server", "none applies", ("there is no budget",))

    def schedule(self, rounds: int) -> list[float]:
        return [self.ratio**t for t in range(rounds)]

    def share(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        layers, history = seen.layout.layers(self.layers, self.state), self.follow(seen)
        shares = self._spread(layers, history, seen)
        chosen = self._chosen(seen, layers)
        every = torch.where(chosen, shares, 0.0).expand(len(seen.cohort), -1)
        bound = seen.allowance.clip * self._shrunk(history)
        return Plan(layers, every, selected=chosen.expand(len(seen.cohort), -1), clip=torch.full((len(seen.cohort), 1), bound, dtype=torch.float64))

    def announces(self, layout: Layout) -> int:
        layers = len(layout.layers(self.layers, self.state))
        return 2 + 3 * layers + (layout.size if self.share_by == "curvature" else 0)

    def exchange(self, seen: Seen, memory: Tensor | None) -> Tensor:
        return self.follow(seen).packed

    def follow(self, seen: Seen) -> "History":
        """The public history with the newest step in it."""
        layers = seen.layout.layers(self.layers, self.state)
        before = History.of(seen.shared, len(layers))
        if seen.previous is None:
            return before
        step = (seen.current - seen.previous).unsqueeze(0)
        squares = norms(step, layers).cpu()[0].square()
        moved = divergences(seen.current.unsqueeze(0), seen.previous, layers).cpu()[0] if self.share_by == "divergence" else torch.zeros_like(squares)
        bend = torch.zeros_like(squares)
        if len(before.last):
            turned = norms(step - before.last.to(step).unsqueeze(0), layers).cpu()[0]
            bend = turned / before.last_norms(layers).clamp_min(1e-30) if bool(before.last.any()) else bend
        return before.advance(self.smoothing, squares, moved, bend, step[0].double().cpu())

    def _spread(self, layers: tuple[Layer, ...], history: "History", seen: Seen) -> Tensor:
        """s_j of each layer: [J]."""
        sizes = torch.tensor([len(layer) for layer in layers], dtype=torch.float64)
        if self.share_by == "uniform":
            return torch.ones_like(sizes)
        if self.share_by == "size" or history.count == 0:
            return _held(sizes ** -0.25)
        if self.share_by == "divergence":
            return _held(history.divergence.clamp_min(1e-30) ** -self.power)
        bend = history.bend.clamp_min(1e-30) if self.share_by == "curvature" and bool(history.bend.any()) else torch.ones_like(sizes)
        return _held((history.squares.clamp_min(1e-30) / (bend * sizes)) ** 0.25)

    def _chosen(self, seen: Seen, layers: tuple[Layer, ...]) -> Tensor:
        """The layers that are trained in this round: ||w_gj|| >= R (Algorithm 2, line 12, on what is public): [J]."""
        sizes, level = norms(seen.current.unsqueeze(0), layers).cpu()[0], quantile(self.importance)
        chosen = sizes >= (float(self.importance) if level is None else sizes.quantile(level))
        if not bool(chosen.any()):
            raise Problem(f"round {seen.round}: no layer of the global model has a norm of {self.importance} or more, so nothing would be trained: take a smaller importance, or a quantile such as 'q0.25'")
        return chosen

    def _shrunk(self, history: "History") -> float:
        """By how much the clip is smaller than the budget's."""
        return min(1.0, max(0.1, (history.length / history.first) ** self.adapt)) if self.adapt and history.first else 1.0


def _held(shares: Tensor) -> Tensor:
    """Shares within SPREAD of their middle."""
    middle = shares.median()
    return shares.clamp(middle / SPREAD, middle * SPREAD)


@dataclass(frozen=True)
class History:
    """What everyone has seen of the global model's steps: how many, the length of the first, and running means by layer of squared lengths,
    divergences and bends (how much a step differs from the one before it, over its length); the last step itself where bends are measured."""

    count: int
    first: float
    squares: Tensor
    divergence: Tensor
    bend: Tensor
    last: Tensor

    @staticmethod
    def of(shared: Tensor, layers: int) -> "History":
        parts = shared[2 : 2 + 3 * layers].view(3, layers)
        return History(int(shared[0]), float(shared[1]), *parts, shared[2 + 3 * layers :])

    @property
    def packed(self) -> Tensor:
        head = torch.tensor([self.count, self.first], dtype=torch.float64)
        return torch.cat([head, self.squares, self.divergence, self.bend, self.last])

    @property
    def length(self) -> float:
        """How long a step is."""
        return float(self.squares.sum().sqrt())

    def last_norms(self, layers: tuple[Layer, ...]) -> Tensor:
        """How long the last step is, layer by layer."""
        return norms(self.last.unsqueeze(0), layers)[0]

    def advance(self, smoothing: float, squares: Tensor, divergence: Tensor, bend: Tensor, step: Tensor) -> "History":
        kept = min(smoothing, self.count / (self.count + 1))  # the plain mean, until there are enough
        mix = lambda old, new: kept * old + (1 - kept) * new  # noqa: E731
        mixed = mix(self.squares, squares), mix(self.divergence, divergence), mix(self.bend, bend)
        return History(self.count + 1, self.first or float(squares.sum().sqrt()), *mixed, step if len(self.last) else self.last)
