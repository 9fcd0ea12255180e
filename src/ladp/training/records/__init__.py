"""Record-level training: the gradient of each record, shortened in a layer geometry, summed by owner."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ladp.errors import Problem
from ladp.params import Entry, Layer, Layout
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
        manner = choose(model, images)
        for x, y, k in batches(images, labels, owners.cpu(), manner.chunk(images.device, copies), copies):
            sums.add(geometry, Groups.of(k, x.device), k.to(x.device), *manner.read(model, x, y, geometry.names, copies))
    return sums.rows, sums.facts


def stacked_sums(model: nn.Module, rows: Tensor, images: Tensor, labels: Tensor, mask: Tensor, layout: Layout, layers: Sequence[Layer], scales: Tensor, copies: int = 1) -> tuple[Tensor, Tensor]:
    """The same for clients with weights of their own, `rows` [K, size]: images [K, b copies, ...], labels [K, b]; a record that `mask` [K, b] leaves out counts for
    nothing, so that batches of unlike sizes can be filled up. What is no part of a row, such as counters, is that of `model`.
    """
    geometry = Geometry.of(layout, layers, scales, len(rows), images.device)
    return stacked_step(model, rows, images, labels, mask, layout, geometry, copies)


def stacked_step(model: nn.Module, rows: Tensor, images: Tensor, labels: Tensor, mask: Tensor, layout: Layout, geometry: Geometry, copies: int = 1) -> tuple[Tensor, Tensor]:
    """The same for scales that stay what they are for some steps; once called, it neither waits for the device nor copies to it."""
    sums, state = Sums.zero(len(rows), layout, rows), layout.views(rows)
    if labels.numel() and geometry.entries:
        model.train()
        manner = choose(model, images[0])
        size = max(1, manner.chunk(images.device, copies) // len(rows))
        for x, y, kept in zip(images.split(size * copies, 1), labels.split(size, 1), mask.split(size, 1)):
            groups = Groups.even(*y.shape, images.device)
            sums.add(geometry, groups, groups.owners.repeat_interleave(y.shape[1], output_size=y.numel()), *manner.stacked(model, state, x, y, geometry.names, copies), kept.flatten())
    return sums.rows, sums.facts


@dataclass(frozen=True)
class Sums:
    """What has been added up so far, by owner: the shortened gradients [count, size]; the losses, and how many were shortened [count, 2]."""

    rows: Tensor
    facts: Tensor

    @staticmethod
    def zero(count: int, layout: Layout, like: Tensor) -> "Sums":
        return Sums(torch.zeros(count, layout.size, dtype=like.dtype, device=like.device), torch.zeros(count, 2, dtype=torch.float64, device=like.device))

    def add(self, geometry: Geometry, groups: Groups, owners: Tensor, losses: Tensor, parts: dict[str, Part], mask: Tensor | None = None) -> None:
        """One batch, sorted by owner."""
        with torch.autocast(self.rows.device.type, enabled=False):
            squares = torch.stack([parts[name].squares() for name in geometry.names], 1)
            weights, shortened = geometry.coefficients(squares, owners)
            weights, facts = weights.to(self.rows.dtype), torch.stack([losses.double(), shortened.double()], 1)
            if mask is not None:
                weights, facts = weights * mask.unsqueeze(1), facts * mask.unsqueeze(1)
            for e, entry in enumerate(geometry.entries):
                self._rows(entry).index_add_(0, groups.owners, parts[entry.name].sums(weights[:, e], groups))
            self.facts.index_add_(0, owners, facts)

    def _rows(self, entry: Entry) -> Tensor:
        return self.rows[:, entry.start : entry.stop]


def batches(images: Tensor, labels: Tensor, owners: Tensor, size: int, copies: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Images, labels and owners of so many records at a time, sorted by owner."""
    if not bool((owners[1:] >= owners[:-1]).all()):
        order = owners.argsort(stable=True)
        lines = (order.unsqueeze(1) * copies + torch.arange(copies)).flatten().to(images.device)
        images = take(images, lines) if images.dim() == 4 else images.index_select(0, lines)
        labels, owners = labels[order.to(labels.device)], owners[order]
    return zip(images.split(size * copies), labels.split(size), owners.split(size))


def _refuse(images: Tensor, labels: Tensor, owners: Tensor, count: int, copies: int) -> None:
    if copies < 1:
        raise Problem(f"copies must be at least 1, got {copies}")
    if not len(images) == copies * len(labels) == copies * len(owners):
        raise Problem(f"{len(images)} images do not belong to {len(labels)} labels and {len(owners)} owners: there must be {copies} for each record")
    if len(owners) and not 0 <= int(owners.min()) <= int(owners.max()) < count:
        raise Problem(f"owners must lie in 0..{count - 1}, got {int(owners.min())}..{int(owners.max())}")
