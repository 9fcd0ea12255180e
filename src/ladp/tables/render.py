"""Tables as heads, lines and notes, and how many columns are words."""

from collections.abc import Sequence
from typing import NamedTuple

from ladp.report.number import ABSENT
from ladp.tables.ours import Ours
from ladp.tables.table import Table

EPSILON = "ε is what a method claims for one upload (unit record, δ .02, its own paper's formula); no ε of these tables is certified"
CLOCK = "the paper's seconds are of a GTX 1080 Ti: they say nothing of ours"
SIGNS = {"epsilon": "ε"}
FACTS = {"table", "printed", "paper", "unit", "mark", "ours", "deviation", "runs", "difference", "ratio", "shown", "label", "recomputed", "agrees", "reason"}


class Lines(NamedTuple):
    """A table ready to be written: the first `names` columns are words."""

    heads: list[str]
    lines: list[list[str]]
    notes: list[str]
    names: int


def printed(table: Table) -> Lines:
    """A table as printed."""
    marks = dict.fromkeys(f"{entry.printed}: {entry.mark}" for entry in table.entries if entry.mark)
    return Lines([SIGNS.get(head, head) for head in table.heads], [list(line) for line in table.lines], list(marks), table.names)


def compared(rows: Sequence[dict], measured: Sequence[Ours]) -> Lines:
    """Paper, ours and the difference, by place and configuration."""
    axes = _axes(rows)
    lines = [[*_words(row, axes), row["label"], row["printed"], row["shown"], _signed(row), _ratio(row), str(row["runs"])] for row in rows]
    used = {row["label"] for row in rows}
    notes = [f"{one.label}: {remark}" for one in measured if one.label in used for remark in one.remarks]
    notes += [EPSILON] * ("epsilon" in rows[0]) + [CLOCK] * any(row.get("quantity") in ("seconds", "increment") for row in rows)
    return Lines([*_heads(axes), "whose", "paper", "ours", "difference", "ours / paper", "runs"], lines, [*_marks(rows), *notes], len(axes) + 1)


def disagreements(rows: Sequence[dict]) -> Lines:
    """What does not come out as printed, and how much does."""
    wrong = [row for row in rows if row["agrees"] is False]
    lines = [[row["table"], " ".join(_words(row, _axes([row]))), row["printed"], f"{row['recomputed']:.6g}"] for row in wrong]
    counts = {answer: sum(row["agrees"] is answer for row in rows) for answer in (True, None)}
    notes = [f"{counts[True]} of {len(rows)} numbers that follow from others come out as printed; {counts[None]} follow from no table", *_marks(wrong)]
    return Lines(["table", "place", "printed", "recomputed"], lines, notes, 2)


def _axes(rows: Sequence[dict]) -> list[str]:
    """The axes of some rows; those on which all agree say nothing and are left out, but for a lone row's."""
    axes = [axis for axis in rows[0] if axis not in FACTS]
    varying = [axis for axis in axes if len({row[axis] for row in rows}) > 1]
    return varying if len(rows) > 1 else [axis for axis in axes if axis != "distribution"]


def _heads(axes: Sequence[str]) -> list[str]:
    return [SIGNS.get(axis, axis) for axis in axes]


def _words(row: dict, axes: Sequence[str]) -> list[str]:
    return [ABSENT if row[axis] is None else str(row[axis]) for axis in axes]


def _signed(row: dict) -> str:
    """The difference, as many digits as say it."""
    return f"{row['difference']:+,.4g}".replace("-", "−") if abs(row["difference"]) < 1e4 else f"{row['difference']:+,.0f}".replace("-", "−")


def _ratio(row: dict) -> str:
    return ABSENT if row["ratio"] is None else f"{row['ratio']:.3f}"


def _marks(rows: Sequence[dict]) -> list[str]:
    return list(dict.fromkeys(f"{row['printed']}: {row['mark']}" for row in rows if row["mark"]))
