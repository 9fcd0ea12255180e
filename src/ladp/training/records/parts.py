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

    def numbers(self) -> int: ...


@dataclass(frozen=True)
class Groups:
    """Records lie sorted by owner: the owners that are met, in order, and where the records of each begin and end."""

    owners: Tensor
    bounds: tuple[tuple[int, int], ...]
    together: bool  # all groups in one product, as a device likes it, or one after the other

    @staticmethod
    def of(owners: Tensor, device: torch.device) -> "Groups":
        """From the sorted owners of the records, on the CPU."""
        met, sizes = torch.unique_consecutive(owners, return_counts=True)
        ends = sizes.cumsum(0).tolist()
        return Groups(met.to(device), tuple(zip([0, *ends], ends)), torch.device(device).type != "cpu")

    @staticmethod
    def even(count: int, each: int, device: torch.device) -> "Groups":
        """`each` records of every owner."""
        return Groups(torch.arange(count, device=device), tuple((k * each, (k + 1) * each) for k in range(count)), torch.device(device).type != "cpu")

    @cached_property
    def alike(self) -> bool:
        return len({b - a for a, b in self.bounds}) == 1

    @cached_property
    def matrix(self) -> Tensor:
        """1 where a record belongs to a group: [groups, n]."""
        marks = torch.zeros(len(self.bounds), self.bounds[-1][1])
        for k, (first, last) in enumerate(self.bounds):
            marks[k, first:last] = 1
        return marks.to(self.owners.device)

    @cached_property
    def padded(self) -> tuple[Tensor, Tensor] | None:
        """The records of each group, repeating the last, and where they are its own: [groups, most]; None where loops are better."""
        most, n = max(b - a for a, b in self.bounds), self.bounds[-1][1]
        if not self.together or most * len(self.bounds) > WASTE * n:
            return None
        firsts, lasts = torch.tensor(self.bounds).unbind(1)
        lines = firsts.unsqueeze(1) + torch.arange(most)
        own = lines < lasts.unsqueeze(1)
        return torch.minimum(lines, lasts.unsqueeze(1) - 1).to(self.owners.device), own.to(self.owners.device)


@dataclass(frozen=True)
class Dense:
    """Gradients written out: [n, ...]."""

    gradients: Tensor
    order: tuple[int, ...] | None = None  # how the axes of the gradient of one record are to be exchanged

    def squares(self) -> Tensor:
        return _square(self.gradients)

    def numbers(self) -> int:
        """How many are kept of one record."""
        return self.gradients[0].numel()

    def sums(self, weights: Tensor, groups: Groups) -> Tensor:
        flat, count = self.gradients.flatten(1), len(groups.bounds)
        if groups.alike:
            found = (weights.view(count, 1, -1) @ flat.view(count, -1, flat.shape[1])).squeeze(1)
        else:
            found = (groups.matrix.to(weights.dtype) * weights) @ flat
        return _exchange(found, self.gradients.shape[1:], self.order)


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
        return (times(self.given, self.given.mT) * times(self.slope, self.slope.mT)).sum((1, 2)).clamp_min(0)

    def numbers(self) -> int:
        """How many are kept of one record."""
        return self.given[0].numel() + 2 * self.slope[0].numel()

    def sums(self, weights: Tensor, groups: Groups) -> Tensor:
        slope = self.slope * _down(weights, self.slope.dtype)[:, None, None]
        return _exchange(_joined(slope, self.given, groups).flatten(1), self.axes, self.order)

    def written(self) -> Dense:
        """The same with every record's gradient written out."""
        return Dense(times(self.slope.mT, self.given).view(-1, *self.axes), self.order)


def _joined(slope: Tensor, given: Tensor, groups: Groups) -> Tensor:
    """sum_rt out_rt in_rt' over the records of each group: [groups, O, D]."""
    if groups.together and groups.alike:
        lines = lambda x: x.reshape(len(groups.bounds), -1, x.shape[2])  # noqa: E731
        return times(lines(slope).mT, lines(given))
    if groups.padded:
        index, own = groups.padded
        return times((slope[index] * own[:, :, None, None]).flatten(1, 2).mT, given[index].flatten(1, 2))
    each = [multiply(slope[a:b].flatten(0, 1).t(), given[a:b].flatten(0, 1).t()) for a, b in groups.bounds]
    return torch.stack(each).to(wide(slope.dtype))


def wide(dtype: torch.dtype) -> torch.dtype:
    """In which sums are kept: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def times(x: Tensor, y: Tensor) -> Tensor:
    """Products of matrices, with sums that are never kept in less than float32."""
    if x.dtype == wide(x.dtype):
        return x @ y
    return torch.bmm(x, y, out_dtype=torch.float32) if x.is_cuda else x.float() @ y.float()


def _square(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x.flatten(1), dim=1, dtype=wide(x.dtype)).square()


def _down(weights: Tensor, dtype: torch.dtype) -> Tensor:
    """In a short type a little less, so that rounding the product makes no gradient longer than it may be."""
    return weights.to(dtype) if dtype == wide(dtype) else (weights * (1 - torch.finfo(dtype).eps)).to(dtype)


def _exchange(rows: Tensor, shape: Sequence[int], order: tuple[int, ...] | None) -> Tensor:
    """Rows of numbers of this shape with its axes in another order."""
    if order is None:
        return rows
    return rows.view(-1, *shape).permute(0, *(1 + axis for axis in order)).flatten(1)
