"""The gradients of n records for one tensor, written out or as a product that never is: their squared norms, and their weighted sums by owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from ladp.training.quick import multiply

WASTE = 4  # owners of unlike sizes are padded to the largest as long as this costs no more than so many times the work


class Part(Protocol):
    """For one tensor of `size` numbers: ||g_r||^2 of each record [n], and sum_r c_r g_r of each group [groups, size]."""

    def squares(self) -> Tensor: ...

    def sums(self, weights: Tensor, groups: "Groups") -> Tensor: ...

    def bytes(self) -> int: ...


@dataclass(frozen=True)
class Groups:
    """Records lie sorted by owner: the owners that are met, in order, and where the records of each begin and end."""

    owners: Tensor
    bounds: tuple[tuple[int, int], ...]

    @staticmethod
    def of(owners: Tensor, device: torch.device) -> "Groups":
        """From the sorted owners of the records, on the CPU."""
        met, sizes = torch.unique_consecutive(owners, return_counts=True)
        ends = sizes.cumsum(0).tolist()
        return Groups(met.to(device), tuple(zip([0, *ends], ends)))

    @cached_property
    def matrix(self) -> Tensor:
        """1 where a record belongs to a group: [groups, n]."""
        marks = torch.zeros(len(self.bounds), self.bounds[-1][1])
        for k, (first, last) in enumerate(self.bounds):
            marks[k, first:last] = 1
        return marks.to(self.owners.device)

    @cached_property
    def padded(self) -> Tensor | None:
        """The records of each group, -1 after its last: [groups, most]; None where loops are better."""
        most, n = max(b - a for a, b in self.bounds), self.bounds[-1][1]
        if not self.owners.is_cuda or most * len(self.bounds) > WASTE * n:
            return None
        lines = torch.arange(most).repeat(len(self.bounds), 1) + torch.tensor([a for a, _ in self.bounds]).unsqueeze(1)
        return torch.where(lines < torch.tensor([b for _, b in self.bounds]).unsqueeze(1), lines, -1).to(self.owners.device)


@dataclass(frozen=True)
class Dense:
    """Gradients written out: [n, ...]."""

    gradients: Tensor
    order: tuple[int, ...] | None = None  # how the axes of the gradient of one record are to be exchanged

    def squares(self) -> Tensor:
        return torch.linalg.vector_norm(self.gradients.flatten(1), dim=1).square()

    def bytes(self) -> int:
        """Memory of one record."""
        return self.gradients[0].numel() * self.gradients.element_size()

    def sums(self, weights: Tensor, groups: Groups) -> Tensor:
        matrix = weights.unsqueeze(0) if len(groups.bounds) == 1 else groups.matrix * weights
        return _exchange(matrix.to(self.gradients.dtype) @ self.gradients.flatten(1), self.gradients.shape[1:], self.order)


@dataclass(frozen=True)
class Product:
    """g_r = sum_t out_rt in_rt' for inputs [n, T, D] and slopes [n, T, O] of a linear map; `axes` is the shape of the gradient as O x D."""

    given: Tensor
    slope: Tensor
    axes: tuple[int, ...]
    order: tuple[int, ...] | None = None

    def squares(self) -> Tensor:
        """sum_tu (in_t . in_u)(out_t . out_u), the ghost norm (Goodfellow 2015; Bu et al. 2022)."""
        if self.given.shape[1] == 1:
            return _square(self.given) * _square(self.slope)
        return ((self.given @ self.given.mT) * (self.slope @ self.slope.mT)).sum((1, 2)).clamp_min(0)

    def bytes(self) -> int:
        """Memory of one record."""
        return (self.given[0].numel() + 2 * self.slope[0].numel()) * self.given.element_size()

    def sums(self, weights: Tensor, groups: Groups) -> Tensor:
        scaled = self.slope * weights.to(self.slope.dtype)[:, None, None]
        if len(groups.bounds) == 1 or groups.padded is None:
            each = [multiply(_flat(scaled[a:b]).t(), _flat(self.given[a:b]).t()) for a, b in groups.bounds]
            found = torch.stack(each) if len(each) > 1 else each[0].unsqueeze(0)
        else:
            index = groups.padded
            held = scaled[index] * (index >= 0)[:, :, None, None]
            found = _lines(held).mT @ _lines(self.given[index])
        return _exchange(found.flatten(1), self.axes, self.order)

    def written(self) -> Dense:
        """The same with every record's gradient written out."""
        return Dense((self.slope.mT @ self.given).view(-1, *self.axes), self.order)


def _square(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x.flatten(1), dim=1).square()


def _flat(x: Tensor) -> Tensor:
    return x.flatten(0, 1)


def _lines(x: Tensor) -> Tensor:
    return x.flatten(1, 2)


def _exchange(rows: Tensor, shape: Sequence[int], order: tuple[int, ...] | None) -> Tensor:
    """Rows of numbers of this shape with its axes in another order."""
    if order is None:
        return rows
    return rows.view(-1, *shape).permute(0, *(1 + axis for axis in order)).flatten(1)
