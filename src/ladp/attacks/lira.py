"""The likelihood ratio attack (Carlini et al., Membership Inference Attacks From First Principles, S&P 2022) on confidences that are given."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

VARIANCES, SMALLEST = ("fixed", "record"), 1e-12


@dataclass(frozen=True, eq=False)
class Fit:
    """For each record two Gaussians, of its confidence in shadows that held it and in those that did not: means and deviations [n]."""

    inside: tuple[NDArray, NDArray]
    outside: tuple[NDArray, NDArray]

    @staticmethod
    def of(phi: NDArray, held: NDArray, variance: str = "fixed") -> "Fit":
        """From confidences [shadows, n] and who was held, the same shape."""
        return Fit(_gauss(phi, held, variance), _gauss(phi, ~held, variance))

    def online(self, phi: NDArray) -> NDArray:
        """log N(phi; in) - log N(phi; out): the most powerful test, if they are Gaussians."""
        return norm.logpdf(phi, *self.inside) - norm.logpdf(phi, *self.outside)

    def offline(self, phi: NDArray) -> NDArray:
        """By how many deviations phi lies above what it is without the record, which orders records as 1 - Pr[N(out) > phi] does."""
        return (phi - self.outside[0]) / self.outside[1]


def _gauss(phi: NDArray, chosen: NDArray, variance: str) -> tuple[NDArray, NDArray]:
    """Mean and deviation of each record over the chosen shadows; `fixed` takes one deviation for all records, around their own means."""
    count = chosen.sum(0)
    mean = np.where(chosen, phi, 0).sum(0) / count
    squares = np.where(chosen, (phi - mean) ** 2, 0).sum(0)
    spread = squares / (count - 1) if variance == "record" else np.full_like(mean, squares.sum() / (count - 1).sum())
    return mean, np.sqrt(np.maximum(spread, SMALLEST))


def in_turn(phi: NDArray, held: NDArray, variance: str = "fixed") -> Iterator[tuple[NDArray, NDArray]]:
    """Online and offline scores of every shadow, attacked with the others. Shadows come as pairs that hold opposite halves, and both of a pair are left out:
    of those that stay exactly half held each record, so that their number tells nothing."""
    for number in range(len(phi)):
        others = [other for other in range(len(phi)) if other // 2 != number // 2]
        fit = Fit.of(phi[others], held[others], variance)
        yield fit.online(phi[number]), fit.offline(phi[number])
