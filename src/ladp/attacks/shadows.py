"""Federations of an adversary's own: the run's recipe, other seeds, and each time another half of the targets."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladp import experiment, folder
from ladp.attacks.attack import Step
from ladp.attacks.confidence import models
from ladp.attacks.scene import Scene
from ladp.attacks.targets import Targets
from ladp.data import Dataset
from ladp.errors import Problem
from ladp.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Shadows:
    """`count` federations in folders of their own; number 2k and 2k + 1 hold opposite halves of the targets, and every other training record of the run."""

    scene: Scene
    targets: Targets
    count: int

    @cached_property
    def held(self) -> NDArray[np.bool_]:
        """Whether each target (members first) is a record of each shadow: [count, n]."""
        many = 2 * len(self.targets.members)
        ranks = np.stack([self.scene.key.at("half", pair).numpy().permutation(many) for pair in range(self.count // 2)])
        first = ranks < many // 2
        return np.stack([first, ~first], 1).reshape(self.count, many)

    @cached_property
    def pool(self) -> Dataset:
        """All records of the run's data in one tensor, which all shadows share: training records, then test records."""
        data = self.scene.dataset
        joined = torch.cat([data.images, data.test_images]), torch.cat([data.labels, data.test_labels])
        return replace(data, images=joined[0], labels=joined[1])

    def records(self, number: int) -> tuple[Tensor, Tensor]:
        """Which of the pool one shadow trains on, and which it is tested on: those held take the members' places, those not held the others'."""
        train, test = len(self.scene.dataset), len(self.scene.dataset.test_labels)
        places = np.concatenate([self.targets.members, train + self.targets.strangers])
        order = np.arange(train + test)
        order[places] = np.concatenate([places[self.held[number]], places[~self.held[number]]])
        return torch.from_numpy(order[:train]), torch.from_numpy(order[train:])

    def dataset(self, number: int) -> Dataset:
        """The data of one shadow."""
        chosen, tested = self.records(number)
        return replace(self.pool, chosen=chosen, test_images=self.pool.images[tested], test_labels=self.pool.labels[tested])

    def recipe(self, number: int) -> Recipe:
        """The run's own but for the seed, in the precision that the run was made in; nobody's ledger is charged."""
        run, seed = self.scene.recipe, self.scene.key.at("shadow", number).integer()
        return replace(run, seed=seed, precision=self.scene.work.precision, evaluate_every=run.rounds, ledger=None)

    @cached_property
    def folders(self) -> dict[Path, Dataset]:
        """Where each shadow lies, made if need be: by its name it belongs to these records and to no others."""
        data = [self.dataset(number) for number in range(self.count)]
        names = (f"{number:03}-{sha256(one.chosen.numpy().tobytes()).hexdigest()[:12]}" for number, one in enumerate(data))
        found = {self.scene.out / "shadows" / name: one for name, one in zip(names, data)}
        for number, (out, one) in enumerate(found.items()):
            if not (out / folder.RECIPE).exists():
                experiment.create(self.recipe(number), out, reader(one))
        return found

    def train(self) -> Iterator[Step]:
        """Run what is left of every shadow: as one computation where clients are stacked, else one after the other."""
        rounds = self.scene.recipe.rounds
        together = self.scene.engine == "stacked"
        for done, news in self._together(rounds) if together else self._one_by_one(rounds):
            yield Step(done, self.count * rounds, news)

    def _together(self, rounds: int) -> Iterator[tuple[int, str]]:
        own = {out: reader(data) for out, data in self.folders.items()}
        with closing(experiment.convoy(list(own), own=own)) as ended:
            for place, (out, result) in enumerate(ended, 1):
                if isinstance(result, Problem):
                    raise Problem(f"{out.name} of the shadows: {result}") from result
                yield place * rounds, f"shadow {place} of {self.count}"

    def _one_by_one(self, rounds: int) -> Iterator[tuple[int, str]]:
        for place, (out, data) in enumerate(self.folders.items()):
            with closing(experiment.play(out, read=reader(data))) as records:
                for record in records:
                    yield place * rounds + record["round"], f"shadow {place + 1} of {self.count}"

    def watch(self, numbers: list[int], images: Tensor, labels: Tensor) -> Generator[Step, None, Tensor]:
        """How sure the models of every shadow are of the targets: [count, rounds, n]."""
        found = []
        for out, data in self.folders.items():
            kept = out / "seen"
            with folder.writing(kept):
                kept.mkdir(exist_ok=True)
            found.append((yield from models(Scene.of(out, kept, self.scene.digest, reader(data)), numbers, images, labels)))
        return torch.stack(found)


def reader(dataset: Dataset) -> experiment.Read:
    """What reads these records, whatever the recipe calls them."""
    return lambda *_: dataset
