"""The rows of a run beside the receipts that its folder keeps: what every upload must have cost is worked out again from its multiplier."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any

from ladp.errors import Problem
from ladp.ledger.entry import VIEWS, Entry, merge
from ladp.ledger.spending import Tally
from ladp.privacy.accounting import turn


@dataclass(frozen=True)
class Comparison:
    """How many receipts have a row that charges as much, and how many rows tell of releases that no receipt does (charged, and then cut off)."""

    receipts: int
    beyond: int


def compare(entries: Iterable[Entry], records: Iterable[Mapping[str, Any]], colluders: int = 1) -> Comparison:
    """Every upload of a round's record (`clients`, and `multipliers`, their z) must have a row of its own; one that has none is a Problem."""
    rows: dict[tuple[int, str], list[Entry]] = {}
    for entry in entries:
        rows.setdefault((entry.round, entry.client), []).append(entry)
    receipts = 0
    for record in records:
        for client, z in zip(record["clients"], record.get("multipliers") or ()):
            if z is not None:
                _match(rows.get((record["round"], str(client)), []), record, str(client), z, colluders)
                receipts += 1
    return Comparison(receipts, sum(map(len, rows.values())))


def _match(rows: list[Entry], record: Mapping[str, Any], client: str, z: float, colluders: int) -> None:
    """Take out a row that charges what the receipt says."""
    for entry in rows:
        if all(_covers(merge(entry.borne(view)), expected(entry, view, z, len(record["clients"]), colluders)) for view in VIEWS):
            return rows.remove(entry)
    what = f"a row of other charges than z = {z:g} costs" if rows else "no row"
    raise Problem(f"client {client}, round {record['round']}: the ledger has {what}, but the run's receipts tell of its upload; do not count on this ledger's sums")


def expected(entry: Entry, view: str, z: float, active: int, colluders: int) -> Tally:
    """What an upload of multiplier z costs in a view, with the row's own record rate and local steps and equal weights."""
    server = entry.borne("server")
    rate, steps = server[0].rate if server else 1.0, sum(charge.times for charge in server)
    return merge(turn(entry.unit, view, z, rate=rate, steps=max(1, steps), active=active, colluders=colluders))


def _covers(charged: Tally, due: Tally) -> bool:
    """Whether a row charges what was due; one that nothing bounds, as for a method that peeks, covers anything."""
    return any(charge.multiplier == 0 for charge in charged) or _same(charged, due)


def _same(some: Tally, others: Tally) -> bool:
    return len(some) == len(others) and all(
        a.times == b.times and isclose(a.rate, b.rate, rel_tol=1e-9) and isclose(a.multiplier, b.multiplier, rel_tol=1e-9) for a, b in zip(some, others)
    )
