"""`ladp report`: run folders, or folders that hold some, become one page or one table."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ladp.errors import Problem, choose
from ladp.report import table as tables
from ladp.report.configuration import Configuration, gather
from ladp.report.headline import proved, row
from ladp.report.page import page, put

FORMATS = ("html", *tables.FORMATS)
PAGE, PIPED = Path("report.html"), 120  # a pipe has no width of its own
NARROW = 108  # a terminal on which a mean and its deviation stand one below the other


def option(flag: str, help: str) -> Any:
    """A flag whose default depends on the others."""
    return typer.Option(flag, help=escape(help), show_default=False)


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Run folders, or folders that hold some.")],
    out: Annotated[Path | None, option("--out", f"the file to write [{PAGE}; tables go to standard output]")] = None,
    format_: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "html",
    certified: Annotated[bool, typer.Option("--certified", help="Only what a finite ε is certified of.")] = False,
    title: Annotated[str | None, option("--title", "title of the page [model and data]")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the rows as JSON, and nothing else on stdout.")] = False,
) -> None:
    """Show what runs cost and bought: one HTML page that opens from disk, or a table. Trains nothing."""
    choose("format", format_, FORMATS)
    if title is not None and format_ != "html":
        raise Problem(f"--title belongs to the page, and the format is {format_}: leave one of them out")
    configurations, out = _asked(gather(folders), certified), out or (PAGE if format_ == "html" else None)
    rows = [row(one) for one in configurations]
    text = page(configurations, out, title) if format_ == "html" else tables.FORMATS[format_](rows)
    if out is not None:
        put(out, text)
    if json_:
        print(json.dumps({"out": out and str(out), "rows": rows}, allow_nan=False))
    else:
        _tell(rows, text, out, format_)


def _asked(configurations: list[Configuration], certified: bool) -> list[Configuration]:
    kept = [one for one in configurations if proved(row(one))] if certified else configurations
    if not kept:
        raise Problem("no finite epsilon is certified of any of these runs: leave --certified out to see them")
    return kept


def show(folders: list[Path]) -> None:
    """The headline table of the runs under `folders`, in the terminal."""
    display([row(one) for one in gather(folders)])


def display(rows: list[dict[str, Any]]) -> None:
    """The headline table, with the notes that give each ε its meaning."""
    console = Console()
    console.width = console.width if console.is_terminal else max(console.width, PIPED)
    narrow = console.width < NARROW
    table = Table(title="What it cost and what it bought", title_justify="left", box=SIMPLE_HEAD, padding=(0, not narrow, 0, 0))
    for place, heading in enumerate(tables.HEADINGS):
        table.add_column(Text(heading.replace(" ", "\n")), justify="right" if place else "left", overflow="fold")
    for one in rows:
        table.add_row(*(Text(cell.replace(" ± ", "\n± ") if narrow else cell) for cell in tables.cells(one)))
    console.print(table, *(_hanging(note) for note in tables.notes(rows)), sep="\n")


def _hanging(note: str) -> Table:
    """A note whose later lines stand in from its first."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row("·", Text(note))
    return grid


def _tell(rows: list[dict[str, Any]], text: str, out: Path | None, format: str) -> None:
    """The table that goes with a page, the table itself, or where it went."""
    if format == "html":
        display(rows)
    print(text if out is None else f"wrote {out}\n", end="")
