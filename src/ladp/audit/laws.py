"""What must hold of the noise itself, and no guessing shows: as much of it left as was charged for, in every layer, and none of it twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import torch
from scipy.stats import chi2
from torch import Tensor

from ladp.params import Layer

ERROR = 1e-6  # how often an honest run breaks a law by chance


@dataclass(frozen=True)
class Broken:
    """A law that does not hold, in a sentence."""

    law: str
    says: str


class Noise:
    """The noise of every release, release less what went in, over the sigma that was charged: by layer how much of it there was, and how alike any two releases' are."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.numbers: dict[str, int] = {}
        self.before: list[Tensor] = []
        self.now: list[Tensor] = []
        self.alike, self.pairs = 0.0, 0

    def note(self, noise: Tensor, sigma: Sequence[float], layers: Sequence[Layer]) -> None:
        """One release: noise [size], and what was charged in each layer; layers that were charged nothing count for nothing."""
        parts = [(layer, noise[layer.start : layer.stop] / s) for layer, s in zip(layers, sigma) if s > 0]
        for layer, part in parts:
            self.found[layer.name] = self.found.get(layer.name, 0.0) + part.square().sum().item()
            self.numbers[layer.name] = self.numbers.get(layer.name, 0) + len(layer)
        self._compare(torch.cat([part for _, part in parts]).float() if parts else torch.zeros(1))

    def _compare(self, whole: Tensor) -> None:
        """With every other release of this round and of the one before: their cosine times sqrt(d), which is nearly N(0, 1) if they are independent."""
        others = [other for other in (*self.before, *self.now) if len(other) == len(whole)]
        if others and (length := whole.norm()) > 0:
            found = torch.stack(others) @ whole / length * sqrt(len(whole))
            self.alike, self.pairs = max(self.alike, found.abs().max().item()), self.pairs + len(others)
        self.now.append(whole / whole.norm().clamp_min(1e-30))

    def turn(self) -> None:
        """A round is over."""
        self.before, self.now = self.now, []

    def ratios(self) -> dict[str, float]:
        """By layer: how long the noise was over how long it was charged to be; near 1."""
        return {name: sqrt(found / self.numbers[name]) for name, found in self.found.items()}

    def broken(self) -> list[Broken]:
        """The laws that do not hold, each up to a chance of ERROR."""
        level = ERROR / 2 / max(1, len(self.found))
        odd = {name: ratio for name, ratio in self.ratios().items() if min(chi2.cdf(self.found[name], self.numbers[name]), chi2.sf(self.found[name], self.numbers[name])) < level}
        failed = [Broken("noise as charged", f"layer {name!r} left with {ratio:.3g} times the noise that was charged for") for name, ratio in odd.items()]
        if self.alike > self.limit:
            failed.append(Broken("fresh noise", f"two releases have noise in common: {self.alike:.1f} standard deviations alike, where chance ends at {self.limit:.1f}"))
        return failed

    @property
    def limit(self) -> float:
        """Where chance ends, for so many pairs."""
        return sqrt(2 * log(max(1, self.pairs) / ERROR))
