"""How much better, in per cent of the other: the rates of the paper's tables."""

from collections.abc import Callable, Iterable
from statistics import fmean

from ladp.errors import Problem


def improvement(ours: float, theirs: float) -> float:
    """100 (ours - theirs) / theirs: how much higher our accuracy is, or how much longer our training takes."""
    return 100 * (ours - _base(theirs)) / theirs


def reduction(ours: float, theirs: float) -> float:
    """100 (theirs - ours) / theirs: how much lower our noise scale is."""
    return -improvement(ours, theirs)


def average(rate: Callable[[float, float], float], pairs: Iterable[tuple[float, float]]) -> float:
    """The mean of the ratios, not rounded before, as the paper averages over budgets and scenarios.

    A mean of ratios, not a ratio of means: where the other is near chance, one cell decides it.
    """
    return fmean(rate(ours, theirs) for ours, theirs in pairs)


RATES: dict[str, tuple[str, Callable[[float, float], float]]] = {  # the rate's name: what it is a rate of, and how
    "improvement": ("accuracy", improvement),
    "reduction": ("noise_scale", reduction),
    "increment": ("seconds", improvement),
}


def _base(value: float) -> float:
    if value == 0:
        raise Problem("a rate against 0 has no value: compare with a method that has one above 0")
    return value
