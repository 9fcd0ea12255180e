"""What the paper's text states, recomputed from its tables.

A claim is a path. rate/method[/model/data[/epsilon]] is a mean over the cells of the rate's table that lie under it; a table's name before it
takes that table. Claims of another kind are in RULES. What no table holds has no value: `recompute` gives None and `READ` says why.
"""

from collections.abc import Callable
from statistics import fmean

from ladp.metrics.rates import RATES, improvement, reduction
from ladp.privacy.gaussian import sigma_of
from ladp.privacy.naive import accumulated
from ladp.tables.arithmetic import BASELINES, Cells, derive, figures, overall
from ladp.tables.table import NAMES, load, place

ADAPTIVE = ("time-varying", "sensitive", "dpa")
PRIVATE = {"cifar10": "bird", "femnist": "5"}
READ = {  # by how the claim begins
    **dict.fromkeys(("figure", "accumulated/full", "above", "below-full-accumulated", "ablation"), "read off a figure: no table has the value"),
    "loss": "no table has the accuracy without protection in this setting",
    "active": "a setting, not a result",
}


def recompute(claim: str, cells: Cells | None = None) -> float | None:
    """The value of a claim from `cells`, or from the paper's own figures; None where they do not hold it."""
    if claim in SAID:
        return SAID[claim]() if cells is None else None
    cells = figures() if cells is None else cells
    kind, *path = claim.split("/")
    if kind in RULES:
        return RULES[kind](cells, *path)
    if kind in RATES:
        return _rate(cells, kind, *path)
    return overall(*path[:2], cells, load(kind), **dict(zip(("distribution",), path[2:]))) if kind in NAMES else None


def reason(claim: str) -> str | None:
    """Why a claim cannot be recomputed, or None."""
    return next((why for start, why in READ.items() if claim.startswith(start)), None) if recompute(claim) is None else None


def stated(claim: str) -> float:
    """What the text says, where it says it first."""
    return load("text").find(claim=claim)[0].value


def _rate(cells: Cells, rate: str, method: str, model: str | None = None, data: str | None = None, epsilon: str | None = None) -> float | None:
    where = {"model": model, "data": data, "epsilon": epsilon and float(epsilon)}
    return overall(rate, method, cells, **{axis: value for axis, value in where.items() if value is not None})


def _noise(cells: Cells, method: str, distribution: str = "general", epsilon: float = 0.2) -> float | None:
    """The noise scale of ResNet-18 on CIFAR-10."""
    where = {"model": "resnet18", "data": "cifar10", "epsilon": epsilon, "distribution": distribution, "quantity": "noise_scale"}
    return cells.get(place({**where, "method": method}))


def _below_full(cells: Cells, method: str) -> float | None:
    """How far a baseline's noise is below Full DP's at epsilon .5, ResNet-18 on CIFAR-10."""
    theirs, full = _noise(cells, method, epsilon=0.5), _noise(cells, "full", epsilon=0.5)
    return None if None in (theirs, full) else reduction(theirs, full)


def _increments(cells: Cells, *methods: str) -> list[float]:
    """How much longer LaDP-FL takes, cell by cell of the table of durations."""
    found = (derive({**one.where, "quantity": "increment", "method": name}, cells) for name in methods for one in load("time").find(quantity="seconds", method="ladp"))
    return [value for value in found if value is not None]


def _adaptive(cells: Cells, choose: Callable) -> float | None:
    return choose(means) if None not in (means := [overall("increment", name, cells) for name in ADAPTIVE]) else None


def _fid(cells: Cells, method: str, data: str) -> float | None:
    """The FID of a data set's private class, averaged over the two budgets; without protection there is one."""
    at = {"class": PRIVATE[data], "method": method}
    values = [cells.get(place(one.where)) for one in load("fid").find(**at)]
    return None if None in values else fmean(values)


def _fid_gain(cells: Cells, method: str) -> float | None:
    """How much higher the FID is with LaDP-FL: the mean over the two private classes of the gain of the means over the budgets."""
    pairs = [(_fid(cells, "ladp", data), _fid(cells, method, data)) for data in PRIVATE]
    return None if any(None in pair for pair in pairs) else fmean(improvement(ours, theirs) for ours, theirs in pairs)


def _fid_least(cells: Cells) -> float | None:
    gains = [_fid_gain(cells, name) for name in BASELINES]
    return None if None in gains else min(gains)


def _spared(method: str) -> float:
    """How much less budget LaDP-FL accumulates, from what the text says of LaDP-FL and of the method against Full DP."""
    above = {"time-varying": stated("above-full/time-varying"), "dpa": stated("above-full/dpa"), "sensitive": -stated("below-full-accumulated/sensitive")}
    return reduction(100 - stated("accumulated/full"), 100 + above.get(method, 0.0))


def _slope() -> float:
    """What nine honest clients of 2,000 records spend in a round of two epochs at epsilon .2, by the paper's accountant."""
    return accumulated(sigma_of(0.2, 0.02, "classical"), 0.02, 50, 2000, 9 * 2 * 2000 // 50).epsilon


SAID: dict[str, Callable[[], float]] = {  # what follows from other statements of the text alone
    "figure-gain": lambda: improvement(stated("figure-accuracy/ladp/0.16"), stated("figure-accuracy/full/0.16")),
    "figure-gap": lambda: stated("figure-accuracy/ladp/0.4") - stated("figure-accuracy/full/0.4"),
    "accumulated/all": lambda: fmean(stated(f"accumulated/{name}") for name in BASELINES),
    **{f"accumulated/{name}": lambda name=name: _spared(name) for name in BASELINES[1:]},
    "slope": _slope,
}
RULES: dict[str, Callable[..., float | None]] = {
    "below-full": _below_full,
    "p-accumulated": lambda cells: cells.get(place(load("p-values").entry(about="accumulated", model="resnet18", data="cifar10", method="full").where)),
    "increment-least": lambda cells: min(_increments(cells, "full"), default=None),
    "increment-most": lambda cells: max(_increments(cells, "full"), default=None),
    "increment-adaptive-least": lambda cells: _adaptive(cells, min),
    "increment-adaptive-most": lambda cells: _adaptive(cells, max),
    "heterogeneity-noise": _noise,
    "fid": _fid,
    "fid-gain": _fid_gain,
    "fid-gain-least": _fid_least,
}
