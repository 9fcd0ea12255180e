"""The true null of an attack on a class: the same run, played where nobody holds it."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ladp.attacks.scene import Scene
from ladp.data.split import Amended
from ladp.errors import Problem


def without(scene: Scene, private: int) -> Scene:
    """The scene whose rounds are played without the records of a class; cohorts and keys stay those of the run."""
    return replace(scene, work=replace(scene.work, split=Without(scene.work.split, scene.work.labels, private)))


@dataclass(frozen=True, eq=False)
class Without(Amended):
    """A split from which one class is gone."""

    labels: Tensor
    private: int

    def indices(self, client: int) -> np.ndarray:
        """The client's records but those of the private class."""
        records = self.split.indices(client)
        return records[(self.labels[torch.from_numpy(records)] != self.private).numpy()]

    def sizes(self) -> np.ndarray:
        """|D_i| of every client without them; a client that would be left with nothing is refused."""
        sizes = np.array([len(self.indices(client)) for client in range(len(self))], np.int64)
        if not sizes.all():
            raise Problem(f"client {int(sizes.argmin())} has no records but those of the private class: the run cannot be played without it")
        return sizes
