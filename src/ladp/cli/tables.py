"""`ladp tables`: the paper's tables, its arithmetic done again, and our runs beside them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ladp.cli.privacy import Json, show
from ladp.errors import choose
from ladp.report.table import comma, piped, tabular
from ladp.tables import NAMES, ours, table
from ladp.tables import compare as comparison
from ladp.tables.render import Lines, compared, disagreements, printed
from ladp.tables.totals import READINGS, totals

app = typer.Typer(help="The paper's tables, its arithmetic done again, and our runs beside them.", no_args_is_help=True)

WIDE = 160  # a pipe has no width of its own
FORMATS = ("text", "markdown", "latex", "csv")
Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(NAMES)}.")]
Format = Annotated[str, typer.Option("--format", help=", ".join(FORMATS))]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, folders that hold some, or summaries of runs (.json).")]


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """The tables there are."""
    known = [{"name": one.name, "label": one.label, "title": one.title, "entries": len(one.entries)} for one in map(table.load, NAMES)]
    write("The paper's tables", Lines(list(known[0]), [list(map(str, one.values())) for one in known], [], 3), known, as_json=as_json)


@app.command("show")
def show_command(name: Name, format_: Format = "text", as_json: Json = False) -> None:
    """A table as printed, what is wrong with it beneath."""
    one = table.load(name)
    write(f"{one.title} ({one.label})", printed(one), list(map(comparison.row, one.entries)), format_, as_json)


@app.command("check")
def check_command(
    name: Annotated[str | None, typer.Argument(help="One table; all of them by default.")] = None, format_: Format = "text", as_json: Json = False
) -> None:
    """Every rate, average and statement that follows from other numbers of the paper, done again: shown are those that come out otherwise."""
    rows = comparison.check(NAMES if name is None else (choose("table", name, NAMES),))
    write("Printed, and what follows", disagreements(rows), rows, format_, as_json)


@app.command("compare")
def compare_command(name: Name, runs: Runs, format_: Format = "text", as_json: Json = False) -> None:
    """Paper, ours and the difference, for every entry that the runs have something for."""
    measured = ours.read(runs)
    rows = comparison.compare(table.load(name), measured)
    write(f"Paper and ours: {table.load(name).title}", compared(rows, measured), rows, format_, as_json)


@app.command("metrics")
def metrics_command(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")], as_json: Json = False) -> None:
    """The paper's metrics of a run: noise scale, budget by its accountant from the sigma of each round and layer, training duration."""
    found = totals(run)
    show("The paper's metrics", found if as_json else _flat(found), as_json)


def write(title: str, lines: Lines, rows: list[dict], format: str = "text", as_json: bool = False) -> None:
    """Rows as JSON, or their lines as a table."""
    forms = {"markdown": lambda: piped(*lines), "latex": lambda: tabular(*lines), "csv": lambda: comma(_even(rows))}
    if choose("format", format, FORMATS) == "text" and not as_json:
        return put(title, *lines)
    print(json.dumps(rows, allow_nan=False) + "\n" if as_json else forms[format](), end="")


def _even(rows: list[dict]) -> list[dict]:
    """The same columns in every row."""
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def put(title: str, heads: Sequence[str], lines: Iterable[Sequence[str]], notes: Iterable[str] = (), names: int = 1) -> None:
    """A table in the terminal, its notes beneath."""
    drawn = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        drawn.add_column(Text(head), justify="left" if place < names else "right", overflow="fold")
    for line in lines:
        drawn.add_row(*map(Text, line))
    console = Console()
    console.width = console.width if console.is_terminal else max(console.width, WIDE)
    console.print(drawn, *(Text(f"· {note}") for note in notes), sep="\n")


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    """The accountant's three readings, and whom not to believe, as lines of their own."""
    spent = found.pop("accumulated") or {}
    readings = {f"accumulated, {name}": _reading(spent[name]) for name in READINGS if spent}
    terms = {"accumulated over": f"q = {spent['q']:.4g}, T = {spent['T']:,} batches of {spent['clients']} clients"} if spent else {}
    bare = {"passed over, without noise": ", ".join(spent["bare"])} if spent.get("bare") else {}
    doubts = {"not to be trusted for": "\n".join(f"{name}: {why}" for name, why in found.pop("distrusted").items())}
    return found | readings | terms | bare | doubts


def _reading(spent: dict[str, Any]) -> str:
    void = "; a δ of 1 or more says nothing" * spent["meaningless"]
    return f"ε = {spent['epsilon']:.6g}, δ = {spent['delta']:.4g} (the paper's sequential accountant, qTε{void})"
