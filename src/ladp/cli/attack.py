"""`ladp attack`: each attack of the table is a command, its fields are the options."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import Field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ladp import attacks
from ladp.attacks.attack import Attack, Step
from ladp.cli import Stopped
from ladp.cli.run import bar

app = typer.Typer(help="Attack a run: what an adversary who sees its models, or its uploads, gets out of it.", no_args_is_help=True)
RUN = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
JSON = Annotated[bool, typer.Option("--json", help="Print the findings as JSON, and nothing else on stdout.")]


def command(kind: type[Attack]) -> Callable[..., None]:
    """A function that typer makes a command of: run folder, the attack's options, --json."""

    def attack(run: Path, json_: bool, **options: Any) -> None:
        follow(kind(**options), run, json_)

    hints = get_type_hints(kind)
    options = [parameter(field, hints[field.name]) for field in fields(kind)]
    taken = [Parameter("run", Parameter.KEYWORD_ONLY, annotation=RUN), *options, Parameter("json_", Parameter.KEYWORD_ONLY, default=False, annotation=JSON)]
    attack.__signature__ = Signature(taken)
    attack.__annotations__ = {one.name: one.annotation for one in taken}
    attack.__doc__ = kind.__doc__
    return attack


def parameter(field: Field, kind: Any) -> Parameter:
    """A field as an option of the command line."""
    flag = "--" + field.name.replace("_", "-")
    flags = [f"{flag}/--no{flag[1:]}"] if kind is bool else [flag]
    option = typer.Option(*flags, help=escape(field.metadata["help"]), show_default=field.default is not None)
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[kind, option])


def follow(attack: Attack, run: Path, json_: bool) -> None:
    """Show how far the attack is, then what it found."""
    try:
        with bar() as progress, closing(attacks.carry_out(attack, run)) as events:
            task = progress.add_task(attack.name, total=None, news="")
            for event in events:
                if isinstance(event, Step):
                    progress.update(task, completed=event.done, total=event.total, news=event.news)
    except Stopped as stop:
        stop.add_note("the same command goes on from what it has kept")
        raise
    print(json.dumps(event)) if json_ else show(event)


def show(record: dict[str, Any]) -> None:
    """The scores, what must be known to read them, and where the pictures are."""
    table = Table(title=f"{record['attack']} on {record['method']}, seed {record['seed']} · view {record['view']}", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in flat(record["scores"]):
        table.add_row(name, said(value))
    Console().print(table, *(f"· {note}" for note in record["notes"]), f"{record['out']}: {', '.join(record['pictures'] or ['no pictures'])}", sep="\n", markup=False)


def flat(scores: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Scores within scores, each by its whole name."""
    parts = (flat(value, f"{before}{name} ") if isinstance(value, dict) else [(f"{before}{name}", value)] for name, value in scores.items())
    return [pair for part in parts for pair in part]


def said(value: Any) -> str:
    """A number short enough to read."""
    if isinstance(value, list):
        return ", ".join(map(said, value))
    return f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)


for name in attacks.ATTACKS:
    app.command(name)(command(attacks.kind(name)))
