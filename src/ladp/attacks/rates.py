"""How well a score tells members from others: AUC, balanced accuracy, true positives where false ones are rare, each with how sure it is.

Scores of members (`inside`) and of others (`outside`): whoever scores above a threshold is called a member.
"""

from collections.abc import Sequence
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from ladp.metrics.interval import clopper_pearson

CONFIDENCE, LEVELS = 0.95, (0.01, 0.001)
Scores = NDArray[np.float64]


def rates(inside: Scores, outside: Scores) -> dict[str, Any]:
    """All rates of one score against one run, members and others in random order."""
    area = auc(inside, outside)
    found = {"auc": area, "auc_interval": _within(area, norm.isf((1 - CONFIDENCE) / 2) * deviation(inside, outside)), "balanced_accuracy": accuracy(inside, outside)}
    for level in LEVELS:
        hits = None if (bar := threshold(outside, level)) is None else int((inside > bar).sum())
        found |= _told(level, None if hits is None else hits / len(inside), None if hits is None else list(clopper_pearson(hits, len(inside))))
    return found


def pooled(inside: Scores, outside: Scores) -> dict[str, Any]:
    """Rates of one score against many federations, [federations, records]: one threshold for all, intervals over federations, since records of one are not independent."""
    areas = np.array([auc(*pair) for pair in zip(inside, outside)])
    found = {"auc": float(areas.mean()), "auc_interval": across(areas), "balanced_accuracy": float(np.mean([accuracy(*pair) for pair in zip(inside, outside)]))}
    for level in LEVELS:
        hits = None if (bar := threshold(outside.ravel(), level)) is None else (inside > bar).mean(1)
        found |= _told(level, None if hits is None else float(hits.mean()), None if hits is None else across(hits))
    return found


def auc(inside: Scores, outside: Scores) -> float:
    """P(a member scores higher than another) + P(they score the same) / 2."""
    return float(_placed(inside, outside).mean())


def deviation(inside: Scores, outside: Scores) -> float:
    """The standard error of the AUC (DeLong et al. 1988): sqrt(var(V10)/m + var(V01)/n), V the share of the other kind that each score beats."""
    beats, beaten = _placed(inside, outside), _placed(outside, inside)
    return float(np.sqrt(beats.var(ddof=1) / len(inside) + beaten.var(ddof=1) / len(outside)))


def accuracy(inside: Scores, outside: Scores) -> float:
    """(TPR + TNR) / 2 at the threshold that is best for every other record, on the records between, and the other way round: no record chooses its own threshold."""
    halves = [(inside[k::2], outside[k::2]) for k in (0, 1)]
    bars = [_best(*half) for half in halves]
    return float(np.mean([((there > bar).mean() + (elsewhere <= bar).mean()) / 2 for bar, (there, elsewhere) in zip(bars, reversed(halves))]))


def threshold(outside: Scores, level: float) -> float | None:
    """The least bar that at most a share `level` of the others is above; None where one of them alone is more than that."""
    allowed = floor(level * len(outside) + 1e-9)
    return float(np.sort(outside)[::-1][allowed]) if allowed else None


def across(values: Scores) -> list[float]:
    """The interval of a mean of shares, one a federation (Student's t)."""
    return _within(float(values.mean()), t.isf((1 - CONFIDENCE) / 2, len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5)


def curve(inside: Scores, outside: Scores) -> Sequence[tuple[float, float]]:
    """(FPR, TPR) at false positive rates that lie evenly on a logarithmic axis."""
    falling, rising = np.sort(outside)[::-1], np.sort(inside)
    counts = np.unique(np.rint(np.geomspace(1, len(outside) - 1, 200)).astype(int))
    points = [(count / len(outside), 1 - np.searchsorted(rising, falling[count], "right") / len(inside)) for count in (0, *counts)]
    return [*((float(x), float(y)) for x, y in points), (1.0, 1.0)]


def _placed(ours: Scores, theirs: Scores) -> Scores:
    """The share of theirs that each of ours is above, ties half."""
    order = np.sort(theirs)
    return (np.searchsorted(order, ours, "left") + np.searchsorted(order, ours, "right")) / (2 * len(order))


def _best(inside: Scores, outside: Scores) -> float:
    """The bar, half way between neighbouring scores, that parts the two kinds best."""
    met = np.unique(np.concatenate([inside, outside]))
    bars = np.append((met[:-1] + met[1:]) / 2, met[-1])
    above = [1 - np.searchsorted(np.sort(scores), bars, "right") / len(scores) for scores in (inside, outside)]
    return float(bars[np.argmax(above[0] - above[1])])


def _within(middle: float, radius: float) -> list[float]:
    return [max(0.0, float(middle - radius)), min(1.0, float(middle + radius))]


def _told(level: float, rate: float | None, interval: Sequence[float] | None) -> dict[str, Any]:
    return {f"tpr_at_{level:.1%}_fpr": rate, f"tpr_at_{level:.1%}_fpr_interval": interval}
