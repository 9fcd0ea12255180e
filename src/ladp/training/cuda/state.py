"""What the clients of a cohort keep on the device while they train: weights, gradients, the order of their records, and losses."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ladp.keys import Key
from ladp.training.cuda.arrangement import Arrangement
from ladp.training.local import PAD, Schedule


@dataclass(frozen=True)
class State:
    """K clients: weights [K, width], a working copy [K, trained] and gradients in the precision of the arithmetic, packed records [K, longest].

    Dropout in the kernels follows from `seeds` by counter; in plain torch it is drawn from `sources`, as one client alone would draw it.
    """

    weights: Tensor
    working: Tensor
    slopes: Tensor
    order: Tensor
    cursor: Tensor
    losses: Tensor
    seeds: Tensor
    sources: list[torch.Generator]

    @staticmethod
    def create(clients: int, longest: int, arrangement: Arrangement, weights: torch.dtype, working: torch.dtype, device: str) -> "State":
        """Zeros; where the arithmetic has the precision of the weights, the working copy is the weights themselves."""
        matrix = torch.zeros(clients, arrangement.width, dtype=weights, device=device)
        trained = matrix[:, : arrangement.trained]
        copy = trained if working == weights else torch.zeros_like(trained, dtype=working, memory_format=torch.contiguous_format)
        slopes = torch.zeros(clients, arrangement.trained, dtype=working, device=device)
        order, (cursor, seeds) = torch.zeros(clients, longest, dtype=torch.int64, device=device), torch.zeros(2, clients, dtype=torch.int64, device=device)
        return State(matrix, copy, slopes, order, cursor, torch.zeros(clients, dtype=torch.float64, device=device), seeds, [torch.Generator()] * clients)

    def of(self, first: int, last: int) -> "State":
        """Clients `first` to `last`, without copying."""
        return State(*(getattr(self, field)[first:last] for field in self.__dataclass_fields__))

    def begin(self, rows: Tensor, owners: Tensor, arrangement: Arrangement, order: Tensor, keys: list[Key]) -> None:
        """For the first len(order) clients: the global model of each one's run, rows[owner], this round's records and the keys of its dropout."""
        begun = slice(len(order))
        arrangement.spread(rows, owners, self.weights[begun])
        if self.working.dtype != self.weights.dtype:
            self.working[begun].copy_(self.weights[begun, : self.working.shape[1]])
        self.order[begun, : order.shape[1]].copy_(order, non_blocking=True)
        self.seeds[begun].copy_(torch.tensor([key.integer() for key in keys]))
        self.sources[begun] = [key.generator() for key in keys]
        self.cursor.zero_()
        self.losses.zero_()


def lay(orders: list[np.ndarray], pinned: bool) -> Tensor:
    """Each client's packed records as a row, [K, longest]."""
    laid = torch.zeros(len(orders), max(map(len, orders)), dtype=torch.int64, pin_memory=pinned)
    for k, order in enumerate(orders):
        laid[k, : len(order)] = torch.from_numpy(order)
    return laid


def pack(schedule: Schedule, indices: np.ndarray) -> np.ndarray:
    """Each meeting with a record as one number: its index, and in the low byte how it is shifted and mirrored (the middle, unmirrored, if it is not)."""
    index = indices[schedule.order].reshape(-1) << 8
    if schedule.shift is None:
        return index + PAD * (4 * PAD + 4)
    down, right = schedule.shift.reshape(-1, 2).astype(np.int64).T
    return index + down * (4 * PAD + 2) + right * 2 + schedule.mirror.reshape(-1)


def unpack(packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Index, shift [..., 2] and mirror."""
    code = packed & 255
    return packed >> 8, torch.stack([code // (4 * PAD + 2), code // 2 % (2 * PAD + 1)], -1), code % 2
