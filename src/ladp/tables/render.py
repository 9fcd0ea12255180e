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
    notes = [*[_shared(rows, axes)] * (len(rows) > 1), *_marks(rows), *_remarks(rows, measured), *[EPSILON] * ("epsilon" in rows[0])]
    notes += [CLOCK] * any(row.get("quantity") in ("seconds", "increment") for row in rows)
    return Lines([*_heads(axes), "whose", "paper", "ours", "difference", "ours / paper", "runs"], lines, notes, len(axes) + 1)


def disagreements(rows: Sequence[dict]) -> Lines:
    """What does not come out as printed, and how much does."""
    wrong = [row for row in rows if row["agrees"] is False]
    lines = [[row["table"], " ".join(_words(row, _axes([row]))), row["printed"], f"{row['recomputed']:.6g}"] for row in wrong]
    counts = {answer: sum(row["agrees"] is answer for row in rows) for answer in (True, None)}
    notes = [f"{counts[True]} of {len(rows)} numbers that follow from others come out as printed; {counts[None]} follow from no table", *_marks(wrong)]
    return Lines(["table", "place", "printed", "recomputed"], lines, notes, 2)


def _axes(rows: Sequence[dict]) -> list[str]:
    """The axes on which rows differ; all of a lone row's."""
    axes = [axis for axis in rows[0] if axis not in FACTS]
    return axes if len(rows) == 1 else [axis for axis in axes if len({row[axis] for row in rows}) > 1]


def _shared(rows: Sequence[dict], axes: Sequence[str]) -> str:
    """Where all rows stand alike."""
    return "all: " + ", ".join(f"{SIGNS.get(axis, axis)} {rows[0][axis]}" for axis in rows[0] if axis not in FACTS and axis not in axes)


def _remarks(rows: Sequence[dict], measured: Sequence[Ours]) -> list[str]:
    """What is to be said of the runs shown, and of which; a row made of several runs shows them all."""
    shown, known, said = {row["label"] for row in rows}, {one.label for one in measured}, {}
    for one in measured:
        for remark in one.remarks if one.label in shown or shown - known else ():
            said.setdefault(remark, []).append(one.label)
    return [f"{remark}: {', '.join(labels)}" for remark, labels in said.items()]


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
