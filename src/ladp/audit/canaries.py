"""Canaries: who carries one, what only a coin decides, and in which direction of the weights it lies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ladp.keys import Key
from ladp.params import Layer, Layout


@dataclass(frozen=True, eq=False)
class Canaries:
    """Canary i lies with client hosts[i] and carries the fair coins `coins[i]` [bits]; nothing else depends on them."""

    hosts: tuple[int, ...]
    coins: Tensor
    key: Key

    @staticmethod
    def draw(key: Key, hosts: Sequence[int], bits: int = 1) -> "Canaries":
        """Every coin is fair and thrown by itself."""
        return Canaries(tuple(hosts), torch.randint(0, 2, (len(hosts), bits), generator=key.at("coin").generator()), key)

    @cached_property
    def held(self) -> dict[int, list[int]]:
        """The canaries of every client that has any."""
        found: dict[int, list[int]] = {}
        for i, host in enumerate(self.hosts):
            found.setdefault(host, []).append(i)
        return found

    def of(self, client: int) -> list[int]:
        """The canaries of a client."""
        return self.held.get(client, [])

    def signs(self, mine: Sequence[int], size: int) -> Tensor:
        """A direction of +1 and -1 for each, known to the adversary and independent of the coins: [n, size]."""
        drawn = [torch.randint(0, 2, (size,), generator=self.key.at("direction", i).generator(), dtype=torch.int8) for i in mine]
        return torch.stack(drawn).mul_(2).sub_(1).double()


@dataclass(frozen=True, eq=False)
class Shape:
    """How long a canary is in every column, and in which cell, a layer and a bit, the column lies.

    Its length is 1 in the norm ||v||_s of the scales s_j: the share of layer j in ||v||_s^2 goes with sqrt(d_j), so that small layers carry something and large
    ones keep canaries apart. Bit b of a message is the sign of every bits-th column.
    """

    layers: tuple[Layer, ...]
    scale: Tensor  # [J]
    length: Tensor  # [size], 0 where nothing lies
    cell: Tensor  # [size]
    bits: int

    @staticmethod
    def of(layout: Layout, layers: Sequence[Layer], scale: Tensor, bits: int = 1) -> "Shape":
        """From the scales [J] of the layers; one that is 0 is frozen."""
        roots = torch.tensor([len(layer) ** 0.5 if s > 0 else 0.0 for layer, s in zip(layers, scale.tolist())], dtype=torch.float64)
        length, cell = torch.zeros(layout.size, dtype=torch.float64), torch.zeros(layout.size, dtype=torch.int64)
        for j, layer in enumerate(layers):
            part = slice(layer.start, layer.stop)
            length[part] = scale[j] * (roots[j] / roots.sum() / len(layer)).sqrt()
            cell[part] = j * bits + torch.arange(len(layer)) % bits
        return Shape(tuple(layers), scale, length, cell, bits)

    def vectors(self, signs: Tensor) -> Tensor:
        """Canaries with every bit set: [n, size]."""
        return signs * self.length

    def message(self, coins: Tensor) -> Tensor:
        """+1 or -1 in every column, as the coins [bits] say."""
        return (2.0 * coins - 1)[self.cell % self.bits].double()

    def cells(self, values: Tensor) -> Tensor:
        """Sums over the columns of each cell: [n, J, bits] of values [n, size]."""
        found = torch.zeros(len(values), len(self.layers) * self.bits, dtype=torch.float64)
        return found.index_add_(1, self.cell, values).view(len(values), len(self.layers), self.bits)

    def spread(self, values: Tensor) -> Tensor:
        """What each layer has [J], in each of its columns: [size]."""
        return values[self.cell // self.bits]

    def norms(self, values: Tensor) -> Tensor:
        """||v||_s of each row [n, size]."""
        weights = torch.where(self.scale > 0, self.scale, torch.inf).square().reciprocal()
        return (self.cells(values.square()).sum(2) @ weights).sqrt()

    def layerwise(self, row: Tensor) -> Tensor:
        """Squared lengths of a row by layer: [J]."""
        return torch.stack([row[layer.start : layer.stop].square().sum() for layer in self.layers])


def pick(charged: Mapping[str, float], layers: Sequence[Layer]) -> Tensor:
    """What the layers of the canaries are given, by their names: [J]."""
    return torch.tensor([charged[layer.name] for layer in layers], dtype=torch.float64)
