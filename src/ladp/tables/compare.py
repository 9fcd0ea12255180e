"""Paper | ours | difference, for every entry of a table that our runs have something for."""

from collections.abc import Iterator, Sequence

from ladp.errors import Problem
from ladp.metrics.significance import p_value
from ladp.report.number import Spread, spread
from ladp.tables.arithmetic import OURS, derive, derived
from ladp.tables.claims import reason, recompute
from ladp.tables.ours import Ours, cells
from ladp.tables.table import NAMES, Entry, Table, load


def compare(table: Table, measured: Sequence[Ours]) -> list[dict]:
    """A row for each entry and each configuration of ours that stands there; rates and p-values are computed from ours as the paper's are from its own."""
    known = cells(measured)
    rows = [_row(entry, label, found) for entry in table.entries for label, found in _ours(entry, measured, known)]
    if not rows:
        places = ", ".join(sorted({f"{one.where['method']} {one.where['model']}@{one.where['data']}" for one in measured}))
        raise Problem(f"table {table.name!r} has no entry for these runs ({places}): name another table or other runs")
    return rows


def row(entry: Entry) -> dict:
    """An entry, fit for JSON."""
    return {"table": entry.table, **entry.where, "printed": entry.printed, "paper": entry.value, "unit": entry.unit, "mark": entry.mark}


def check(names: Sequence[str] = NAMES) -> list[dict]:
    """Every entry of the tables that follows from other entries, and what does follow."""
    return [_checked(entry) for name in names for entry in load(name).entries if entry.where.get("claim") or derived(entry)]


def _ours(entry: Entry, measured: Sequence[Ours], known: dict[frozenset, float]) -> Iterator[tuple[str, Spread]]:
    """What we have for an entry, each with whose it is."""
    where = dict(entry.where)
    quantity = where.pop("quantity", None)
    if quantity == "p" and where["model"] != "mean":
        value, label = _p(where, measured), "U test of the last rounds"
    elif quantity == "stated":
        value, label = recompute(str(where["claim"]), known), "our cells"
    elif quantity != "p" and derived(entry):
        value, label = derive(entry.where, known), "our cells"
    else:
        yield from ((one.label, spread(list(one.values[quantity]))) for one in measured if one.where == where and quantity in one.values)
        return
    if value is not None:
        yield label, Spread(value, None, 1)


def _p(where: dict, measured: Sequence[Ours]) -> float | None:
    """The U test of LaDP-FL against a method in a scenario, over the last rounds at every budget that both have."""
    sides = []
    for method in (OURS, where["method"]):
        at = {axis: where[axis] for axis in ("model", "data", "distribution")} | {"method": method}
        sides.append({one.where["epsilon"]: one.last.get(where["about"], ()) for one in measured if at.items() <= one.where.items()})
    shared = [epsilon for epsilon in sides[0] if sides[0][epsilon] and sides[1].get(epsilon)]
    ours, theirs = ([value for epsilon in shared for value in side[epsilon]] for side in sides)
    return p_value(ours, theirs) if shared else None


def _row(entry: Entry, label: str, ours: Spread) -> dict:
    ratio = ours.mean / entry.value if entry.value else None
    shown = entry.like(ours.mean) + (f" ± {entry.like(ours.deviation)}" if ours.deviation else "")
    compared = {"ours": ours.mean, "deviation": ours.deviation, "runs": ours.count, "difference": ours.mean - entry.value, "ratio": ratio}
    return row(entry) | compared | {"shown": shown, "label": label}


def _checked(entry: Entry) -> dict:
    claim = entry.where.get("claim")
    value = recompute(str(claim)) if claim else derive(entry.where, load(entry.table).cells)
    agrees = None if value is None else entry.agrees(value)
    return row(entry) | {"recomputed": value, "agrees": agrees, "reason": reason(str(claim)) if claim else None}
