"""`ladp tables`: the paper's tables, its arithmetic done again, and our runs beside them."""

from collections.abc import Iterable, Sequence

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

app = typer.Typer(help="The paper's tables, its arithmetic done again, and our runs beside them.", no_args_is_help=True)


def put(title: str, heads: Sequence[str], lines: Iterable[Sequence[str]], notes: Iterable[str] = (), names: int = 1) -> None:
    """A table in the terminal, its notes beneath."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(Text(head), justify="left" if place < names else "right", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    console = Console()
    console.width = console.width if console.is_terminal else 160
    console.print(table, *(Text(f"· {note}") for note in notes), sep="\n")
