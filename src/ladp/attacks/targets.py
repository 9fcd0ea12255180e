"""The records whose membership is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ladp.attacks.scene import Scene
from ladp.errors import Problem

LEAST = 4


@dataclass(frozen=True, eq=False)
class Targets:
    """Training records that were used (`members`) and test records, which were not (`strangers`); both in random order."""

    members: NDArray[np.int64]
    strangers: NDArray[np.int64]

    @staticmethod
    def draw(scene: Scene, clients: Sequence[int], most: int, even: bool) -> "Targets":
        """Records of these clients and of the test set, at most so many of each (0: all), as many of both if `even`."""
        kinds = {"members": held(scene, clients), "strangers": np.arange(len(scene.work.test_labels))}
        many = [min(most or len(records), len(records)) for records in kinds.values()]
        many = [min(many)] * 2 if even else many
        if min(many) < LEAST:
            raise Problem(f"{many[0]} members and {many[1]} others are too few to tell apart: an attack needs at least {LEAST} of each; raise --records, or leave --client out")
        drawn = (scene.key.at(name).numpy().permutation(records)[:count] for (name, records), count in zip(kinds.items(), many))
        return Targets(*drawn)

    def take(self, scene: Scene) -> tuple[Tensor, Tensor]:
        """Images and labels, members first."""
        parts = scene.take(torch.from_numpy(self.members)), scene.take(torch.from_numpy(self.strangers), test=True)
        images, labels = zip(*parts)
        return torch.cat(images), torch.cat(labels)

    def parts(self, scores: NDArray) -> tuple[NDArray, NDArray]:
        """Scores [..., n] of the members and of the others."""
        return scores[..., : len(self.members)], scores[..., len(self.members) :]


def held(scene: Scene, clients: Sequence[int]) -> NDArray[np.int64]:
    """The training records of these clients, each once."""
    return np.unique(np.concatenate([scene.work.split.indices(client) for client in clients]))


def cohorts(scene: Scene, until: int) -> dict[int, list[int]]:
    """Who took part in each round: what the run wrote of it, or who is drawn."""
    return {number: scene.log[number]["clients"] if number in scene.log else scene.work.cohort(number) for number in range(1, until + 1)}


def taking_part(scene: Scene, client: int | None, until: int) -> list[int]:
    """The client that is asked for, or all that took part."""
    count = len(scene.work.split)
    if client is not None and not 0 <= client < count:
        raise Problem(f"client must be between 0 and {count - 1}, got {client}")
    present = sorted({each for cohort in cohorts(scene, until).values() for each in cohort})
    if client is not None and client not in present:
        raise Problem(f"client {client} took no part in {until} rounds, so none of its records is a member: choose another, such as {present[0]}")
    return present if client is None else [client]
