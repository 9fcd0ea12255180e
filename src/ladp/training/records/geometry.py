"""In what norm a record's gradient is shortened: which tensor lies in which layer, and what each owner's layer is divided by."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.params import Entry, Layer, Layout


@dataclass(frozen=True)
class Geometry:
    """||g||_s^2 = sum_j ||g_j||^2 / s_kj^2 over the layers with s_kj > 0; the others, and what lies in no layer, are frozen.

    Dividing layer j by s_kj makes this the ordinary norm, and noise N(0, z^2 s_kj^2 I) on layer j the Gaussian mechanism with multiplier z, whatever the scales.
    """

    entries: tuple[Entry, ...]  # the trainable tensors that are not frozen for everybody
    inverse: Tensor  # [count, entries] 1 / s^2, float64; 0 where frozen
    live: Tensor  # [count, entries] 1 or 0, float64

    @staticmethod
    def of(layout: Layout, layers: Sequence[Layer], scales: Tensor, count: int, device: torch.device) -> "Geometry":
        """From the scales [count, J] of the owners; they are asked for on the CPU, where they cost no wait."""
        entries, places = _places(layout, tuple(layers))
        _refuse(scales, count, len(layers))
        chosen = torch.cat([scales.to(torch.float64), torch.zeros(count, 1, dtype=torch.float64, device=scales.device)], 1)[:, list(places)]
        kept = (chosen > 0).any(0).nonzero().flatten().tolist() if count else []
        chosen = chosen[:, kept]
        inverse = torch.where(chosen > 0, chosen.square().reciprocal(), 0.0)
        return Geometry(tuple(entries[e] for e in kept), inverse.to(device), (chosen > 0).double().to(device))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.entries)

    def coefficients(self, squares: Tensor, owners: Tensor) -> tuple[Tensor, Tensor]:
        """1 / max(1, ||g_r||_s) for each record and tensor, 0 where its owner's is frozen: [n, entries]; and which records were shortened: [n]."""
        length = (squares.double() * self.inverse[owners]).sum(1).sqrt()
        return self.live[owners] / length.clamp_min(1.0).unsqueeze(1), length > 1


@lru_cache(maxsize=64)
def _places(layout: Layout, layers: tuple[Layer, ...]) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """The trainable tensors, and for each the number of its layer; the one after the last layer stands for none."""
    entries = tuple(e for e in layout.entries if e.trainable)
    return entries, tuple(_place(e, layers) for e in entries)


def _place(entry: Entry, layers: tuple[Layer, ...]) -> int:
    met = [j for j, layer in enumerate(layers) if layer.start < entry.stop and entry.start < layer.stop]
    if any(layers[j].start > entry.start or layers[j].stop < entry.stop for j in met) or len(met) > 1:
        raise Problem(f"layer {layers[met[0]].name!r} holds a part of {entry.name!r}: a layer holds whole tensors, and a tensor lies in one layer")
    return met[0] if met else len(layers)


def _refuse(scales: Tensor, count: int, layers: int) -> None:
    if tuple(scales.shape) != (count, layers):
        raise Problem(f"scales must be one row for each of {count} owners and one column for each of {layers} layers, got {list(scales.shape)}")
    if wrong := scales[~((scales >= 0) & scales.isfinite())].tolist():
        raise Problem(f"a layer's scale must be finite and at least 0 (frozen), got {wrong[0]:g}")
