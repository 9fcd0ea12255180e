"""A table of the paper as data: every number where it stands, as printed and as a value."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ladp.errors import Problem, choose

HOME = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in HOME.glob("*.toml")))
UNITS = {"accuracy": "%", "improvement": "%", "reduction": "%", "increment": "%", "seconds": "s"}  # what is not here is a bare number
Place = Mapping[str, str | float | None]


@dataclass(frozen=True)
class Entry:
    """One printed number: `where` by axis, the string as printed, what it means, and, where something is wrong with it, what (`mark`)."""

    table: str
    where: Place
    printed: str
    meant: str
    mark: str | None = None

    @property
    def value(self) -> float:
        return float(self.meant.rstrip("%").replace(",", ""))

    @property
    def unit(self) -> str:
        return "%" if self.printed.endswith("%") else UNITS.get(str(self.where.get("quantity")), "")

    @property
    def places(self) -> int:
        """Digits printed after the point."""
        return len(self.meant.rstrip("%").partition("e")[0].partition(".")[2])

    def agrees(self, value: float) -> bool:
        """Whether `value`, rounded to the digits printed, is the value printed; a tie may be rounded either way."""
        power = int(self.meant.rstrip("%").partition("e")[2] or 0)
        return abs(value - self.value) <= 10.0 ** (power - self.places) * (0.5 + 1e-9)

    def like(self, value: float) -> str:
        """A value with the digits that this one is printed with."""
        if "e" not in self.meant:
            return f"{value:,.{self.places}f}"
        digits, _, power = f"{value:.{self.places}e}".partition("e")
        return f"{digits}e{int(power)}"


@dataclass(frozen=True)
class Table:
    """A table of the paper: its label there, what it shows, its lines as printed, of whose cells the first `names` are words, and the entries they hold."""

    name: str
    label: str
    title: str
    names: int
    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    entries: tuple[Entry, ...]

    def find(self, **where: str | float | None) -> tuple[Entry, ...]:
        """The entries that stand there, whatever their other axes say."""
        return tuple(entry for entry in self.entries if where.items() <= entry.where.items())

    def entry(self, **where: str | float | None) -> Entry:
        """The one entry that stands there."""
        found = self.find(**where)
        if len(found) != 1:
            raise Problem(f"table {self.name!r} has {len(found)} entries at {where}: name the axes of one, from {', '.join(self.entries[0].where)}")
        return found[0]

    @cached_property
    def cells(self) -> dict[frozenset, float]:
        """Every value by its place."""
        return {place(entry.where): entry.value for entry in self.entries}


def place(where: Place) -> frozenset:
    """Where a number stands, as a key."""
    return frozenset(where.items())


@lru_cache
def load(name: str) -> Table:
    """The table of that name."""
    facts = tomllib.loads((HOME / f"{choose('table', name, NAMES)}.toml").read_text("utf-8"))
    heads, *lines = ([part for part in line.split() if part != "|"] for line in facts["rows"].strip().splitlines())
    axes = facts["rows"].split("|", 1)[0].split()
    entries = (entry for line in lines for entry in _entries(name, facts, axes, heads, line))
    return Table(name, facts["label"], facts["title"], len(axes), tuple(heads), tuple(map(tuple, lines)), tuple(entries))


def _entries(name: str, facts: dict, axes: list[str], heads: list[str], line: list[str]):
    """The numbers of a line; a dash is none."""
    shared = facts.get("all", {}) | dict(zip(axes, line))
    for head, printed in zip(heads[len(axes) :], line[len(axes) :], strict=True):
        mark = facts.get("marks", {}).get(printed, {})
        where = shared | dict(zip(facts["across"].split("/"), head.split("/"), strict=True))
        if printed != "-":
            yield Entry(name, _typed(where), printed, mark.get("meant", printed), mark.get("why"))


def _typed(where: dict) -> dict:
    """Epsilon as a number; None where nothing protects."""
    epsilon = where.get("epsilon")
    return where if epsilon in (None, "mean") else where | {"epsilon": None if epsilon == "-" else float(epsilon)}

