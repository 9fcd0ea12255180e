"""The scattering transform: wavelets, moduli and an average, all fixed, so that what it makes of a record depends on that record alone.

S0 = x * phi, S1 = |x * psi_1| * phi, S2 = ||x * psi_1| * psi_2| * phi for scales j1 < j2 < J and all pairs of L angles, at every 2^J-th pixel
(Bruna and Mallat 2013). Morlet wavelets, frame and order of the coefficients are those of Kymatio (Andreux et al. 2020), which tests compare with.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import cos, pi, sin

import torch
from torch import Tensor
from torch.nn import functional as F

from ladp.errors import Problem

WIDTH, PITCH = 0.8, 3 * pi / 4  # of the finest wavelet: deviation of its Gaussian in pixels, and wave number
REACH = 2  # how many frames away a filter may still be felt: it goes round the frame


@dataclass(frozen=True)
class Scattering:
    """Order 2 on size x size images: J scales, L angles, 1 + JL + L^2 J(J-1)/2 coefficients of each channel at each of side x side places."""

    size: int
    scales: int = 2
    angles: int = 8
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.scales < 1 or self.angles < 1:
            raise Problem(f"scales and angles must be at least 1, got {self.scales} and {self.angles}")
        if (self.frame - self.size + 1) // 2 >= self.size:  # a border is what the image shows in a mirror at its edge
            raise Problem(f"images of {self.size}x{self.size} are too small for {self.scales} scales: take fewer")

    @property
    def frame(self) -> int:
        """Side of the image with its reflected border, a multiple of 2^J."""
        return ((self.size >> self.scales) + 2) << self.scales

    @property
    def side(self) -> int:
        """Places in a row of the output: those whose average is centred on the image."""
        return self.size >> self.scales

    @property
    def paths(self) -> int:
        """Coefficients of one channel at one place."""
        return 1 + self.scales * self.angles + self.angles**2 * self.scales * (self.scales - 1) // 2

    def __call__(self, images: Tensor) -> Tensor:
        """[N, C, size, size] to [N, C paths, side, side] in float32: for each channel order 0, order 1 by scale and angle, order 2 by the first wavelet."""
        border = self.frame - self.size
        x = F.pad(images.to(self.device, torch.float32), (border // 2, border - border // 2) * 2, mode="reflect")
        spectrum, zeroth = torch.fft.fft2(x), self._average(x, 0).unsqueeze(2)
        first, second = zip(*(self._follow(spectrum, j) for j in range(self.scales)))
        return torch.cat([zeroth, *first, *(part for parts in second for part in parts)], 2).flatten(1, 2)

    def _follow(self, spectrum: Tensor, j: int) -> tuple[Tensor, list[Tensor]]:
        """Order 1 of scale j, [N, C, L, side, side], and order 2 of what comes after it, [N, C, L L (J-1-j), side, side]."""
        ripple = self._ripple(spectrum, 0, j)
        if j + 1 == self.scales:
            return self._average(ripple, j), []
        again = torch.fft.fft2(ripple)
        second = [self._average(self._ripple(again, j, k), k) for k in range(j + 1, self.scales)]
        return self._average(ripple, j), [torch.cat(second, 3).flatten(2, 3)]

    def _ripple(self, spectrum: Tensor, coarse: int, j: int) -> Tensor:
        """|x * psi_j| for all angles in a new dimension, at every 2^j-th pixel, of x given at every 2^coarse-th."""
        row = returns(self, j, coarse)
        return (row @ (spectrum.unsqueeze(-3) * wavelets(self, j, coarse)) @ row.T).abs()

    def _average(self, x: Tensor, coarse: int) -> Tensor:
        """x * phi where the output has its places; phi is a Gaussian along rows times one along columns."""
        row = averages(self, coarse)
        return row @ x @ row.T


def _crop(spectrum: Tensor, octaves: int, dimensions: tuple[int, ...]) -> Tensor:
    """A filter for signals that are known at every 2^octaves-th pixel: its low frequencies alone."""
    for dimension in dimensions:
        half = spectrum.shape[dimension] >> octaves + 1
        low, high = spectrum.narrow(dimension, 0, half), spectrum.narrow(dimension, spectrum.shape[dimension] - half, half)
        spectrum = torch.cat([low, high], dimension)
    return spectrum


def _round(frame: int) -> Tensor:
    """The pixels of a row, and where else they are on a row that goes round: [2 REACH + 1, frame]."""
    return torch.arange(-REACH * frame, (REACH + 1) * frame, dtype=torch.float64).view(-1, frame)


@cache
def wavelets(transform: Scattering, j: int, coarse: int) -> Tensor:
    """The spectra of the L Morlet wavelets of scale j, real: [L, P, P]."""
    turns = [pi * (transform.angles - transform.angles // 2 - 1 - k) / transform.angles for k in range(transform.angles)]
    return torch.stack([_crop(_morlet(transform, j, turn), coarse, (0, 1)) for turn in turns]).to(transform.device, torch.float32)


def _morlet(transform: Scattering, j: int, turn: float) -> Tensor:
    """g(u) (exp(i xi u) - beta), g a Gaussian of deviation .8 2^j along the wave and L/4 times that across, xi = 3 pi / (4 2^j), beta such that the mean is 0."""
    spots = _round(transform.frame).flatten()
    down, right = spots.unsqueeze(1), spots.unsqueeze(0)
    along, across = down * cos(turn) + right * sin(turn), right * cos(turn) - down * sin(turn)
    width, slant = WIDTH * 2**j, 4 / transform.angles
    envelope = torch.exp(-(along.square() + (slant * across).square()) / (2 * width**2)) * slant / (2 * pi * width**2)
    wave = envelope * torch.exp(1j * along * (PITCH / 2**j))
    wavelet = wave - envelope * (wave.sum() / envelope.sum())
    copies = (2 * REACH + 1, transform.frame)
    return torch.fft.fft2(wavelet.unflatten(1, copies).unflatten(0, copies).sum((0, 2))).real


@cache
def returns(transform: Scattering, j: int, coarse: int) -> Tensor:
    """Back from the spectrum of a row given at every 2^coarse-th pixel to its every 2^j-th, as a matrix: for so few pixels faster than going all the way and leaving most out."""
    waves = torch.arange(transform.frame >> coarse, dtype=torch.float64)
    places = torch.arange(transform.frame >> j, dtype=torch.float64).unsqueeze(1) * (1 << j - coarse)
    return (torch.exp(2j * pi * places * waves / len(waves)) / len(waves)).to(transform.device, torch.complex64)


@cache
def averages(transform: Scattering, coarse: int) -> Tensor:
    """x * phi along a row as a matrix [side, P] for x at every 2^coarse-th pixel: a Gaussian of deviation .8 2^(J-1) about each place of the output."""
    width = WIDTH * 2 ** (transform.scales - 1)
    gauss = torch.exp(-_round(transform.frame).square() / (2 * width**2)).sum(0) / (2 * pi * width**2) ** 0.5
    kernel = torch.fft.ifft(_crop(torch.fft.fft(gauss).real, coarse, (0,))).real
    places = torch.arange(1, transform.side + 1).unsqueeze(1) << transform.scales - coarse
    return kernel[(places - torch.arange(len(kernel))) % len(kernel)].to(transform.device, torch.float32)
