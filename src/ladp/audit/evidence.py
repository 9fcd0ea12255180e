"""What the adversary makes of what was released: for every canary the likelihood ratio of its coins."""

from collections.abc import Sequence
from math import log, log1p

import torch
from torch import Tensor

from ladp.audit.canaries import Canaries, Shape

LEAST = 1e-12  # of the noise found over the noise announced


class Evidence:
    """Of every release, for each canary v that may be in it: <v, r>/sigma^2 and ||v||^2/sigma^2 by layer, r being the release less all that the adversary knows.

    How much noise a layer really has is judged by the releases alone: a layer with less than was announced weighs more.
    """

    def __init__(self, canaries: Canaries, rate: float | None = None):
        self.canaries, self.rate = canaries, rate
        self.products: list[list[Tensor]] = [[] for _ in canaries.hosts]
        self.energies: list[list[Tensor]] = [[] for _ in canaries.hosts]
        self.found, self.announced = torch.zeros(()), torch.zeros(())

    def hear(self, mine: Sequence[int], vectors: Tensor, shape: Shape, rest: Tensor, sigma: Tensor) -> None:
        """One release, `rest` [size] of it unexplained, in which each of these canaries [n, size] may be, under announced noise `sigma` [J]."""
        precise = torch.where(sigma > 0, sigma, LEAST).square().reciprocal()
        products, energies = shape.cells(vectors * rest) * precise.unsqueeze(1), shape.cells(vectors.square()) * precise.unsqueeze(1)
        for i, product, energy in zip(mine, products, energies):
            self.products[i].append(product), self.energies[i].append(energy)
        sizes = torch.tensor([float(len(layer)) for layer in shape.layers], dtype=torch.float64)
        live = (sigma > 0).double()
        self.found, self.announced = self.found + live * shape.layerwise(rest) * precise, self.announced + live * sizes

    def scores(self) -> Tensor:
        """log P[release | coin 1] / P[release | coin 0] of every coin: [m, bits]."""
        spread = (self.found / self.announced).clamp_min(LEAST).nan_to_num(1.0)
        return torch.stack([self._score(i, spread.unsqueeze(1)) for i in range(len(self.products))])

    def _score(self, i: int, spread: Tensor) -> Tensor:
        """A message: 2 sum <v, r>/sigma^2. A record that a step takes with probability q: sum log(1 - q + q exp(<v, r>/sigma^2 - ||v||^2/(2 sigma^2)))."""
        if not self.products[i]:
            return torch.zeros(self.canaries.coins.shape[1], dtype=torch.float64)
        product, energy = ((torch.stack(part) / spread).sum(1) for part in (self.products[i], self.energies[i]))
        if self.rate is None:
            return 2 * product.sum(0)
        loss = product - energy / 2
        return loss.sum(0) if self.rate == 1 else torch.logaddexp(torch.tensor(log1p(-self.rate), dtype=torch.float64), log(self.rate) + loss).sum(0)

    def guesses(self) -> tuple[list[int], list[bool]]:
        """The canaries in order of certainty, and whether all coins of each are guessed right."""
        scores = self.scores()
        order = scores.abs().amin(1).argsort(descending=True, stable=True).tolist()
        right = ((scores > 0) == self.canaries.coins.bool()).all(1).tolist()
        return order, [right[i] for i in order]
