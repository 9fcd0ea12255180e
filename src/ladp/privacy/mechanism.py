"""The types that carry the idea: what is already seen, what is planned, what is claimed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import ClassVar

import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.params import Layer, Layout


@dataclass(frozen=True)
class Training:
    """The public constants of local training: E epochs of mini-batches of B, learning rate eta, gradient clip G_c.

    What other papers add: `momentum`; a learning rate that falls by `decay` with each of a client's steps, over all its rounds; `prox`, the mu of
    FedProx's mu/2 ||w - w_g||^2.
    """

    epochs: int = 2
    batch: int = 50
    lr: float = 0.1
    clip: float = 20.0
    augment: bool = False
    momentum: float = 0.0
    decay: float = 1.0
    prox: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "lr", "clip", "decay"):
            if not 0 < getattr(self, name) < inf:
                raise Problem(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise Problem(f"momentum must be at least 0 and below 1, got {self.momentum}")
        if not 0 <= self.prox < inf:
            raise Problem(f"prox must be at least 0, got {self.prox}")

    @property
    def plain(self) -> bool:
        """Whether it is the paper's: descent and nothing else."""
        return self.momentum == 0 and self.decay == 1 and self.prox == 0

    def steps(self, size: int) -> int:
        """How many times a client of `size` records steps in one round; the last batch may be a partial one."""
        return self.epochs * ceil(size / self.batch)


@dataclass(frozen=True)
class Population:
    """What is public about all clients: how many there are, how many take part in a round, how many records the smallest holds, and one on average."""

    clients: int
    active: int
    smallest: int
    average: float = 0.0

    def uploads(self, rounds: int) -> int:
        """How often a client is expected to take part in `rounds` rounds, at least once."""
        return max(1, ceil(rounds * self.active / self.clients))


@dataclass(frozen=True)
class Allowance:
    """What the budget planner grants the cohort in this round: noise multipliers z [K], the clip S of an update, and how many turns
    each client has left after this one [K]."""

    multiplier: Tensor
    clip: float
    coming: Tensor


@dataclass(frozen=True)
class Seen:
    """What everyone has been shown when the round begins: global models, constants, and which clients take part.

    For each client of the cohort: how many steps it takes, how many records it holds and how often it took part before, all [K].
    `shared` is what the method's own server has announced; `allowance` is there in a run under one budget for all methods.
    """

    round: int
    rounds: int
    layout: Layout
    current: Tensor
    previous: Tensor | None
    training: Training
    population: Population
    cohort: tuple[int, ...]
    steps: Tensor
    sizes: Tensor
    turns: Tensor
    shared: Tensor
    allowance: Allowance | None = None

    def of(self, k: int) -> "Seen":
        """The same for the k-th client of the cohort alone."""
        one = slice(k, k + 1)
        granted = self.allowance and replace(self.allowance, multiplier=self.allowance.multiplier[one], coming=self.allowance.coming[one])
        return replace(self, cohort=self.cohort[one], steps=self.steps[one], sizes=self.sizes[one], turns=self.turns[one], allowance=granted)


@dataclass(frozen=True)
class Plan:
    """How much noise each layer of each upload of the cohort gets: sigma [K, J]; zero sends the layer as it is.

    `clip` [K, J], where there is one, gives each layer a scale s_j: before the noise the update (or, if `clips` says so, the weights) is
    shortened until sqrt(sum_j ||v_j||^2 / s_j^2) <= 1. `divergence` is the KL before, `privacy` the P after clipping at B, where the method
    estimates them; `multiplier` [K] is the z that an upload is charged for; `memory` is what each client remembers from now on.
    """

    layers: tuple[Layer, ...]
    sigma: Tensor
    divergence: Tensor | None = None
    privacy: Tensor | None = None
    selected: Tensor | None = None
    memory: Tensor | None = None
    clip: Tensor | None = None
    clips: str = "update"
    multiplier: Tensor | None = None


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
    needs_budget: ClassVar[bool] = False
    layers: str = "tensor"
    state: str = "trainable"

    def __init_subclass__(cls, **more) -> None:
        """A method that gives itself no name is called as its class, in small letters."""
        super().__init_subclass__(**more)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()

    @abstractmethod
    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        """Sigma for each layer of each upload. `local` [K, size], the trained weights, is handed only to a mechanism that peeks."""

    def claim(self) -> Guarantee | None:
        """What its own paper says one upload costs."""
        return None

    @abstractmethod
    def certify(self) -> Guarantee:
        """What is proved."""

    def schedule(self, rounds: int) -> Sequence[float]:
        """How noise is spread over the rounds, as relative amplitudes; only their ratios matter, and only under a common budget."""
        return [1.0] * rounds

    def share(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        """How noise is spread over the layers under a common budget: a plan whose sigma are ratios; its `clip` and `multiplier`,
        where it has them, stand in for what the budget grants."""
        layers = seen.layout.layers(self.layers, self.state)
        return Plan(layers, torch.ones(len(seen.cohort), len(layers), dtype=torch.float64))

    def finish(self, seen: Seen, uploads: Tensor, memory: Tensor | None = None) -> None:
        """What becomes of the noisy uploads [K, size] before they leave, in place; it may use whatever has been released before."""

    def remembers(self, layout: Layout) -> int:
        """How many numbers each client keeps between its rounds; they start at zero and are saved with the run."""
        return 0

    def announces(self, layout: Layout) -> int:
        """How many numbers the method's server shows to all beside the model; they start at zero and are saved with the run."""
        return 0

    def exchange(self, seen: Seen, memory: Tensor | None) -> Tensor:
        """What the server announces after a round, from what the cohort told it; it may change the cohort's memory [K, M] in place."""
        return seen.shared

    def downlink(self, seen: Seen) -> float:
        """Sigma of the noise that the server adds to the new global model."""
        return 0.0


def constant_plan(mechanism: Mechanism, seen: Seen, sigma: Tensor) -> Plan:
    """The same sigma [K] for all layers of an upload."""
    layers = seen.layout.layers(mechanism.layers, mechanism.state)
    return Plan(layers, sigma.to(torch.float64).unsqueeze(1).expand(-1, len(layers)))
