"""What the adversary makes of what was released: for every canary the likelihood ratio of its coins."""

from collections.abc import Sequence
from math import log, log1p

import torch
from torch import Tensor

from ladp.audit.canaries import Canaries, Shape

LEAST = 1e-12  # of the noise found over the noise announced


class Evidence:
    """log P[releases | coin 1] / P[releases | coin 0] of every coin, [m, bits], added up over releases.

    How much noise a layer really has is judged by the releases so far: a layer with less than was announced weighs more.
    """

    def __init__(self, canaries: Canaries, rate: float | None = None):
        self.canaries, self.rate = canaries, rate
        self.scores = torch.zeros(canaries.coins.shape, dtype=torch.float64)
        self.found, self.announced = torch.zeros(()), torch.zeros(())

    def hear(self, mine: Sequence[int], vectors: Tensor, shape: Shape, rest: Tensor, sigma: Tensor) -> None:
        """One release, `rest` [size] of it unexplained, in which each of these canaries v [n, size] may be, under announced noise `sigma` [J]."""
        precise = self._precision(shape, rest, sigma)
        weighted = vectors * shape.spread(precise)
        if self.rate is None:
            self.scores[mine] += 2 * shape.cells(weighted * rest).sum(1)
        else:
            self.scores[mine, 0] += self._records(weighted @ vectors.T, weighted @ rest)

    def _precision(self, shape: Shape, rest: Tensor, sigma: Tensor) -> Tensor:
        """1/sigma^2 of each layer as it is found to be: [J]."""
        announced = sigma.clamp_min(LEAST).square().reciprocal()
        live = (sigma > 0).double()
        self.found = self.found + live * shape.layerwise(rest) * announced
        self.announced = self.announced + live * torch.tensor([float(len(layer)) for layer in shape.layers], dtype=torch.float64)
        return announced / (self.found / self.announced).nan_to_num(1.0).clamp_min(LEAST)

    def _records(self, gram: Tensor, heard: Tensor) -> Tensor:
        """Records that a step takes with probability q: log(1 - q + q e^L), L the Gaussian log-likelihood ratio of being taken, for each of n canaries.

        gram = <v, v'>/sigma^2 and heard = <v, rest>/sigma^2. The others are reckoned with as Gaussian, with the mean q/2 and the variance of their presence, so
        that records like each other are told apart. With A' the inverse of A = 1/variance + gram, by the inverse of a block, L = e_i/A'_ii + (q/2) E_i - E_i/2
        where e = A'(heard - (q/2) gram 1), and E_i = 1/A'_ii - 1/variance is what the others leave of ||v_i||^2/sigma^2.
        """
        mean = self.rate / 2
        variance = mean * (1 - mean)
        inverse = torch.linalg.inv(gram + torch.eye(len(gram), dtype=torch.float64) / variance)
        own = inverse.diagonal()
        energy = 1 / own - 1 / variance
        ratio = inverse @ (heard - mean * gram.sum(1)) / own + (mean - 0.5) * energy
        return ratio if self.rate == 1 else torch.logaddexp(torch.tensor(log1p(-self.rate), dtype=torch.float64), log(self.rate) + ratio)

    def guesses(self) -> list[bool]:
        """Whether all coins of a canary are guessed right, the surest canary first."""
        order = self.scores.abs().amin(1).argsort(descending=True, stable=True)
        return ((self.scores > 0) == self.canaries.coins.bool()).all(1)[order].tolist()
