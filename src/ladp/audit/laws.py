"""What must hold of the noise itself, and no guessing shows: as much of it left as was charged for, in every layer, none of it twice, and no record is
longer than its clip."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import torch
from scipy.stats import chi2
from torch import Tensor

from ladp.params import Layer

ERROR = 1e-6  # how often an honest run breaks a law by chance
ROUNDING = 1e-4


@dataclass(frozen=True)
class Broken:
    """A law that does not hold, in a sentence."""

    law: str
    says: str


class Noise:
    """The noise of every release, release less what went in, over the sigma that was charged: by layer how much of it there was, and how alike that of any two
    releases is; and of canary records the `longest`, in clips."""

    def __init__(self, size: int) -> None:
        self.found: dict[str, float] = {}
        self.numbers: dict[str, int] = {}
        self.before, self.now = torch.zeros(0, size), []
        self.alike, self.pairs, self.longest = 0.0, 0, 0.0

    def note(self, noise: Tensor, sigma: Sequence[float], layers: Sequence[Layer]) -> None:
        """One release: noise [size], and what was charged in each layer; layers that were charged nothing count for nothing."""
        whole = torch.zeros(len(noise))
        for layer, s in zip(layers, sigma):
            if s > 0:
                part = noise[layer.start : layer.stop] / s
                whole[layer.start : layer.stop] = part
                self.found[layer.name] = self.found.get(layer.name, 0.0) + part.square().sum().item()
                self.numbers[layer.name] = self.numbers.get(layer.name, 0) + len(layer)
        self.now.append(whole / whole.norm().clamp_min(1e-30))

    def turn(self) -> None:
        """A round is over: each of its releases is compared with all others and with those of the round before."""
        now = torch.stack(self.now)
        alike = now @ torch.cat([self.before, now]).T
        alike[:, len(self.before) :].fill_diagonal_(0.0)
        live = (now != 0).sum(1).sqrt()  # a cosine times sqrt(d) is nearly N(0, 1) where noise is fresh
        self.alike = max(self.alike, (alike.abs() * live.unsqueeze(1)).max().item())
        self.pairs += alike.numel() - len(now)
        self.before, self.now = now, []

    def ratios(self) -> dict[str, float]:
        """By layer: how long the noise was over how long it was charged to be; near 1."""
        return {name: sqrt(found / self.numbers[name]) for name, found in self.found.items()}

    def broken(self) -> list[Broken]:
        """The laws that do not hold, each up to a chance of ERROR."""
        level = ERROR / 2 / max(1, len(self.found))
        chance = lambda name: min(tail(self.found[name], self.numbers[name]) for tail in (chi2.cdf, chi2.sf))  # noqa: E731
        odd = {name: ratio for name, ratio in self.ratios().items() if chance(name) < level}
        failed = [Broken("noise as charged", f"layer {name!r} left with {ratio:.3g} times the noise that was charged for") for name, ratio in odd.items()]
        if self.longest > 1 + ROUNDING:
            failed.append(Broken("clip", f"a record moves its sum by {self.longest:.3g} times what was charged for"))
        if self.alike > self.limit:
            much = f"{self.alike:.1f} standard deviations alike, where chance ends at {self.limit:.1f}"
            failed.append(Broken("fresh noise", f"two releases have noise in common: {much}"))
        return failed

    @property
    def limit(self) -> float:
        """Where chance ends, for so many pairs."""
        return sqrt(2 * log(max(1, self.pairs) / ERROR))
