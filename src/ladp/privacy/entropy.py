"""Noise for deployment: Gaussian numbers from the operating system's entropy, which no seed brings back.

Two attacks on numbers of finite precision are met. Whoever knows how a float was computed can list the floats that can come out, and
those that cannot (Mironov 2012): each number here is a scaled sum of several independent ones, so its arithmetic cannot be run backwards
(Holohan & Braghin 2021). And a noisy number much closer to zero than sigma still shows the spacing of the floats that were added, whatever the
sampler (Haney et al. 2022): the noisy number is therefore rounded to a public grid far below sigma, with the float64 spacing far below the grid.
"""

import os
from dataclasses import dataclass
from math import floor, log2, pi, sqrt

import numpy as np
import torch
from torch import Tensor

BLOCK = 1 << 15  # numbers drawn together, so that they stay in the processor's cache
WORD = 8  # bytes


@dataclass(frozen=True)
class Entropy:
    """Stands where a `Key` stands for noise. Nothing can be drawn twice, on purpose: every call asks the system anew, at any address.

    `summands` Gaussians make one; `grid` is the spacing of what comes out as a part of sigma, rounded down to a power of two, and 0 leaves it out.
    """

    summands: int = 4
    grid: float = 2.0**-12

    def at(self, *address: str | int) -> "Entropy":
        """The same: entropy has no addresses."""
        return self

    def add(self, row: Tensor, sigma: float) -> float:
        """row + N(0, sigma^2 I) in place: added in float64, put on the grid, and only then rounded to the row's own type; the norm of the noise."""
        noise = self.gaussian(len(row)).to(row.device).mul_(sigma)
        noisy, step = row.double() + noise, self.step(sigma)
        row.copy_((noisy / step).round_().mul_(step) if step else noisy)
        return torch.linalg.vector_norm(noise).item()

    def step(self, sigma: float) -> float:
        """The spacing of the grid: a power of two, so that a float64 lies on it exactly."""
        return 2.0 ** floor(log2(sigma * self.grid)) if self.grid else 0.0

    def gaussian(self, size: int) -> Tensor:
        """`size` independent standard Gaussians in float64: sum_k g_k / sqrt(n)."""
        drawn = np.empty(size)
        for start in range(0, size, BLOCK):
            part = drawn[start : start + BLOCK]
            pairs = (len(part) + 1) // 2
            words = np.frombuffer(os.urandom(2 * self.summands * pairs * WORD), np.uint64).reshape(2, self.summands, pairs)
            part[:] = box_muller(*words).sum(1).reshape(-1)[: len(part)] / sqrt(self.summands)
        return torch.from_numpy(drawn)


def box_muller(radius: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Two independent standard Gaussians from two words of 64 random bits: sqrt(-2 ln u) (cos 2 pi v, sin 2 pi v), u in [2^-65, 1] (Box & Muller 1958).

    No number is longer than 9.5; a true Gaussian is so with a probability below 2^-64.
    """
    u, turn = (radius.astype(np.float64) + 0.5) * 2.0**-64, angle.astype(np.float64) * (2 * pi * 2.0**-64)
    length = np.sqrt(-2 * np.log(u))
    return np.stack([length * np.cos(turn), length * np.sin(turn)])
