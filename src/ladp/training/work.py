"""What an engine is given once for a run, and what it hands back every round."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ladp.data.partition import Split
from ladp.errors import Problem
from ladp.keys import Key
from ladp.params import Layout
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Allowance, Mechanism, Population, Seen, Training
from ladp.privacy.release import Receipt
from ladp.server import Server

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bf16": torch.float32}  # of the weights; bf16 is for the arithmetic


@dataclass(frozen=True)
class Work:
    """The fixed part of a run. Images stay bytes, features what they are, and both stay where they are; a client is a list of their indices."""

    model: nn.Module
    layout: Layout
    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    split: Split
    mechanism: Mechanism
    training: Training
    key: Key
    active: int
    device: str = "cpu"
    precision: str = "float32"
    workers: int | None = None
    budget: Budget | None = None
    server: Server = Server()

    @property
    def recordwise(self) -> bool:
        """Whether noise enters at every local step, for single records."""
        return self.budget is not None and self.budget.records

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.precision]

    @property
    def passes(self) -> float:
        """How often a record is met in a round (unit record: expected)."""
        return self.budget.steps * self.budget.rate * self.budget.copies if self.recordwise else self.training.epochs

    def cohort(self, round: int) -> list[int]:
        """A uniform cohort without replacement (Algorithm 1, line 4)."""
        return self.key.at("cohort", round).numpy().choice(len(self.split), self.active, replace=False).tolist()

    @cached_property
    def held(self) -> np.ndarray:
        """|D_i| of every client."""
        return self.split.sizes()

    @cached_property
    def population(self) -> Population:
        return Population(len(self.split), self.active, int(self.held.min()), float(self.held.mean()))

    def see(self, round: int, rounds: int, current: Tensor, previous: Tensor | None, cohort: Sequence[int], turns: Tensor, shared: Tensor,
            allowance: Allowance | None = None) -> Seen:  # fmt: skip
        """What these clients have been shown when the round begins."""
        sizes = torch.from_numpy(self.held[list(cohort)].astype(np.int64))
        steps = torch.tensor([self.budget.steps if self.recordwise else self.training.steps(size) for size in sizes.tolist()])
        public = (self.layout, current, previous, self.training, self.population)
        return Seen(round, rounds, *public, tuple(cohort), steps, sizes, turns, shared, allowance)


@dataclass
class Uploads:
    """What the clients of a cohort sent: noisy rows [K, size], integer buffers [K, C], mean training losses [K], and receipts."""

    rows: Tensor
    counts: Tensor
    losses: Tensor
    receipt: Receipt


class Engine(Protocol):
    """Trains a cohort and lets its uploads out through `release`, evaluates a model, and gives back what it holds."""

    def round(self, seen: Seen, cohort: list[int], counts: Tensor, memory: Tensor | None = None) -> Uploads: ...

    def evaluate(self, row: Tensor, counts: Tensor) -> tuple[float, float]: ...

    def close(self) -> None: ...


def refuse_nan(work: Work, seen: Seen, client: int, loss: float, row: Tensor) -> None:
    """Stop before anything is released if local training ended in a loss or a weight that is not finite."""
    finite = bool(row.sum().isfinite()) or bool(row.isfinite().all())  # numbers that are finite may have a sum that is not
    if isfinite(loss) and finite:
        return
    culprit = "its weights are still finite" if finite else f"the first layer that is not finite is {work.layout.culprit(row)!r}"
    raise Problem(
        f"client {client}, round {seen.round}: the training loss is {loss:g} and {culprit}; "
        f"lower the learning rate ({work.training.lr:g}) or the noise; the run folder keeps all rounds before this one"
    )
