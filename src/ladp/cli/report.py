"""`ladp report`: run folders, or folders that hold some, become one page or one table."""

import json
from math import isinf
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ladp.errors import Problem, choose
from ladp.report import table as tables
from ladp.report.configuration import gather
from ladp.report.headline import row
from ladp.report.page import page, put

FORMATS = ("html", *tables.FORMATS)
PAGE, PIPED = Path("report.html"), 120  # a pipe has no width of its own


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Run folders, or folders that hold some.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help=f"The file to write [{PAGE}; tables go to standard output].", show_default=False)] = None,
    format_: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "html",
    title: Annotated[str | None, typer.Option("--title", help="Title of the page [model and data].", show_default=False)] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the rows as JSON, and nothing else on stdout.")] = False,
) -> None:
    """Show what runs cost and bought: one HTML page that opens from disk, or a table. Trains nothing."""
    choose("format", format_, FORMATS)
    if title is not None and format_ != "html":
        raise Problem(f"--title belongs to the page, and the format is {format_}: leave one of them out")
    configurations = gather(folders)
    rows = [row(one) for one in configurations]
    out = out or (PAGE if format_ == "html" else None)
    text = page(configurations, out, title) if format_ == "html" else tables.FORMATS[format_](rows)
    if out is not None:
        put(out, text)
    if json_:
        print(json.dumps({"out": out and str(out), "rows": list(map(_plain, rows))}, allow_nan=False))
    else:
        _tell(rows, text, out, format_)


def _tell(rows: list[dict[str, Any]], text: str, out: Path | None, format: str) -> None:
    """The table that goes with a page, the table itself, or where it went."""
    if format == "html":
        show(rows)
    print(text if out is None else f"wrote {out}\n", end="")


def show(rows: list[dict[str, Any]], console: Console | None = None) -> None:
    """The headline table in the terminal, with the notes that give each ε its meaning."""
    table = Table(title="What it cost and what it bought", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, heading in enumerate(tables.HEADINGS):
        table.add_column(Text(heading), justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, tables.cells(row)))
    console = console or Console()
    console.width = console.width if console.is_terminal else max(console.width, PIPED)
    console.print(table)
    for note in tables.notes(rows):
        console.print(Text(note))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: it is the text "inf", as in the run folders."""
    return {key: "inf" if isinstance(value, float) and isinf(value) else value for key, value in row.items()}
