"""Record-level training: the gradient of each record, shortened in a layer geometry, summed by owner."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ladp.errors import Problem
from ladp.params import Layer, Layout
from ladp.training.local import take
from ladp.training.records.geometry import Geometry
from ladp.training.records.manner import choose
from ladp.training.records.parts import Groups, Part


def clipped_sums(model: nn.Module, images: Tensor, labels: Tensor, owners: Tensor, count: int, layout: Layout, layers: Sequence[Layer], scales: Tensor, copies: int = 1) -> tuple[Tensor, Tensor]:
    """sum over the records r of owner k of g_r / max(1, ||g_r||_s), with ||g||_s^2 = sum_j ||g_j||^2 / s_kj^2: [count, size].

    g_r is the gradient of the mean loss of the record's `copies` images, which lie next to each other in `images` [n copies, ...] (De et al. 2022), at the
    weights that `model` holds. Adding or removing a record moves its owner's row by at most 1 in the norm of that owner's scales, and no other row. Layers with
    s_kj = 0 are frozen, and all that is not trainable: zero. `owners` [n] and `scales` [count, layers] are best on the CPU. Also, for the one who trains and nobody
    else since no noise covers them, by owner: the sum of the losses and the number of records that were shortened, [count, 2] in float64.
    """
    _refuse(images, labels, owners, count, copies)
    geometry = Geometry.of(layout, layers, scales, count, images.device)
    sums = Sums.zero(count, layout, images)
    if len(labels) and geometry.entries:
        model.train()
        manner = choose(model, images, labels, geometry.names)
        for x, y, k in batches(images, labels, owners.cpu(), manner.chunk(images.device, copies), copies):
            sums.add(geometry, k, *manner.read(model, x, y, geometry.names, copies))
    return sums.rows, sums.facts


class Sums:
    """What has been added up so far, by owner: the shortened gradients, the losses, how many were shortened."""

    def __init__(self, rows: Tensor, facts: Tensor):
        self.rows, self.facts = rows, facts

    @staticmethod
    def zero(count: int, layout: Layout, like: Tensor) -> "Sums":
        return Sums(torch.zeros(count, layout.size, dtype=like.dtype, device=like.device), torch.zeros(count, 2, dtype=torch.float64, device=like.device))

    def add(self, geometry: Geometry, owners: Tensor, losses: Tensor, parts: dict[str, Part]) -> None:
        """One batch, sorted by owner."""
        groups, place = Groups.of(owners, self.rows.device), owners.to(self.rows.device)
        squares = torch.stack([parts[name].squares() for name in geometry.names], 1)
        weights, shortened = geometry.coefficients(squares, place)
        weights = weights.to(self.rows.dtype)
        for e, entry in enumerate(geometry.entries):
            _add(self.rows[:, entry.start : entry.stop], groups.owners, parts[entry.name].sums(weights[:, e], groups))
        self.facts.index_add_(0, place, torch.stack([losses.double(), shortened.double()], 1))


def _add(rows: Tensor, places: Tensor, sums: Tensor) -> None:
    if len(rows) == 1:
        rows += sums
    else:
        rows.index_add_(0, places, sums)


def batches(images: Tensor, labels: Tensor, owners: Tensor, size: int, copies: int):
    """Images, labels and owners of so many records at a time, sorted by owner."""
    if not bool((owners[1:] >= owners[:-1]).all()):
        order = owners.argsort(stable=True)
        lines = (order.unsqueeze(1) * copies + torch.arange(copies)).flatten().to(images.device)
        images, labels, owners = take(images, lines), labels[order.to(labels.device)], owners[order]
    return zip(images.split(size * copies), labels.split(size), owners.split(size))


def _refuse(images: Tensor, labels: Tensor, owners: Tensor, count: int, copies: int) -> None:
    if copies < 1:
        raise Problem(f"copies must be at least 1, got {copies}")
    if not len(images) == copies * len(labels) == copies * len(owners):
        raise Problem(f"{len(images)} images do not belong to {len(labels)} labels and {len(owners)} owners: there must be {copies} for each record")
    if len(owners) and not 0 <= int(owners.min()) <= int(owners.max()) < count:
        raise Problem(f"owners must lie in 0..{count - 1}, got {int(owners.min())}..{int(owners.max())}")
