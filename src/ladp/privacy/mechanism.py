"""The types that carry the idea: what is already seen, what is planned, what is claimed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar

import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.params import Layer, Layout


@dataclass(frozen=True)
class Training:
    """The public constants of local training: E epochs of mini-batches of B, learning rate eta, gradient clip G_c."""

    epochs: int = 2
    batch: int = 50
    lr: float = 0.1
    clip: float = 20.0
    augment: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "lr", "clip"):
            if not 0 < getattr(self, name) < inf:
                raise Problem(f"{name} must be positive, got {getattr(self, name)}")

    def steps(self, size: int) -> int:
        """How many times a client of `size` records steps in one round; the last batch may be a partial one."""
        return self.epochs * ceil(size / self.batch)


@dataclass(frozen=True)
class Seen:
    """What everyone has been shown when the round begins: global models, constants, and which clients take part with how many steps each."""

    round: int
    rounds: int
    layout: Layout
    current: Tensor
    previous: Tensor | None
    training: Training
    cohort: tuple[int, ...]
    steps: Tensor

    def of(self, k: int) -> "Seen":
        """The same for the k-th client of the cohort alone."""
        return Seen(self.round, self.rounds, self.layout, self.current, self.previous, self.training, self.cohort[k : k + 1], self.steps[k : k + 1])


@dataclass(frozen=True)
class Plan:
    """How much noise each layer of each upload of the cohort gets: sigma [K, J]; zero sends the layer as it is.

    `divergence` is the KL before, `privacy` the P after clipping at B, where the method estimates them.
    """

    layers: tuple[Layer, ...]
    sigma: Tensor
    divergence: Tensor | None = None
    privacy: Tensor | None = None
    selected: Tensor | None = None
    memory: Tensor | None = None


@dataclass(frozen=True)
class Guarantee:
    """An epsilon with everything that gives it a meaning; infinity, with the reasons, where nothing is proved."""

    epsilon: float
    delta: float | None
    unit: str
    view: str
    accountant: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mechanism(ABC):
    """One method of noise. Its fields are its configuration; `plan` is pure.

    `layers` says what a layer is (one a tensor, or one a module); `state` says which entries it may noise
    (trainable ones, or all, with BatchNorm's statistics, as the paper's runs did).
    """

    name: ClassVar[str]
    peeks: ClassVar[bool] = False
    layers: str = "tensor"
    state: str = "trainable"

    @abstractmethod
    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        """Sigma for each layer of each upload. `local` [K, size], the trained weights, is handed only to a mechanism that peeks."""

    def claim(self) -> Guarantee | None:
        """What its own paper says one upload costs."""
        return None

    @abstractmethod
    def certify(self) -> Guarantee:
        """What is proved."""

    def remembers(self, layout: Layout) -> int:
        """How many numbers each client keeps between its rounds; they start at zero and are saved with the run."""
        return 0


def constant_plan(mechanism: Mechanism, seen: Seen, sigma: Tensor) -> Plan:
    """The same sigma [K] for all layers of an upload."""
    layers = seen.layout.layers(mechanism.layers, mechanism.state)
    return Plan(layers, sigma.to(torch.float64).unsqueeze(1).expand(-1, len(layers)))
