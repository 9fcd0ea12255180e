"""The search for images that explain an upload: signed gradients with momentum and steps that get shorter, from several starts, the best kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ladp.attacks.resemblance import variation
from ladp.attacks.simulation import Simulation
from ladp.keys import Key, one_thread
from ladp.training.local import Schedule

MOMENTUM, START = 0.9, 0.1
FALLS = (3 / 8, 5 / 8, 7 / 8)  # of the steps: where their length falls to a tenth


@dataclass(frozen=True)
class Settings:
    """How long, how often and how far the search goes."""

    restarts: int
    steps: int
    lr: float
    tv: float


@dataclass
class Search:
    """Where a search stands: the images of this start and their velocity, and the best of the starts before with its objective."""

    settings: Settings
    shape: tuple[int, ...]
    key: Key
    done: int
    images: Tensor
    velocity: Tensor
    best: Tensor
    least: float
    now: float = float("inf")

    @staticmethod
    def begin(settings: Settings, shape: tuple[int, ...], key: Key, like: Tensor) -> "Search":
        """Nothing is found yet."""
        blank = torch.zeros(shape, dtype=like.dtype, device=like.device)
        return Search(settings, shape, key, 0, blank, blank, blank, float("inf"))

    @property
    def total(self) -> int:
        return self.settings.restarts * self.settings.steps

    def go(self, simulation: Simulation) -> Iterator[int]:
        """Every step, and its number from 1; the last of a start decides whether it is the best."""
        while self.done < self.total:
            restart, step = divmod(self.done, self.settings.steps)
            if step == 0:
                self._start(restart)
            with one_thread():
                schedule = self._order(simulation, restart)
                self._step(simulation, schedule, step)
                if step == self.settings.steps - 1:
                    self._compare(float(self._objective(simulation, self.images, schedule).detach()))
            self.done += 1
            yield self.done

    def _start(self, restart: int) -> None:
        """Images that are grey, with a little noise."""
        noise = torch.randn(self.shape, generator=self.key.at("start", restart).generator(), dtype=torch.float64)
        self.images = (START * noise).clamp(-1, 1).to(self.images)
        self.velocity = torch.zeros_like(self.images)

    def _order(self, simulation: Simulation, restart: int) -> Schedule | None:
        """In which order the client may have met its records: a guess of every start's own, since the server does not know."""
        training = simulation.sent.work.training
        return None if simulation.sent.drawn is not None else Schedule.draw(self.key, restart, 0, self.shape[0], training)

    def _objective(self, simulation: Simulation, images: Tensor, schedule: Schedule | None) -> Tensor:
        return simulation.misfit(images, schedule) + self.settings.tv * variation(images)

    def _step(self, simulation: Simulation, schedule: Schedule | None, step: int) -> None:
        """Adam on the signs of the gradient, whose second moment is 1, held in [-1, 1]."""
        images = self.images.detach().requires_grad_()
        objective = self._objective(simulation, images, schedule)
        self.now, slope = float(objective.detach()), torch.autograd.grad(objective, images)[0].nan_to_num()
        self.velocity = MOMENTUM * self.velocity + (1 - MOMENTUM) * slope.sign()
        length = self.settings.lr * 0.1 ** sum(step >= fall * self.settings.steps for fall in FALLS)
        self.images = (images.detach() - length * self.velocity / (1 - MOMENTUM ** (step + 1))).clamp(-1, 1)

    def _compare(self, objective: float) -> None:
        if not objective >= self.least:
            self.best, self.least = self.images, objective

    def pack(self) -> dict[str, Tensor]:
        """All of it as tensors, to be kept."""
        facts = torch.tensor([self.done, self.least], dtype=torch.float64)
        return {"images": self.images.clone(), "velocity": self.velocity.clone(), "best": self.best.clone(), "facts": facts}

    def unpack(self, kept: dict[str, Tensor]) -> None:
        """Go on from what was kept."""
        self.images, self.velocity, self.best = kept["images"], kept["velocity"], kept["best"]
        self.done, self.least = int(kept["facts"][0]), float(kept["facts"][1])
