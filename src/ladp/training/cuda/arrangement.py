"""Where a model's state lies in the stacked matrix: weights first, each at an aligned column, convolutions with their channels last."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from ladp.params import Layout

ALIGN = 64


@dataclass(frozen=True)
class Place:
    """The columns and the stacked shape of one entry; `turned` if its second dimension has become the last."""

    name: str
    start: int
    shape: tuple[int, ...]
    turned: bool

    @property
    def stop(self) -> int:
        return self.start + prod(self.shape)


class Arrangement:
    """Columns of the stacked matrix [K, width]; the first `trained` of them are what gradients exist for."""

    def __init__(self, layout: Layout, turned: Iterable[str] = ()):
        self.layout, turned, at = layout, set(turned), 0
        self.places: dict[str, Place] = {}
        for e in sorted(layout.entries, key=lambda e: not e.trainable):
            shape = (e.shape[0], *e.shape[2:], e.shape[1]) if e.name in turned else e.shape
            self.places[e.name] = Place(e.name, at, shape, e.name in turned)
            at += -(-len(e) // ALIGN) * ALIGN
            if e.trainable:
                self.trained = at
        self.width = at

    def views(self, matrix: Tensor) -> dict[str, Tensor]:
        """Each entry that lies within the columns of `matrix`, [K, ...], by name, without copying."""
        held = [p for p in self.places.values() if p.stop <= matrix.shape[1]]
        return {p.name: matrix[:, p.start : p.stop].unflatten(1, p.shape or (1,)) for p in held}

    @cached_property
    def columns(self) -> Tensor:
        """The column here of each column of the layout."""
        found = []
        for e in self.layout.entries:
            place = self.places[e.name]
            index = torch.arange(place.start, place.stop).view(place.shape)
            found.append((index.movedim(-1, 1) if place.turned else index).reshape(-1))
        return torch.cat(found)

    def spread(self, rows: Tensor, owners: Tensor, matrix: Tensor) -> None:
        """Every client starts from the global model of its run, rows[owner]."""
        placed = torch.zeros(len(rows), matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
        placed[:, self._columns(matrix.device)] = rows.to(matrix.dtype)
        torch.index_select(placed, 0, owners, out=matrix)

    def collect(self, matrix: Tensor) -> Tensor:
        """The clients' states as rows of the layout."""
        return matrix.index_select(1, self._columns(matrix.device))

    def _columns(self, device: torch.device) -> Tensor:
        if self.columns.device != device:
            self.columns = self.columns.to(device)
        return self.columns
