"""The paper's rates and averages, done again from the figures they are about: its own, or ours."""

from collections.abc import Mapping
from functools import lru_cache
from statistics import fmean

from ladp.metrics.rates import RATES, average
from ladp.tables.table import Entry, Place, Table, load, place

Cells = Mapping[frozenset, float]
OURS = "ladp"  # the method that the paper's rates are about
BASELINES = ("full", "time-varying", "sensitive", "dpa", "adapldp")
BUDGETS = (0.2, 0.3, 0.4, 0.5)
HOLDS = {"improvement": "accuracy", "reduction": "noise", "increment": "time"}  # the table that a rate is averaged over, if none is named
FIGURES = ("accuracy", "noise", "time", "heterogeneity", "resnet152", "fid", "p-values")


@lru_cache
def figures() -> Cells:
    """Every figure of the paper by its place; the main text's tables are parts of the supplement's."""
    return {at: value for name in FIGURES for at, value in load(name).cells.items()}


def derive(where: Place, cells: Cells) -> float | None:
    """The rate or mean that belongs at `where`, or None where `cells` lacks a figure it needs."""
    if where.get("model") == "mean":
        return _mean([cells.get(place({**where, "model": model, "data": data})) for model, data in scenarios(load("p-values"))])
    quantity, rate = RATES[str(where["quantity"])]
    budgets = BUDGETS if where["epsilon"] == "mean" else (where["epsilon"],)
    theirs = [{**where, "quantity": quantity, "epsilon": epsilon} for epsilon in budgets]
    pairs = [(cells.get(place({**at, "method": OURS})), cells.get(place(at))) for at in theirs]
    return None if any(None in pair for pair in pairs) else average(rate, pairs)


def overall(rate: str, method: str, cells: Cells, table: Table | None = None, **where: str | float) -> float | None:
    """The mean of a rate against `method` ("all": every baseline) over the cells of its table that stand at `where`, none rounded before."""
    table = table or load(HOLDS[rate])
    ours = table.find(quantity=RATES[rate][0], method=OURS, **where)
    methods = BASELINES if method == "all" else (method,)
    return _mean([derive({**one.where, "quantity": rate, "method": name}, cells) for name in methods for one in ours])


def derived(entry: Entry) -> bool:
    """Whether an entry follows from others: a rate, or a mean of p-values."""
    return entry.where.get("quantity") in RATES or entry.where.get("model") == "mean"


def scenarios(table: Table) -> list[tuple[str, str]]:
    """The pairs of model and data set of a table, in its order."""
    pairs = dict.fromkeys((str(entry.where["model"]), str(entry.where["data"])) for entry in table.entries)
    return [pair for pair in pairs if pair[0] != "mean"]


def _mean(values: list[float | None]) -> float | None:
    return None if None in values or not values else fmean(values)
