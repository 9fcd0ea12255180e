"""Whether two methods differ: the Mann-Whitney U test of the paper's table of p-values."""

from collections.abc import Sequence
from math import sqrt

from scipy.stats import mannwhitneyu, norm

from ladp.errors import Problem


def p_value(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney U test: normal approximation with continuity and ties corrected."""
    if min(len(ours), len(theirs)) < 1:
        raise Problem(f"the U test needs values on both sides, got {len(ours)} and {len(theirs)}")
    if len({*ours, *theirs}) == 1:
        return 1.0  # nothing but ties: no order to speak of
    return float(mannwhitneyu(ours, theirs, alternative="two-sided", method="asymptotic").pvalue)


def statistic(p: float, ours: int, theirs: int) -> float:
    """The U, the smaller of the two, at which `p_value` of samples of these sizes without ties is p."""
    if not 0 < p <= 1:
        raise Problem(f"p must lie above 0 and at most at 1, got {p}")
    deviation = sqrt(ours * theirs * (ours + theirs + 1) / 12)
    return ours * theirs / 2 - 0.5 - float(norm.isf(p / 2)) * deviation
