"""`ladp ledger`: what every client has spent, whether the file can be believed, and its rows for other programs."""

import csv
import json
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ladp import folder
from ladp.cli.privacy import Json, show
from ladp.errors import Problem, choose
from ladp.ledger import Entry, Ledger
from ladp.ledger.entry import VIEWS
from ladp.ledger.receipts import compare

app = typer.Typer(help="The ledgers of what clients have released.", no_args_is_help=True)
FILE, FORMATS = "ledger.sqlite", ("csv", "json")
COLUMNS = ("sequence", "client", "run", "round", "unit", *VIEWS, "replay", "time", "seal")

Place = Annotated[Path, typer.Argument(metavar="PATH", help=f"A ledger, or a folder with a {FILE}.")]
Client = Annotated[str | None, typer.Option(help="One client alone.", show_default=False)]
Anchor = Annotated[Path | None, typer.Option(help="The file elsewhere in which the ledger's head is kept too.", show_default=False)]
Delta = Annotated[float, typer.Option(help="The delta at which epsilons are worked out.")]


@app.command("show")
def show_command(path: Place, client: Client = None, delta: Delta = 1e-5, anchor: Anchor = None, as_json: Json = False) -> None:
    """What every client has spent, by unit and view, over all runs of the ledger."""
    _check(delta)
    with _open(path, anchor) as ledger:
        rows = list(_accounts(ledger, client, delta))
    if as_json:
        return print(json.dumps(rows))
    table = Table(title="Spent so far", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("client", "unit", "view", "releases", "ε", "δ", "accountant"):
        table.add_column(heading, justify="right" if heading in ("releases", "ε", "δ") else "left")
    for row in rows:
        table.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)


@app.command("verify")
def verify_command(
    path: Place,
    anchor: Anchor = None,
    adopt: Annotated[bool, typer.Option(help="Accept that head files are missing, and write them again.")] = False,
    delta: Delta = 1e-5,
    as_json: Json = False,
) -> None:
    """Check a ledger from its first row; in a run's folder also against the run's receipts, worked out again from their multipliers."""
    _check(delta)
    with _open(path, anchor, adopt) as ledger:
        report = ledger.verify()
        facts = asdict(report) | {"heads": list(report.heads), "delta": delta, "most_spent": _most(ledger, delta)}
        if (path / folder.ROUNDS).exists():
            facts |= _receipts(path, ledger)
    show("The ledger is whole", facts, as_json)


@app.command("export")
def export_command(
    path: Place,
    client: Client = None,
    format_: Annotated[str, typer.Option("--format", help="csv, or json: an object a line.")] = "csv",
    anchor: Anchor = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """The rows themselves, on standard output: charges are lists of [multiplier, rate, times] by view."""
    choose("format", format_, FORMATS)
    with _open(path, anchor) as ledger:
        rows = [_row(entry) for entry in ledger.entries(client)]
    if as_json or format_ == "json":
        return sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {view: json.dumps(row[view]) for view in VIEWS} for row in rows)


@contextmanager
def _open(path: Path, anchor: Path | None, adopt: bool = False) -> Iterator[Ledger]:
    """A ledger that is there: looking at one must not make one."""
    place = path / FILE if path.is_dir() else path
    if not place.is_file():
        raise Problem(f"{place} is not there: name a ledger, or a folder with a {FILE}")
    with Ledger(place, anchor, adopt=adopt) as ledger:
        yield ledger


def _check(delta: float) -> None:
    if not 0 < delta < 1:
        raise Problem(f"delta must lie strictly between 0 and 1, got {delta}")


def _accounts(ledger: Ledger, client: str | None, delta: float) -> Iterator[dict[str, Any]]:
    """A line for each client, unit and view."""
    accounts = sorted(ledger.accounts().items(), key=lambda item: (len(item[0][0]), item[0]))
    if client is not None and client not in {name for (name, _), _ in accounts}:
        raise Problem(f"client {client!r} has released nothing in this ledger; `ladp ledger show` lists those that have")
    for (name, unit), releases in accounts:
        for view in VIEWS if client in (None, name) else ():
            bound = ledger.spent(name, view, delta, unit)
            epsilon = bound.epsilon if isfinite(bound.epsilon) else "inf"
            yield {"client": name, "unit": unit, "view": view, "releases": releases, "epsilon": epsilon, "delta": delta, "accountant": bound.accountant}


def _most(ledger: Ledger, delta: float) -> list[str]:
    """For each unit and view, the client that has spent most."""
    most: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _accounts(ledger, None, delta):
        known = most.setdefault((row["unit"], row["view"]), row)
        if float(row["epsilon"]) > float(known["epsilon"]):
            most[row["unit"], row["view"]] = row
    return [f"client {r['client']}: epsilon {float(r['epsilon']):.6g} (unit {unit}, view {view}, {r['accountant']})" for (unit, view), r in most.items()]


def _receipts(path: Path, ledger: Ledger) -> dict[str, int]:
    """The rows of the folder's own run against its receipts; a last line that a crash left torn was never counted on."""
    digest = folder.get_json(path / folder.ABOUT)["digest"]
    entries = [entry for entry in ledger.entries() if entry.run.partition("/")[0] == digest]
    colluders = tomllib.loads((path / folder.RECIPE).read_text()).get("budget", {}).get("colluders", 1)
    found = compare(entries, _records(path / folder.ROUNDS), colluders)
    return {"receipts": found.receipts, "rows_without_receipt": found.beyond}


def _records(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    except ValueError as error:
        raise Problem(f"{path} is damaged ({error}): restore the file, or delete {folder.CHECKPOINT} and `ladp resume` to begin again") from error


def _row(entry: Entry) -> dict[str, Any]:
    charges = {view: [[c.multiplier, c.rate, c.times] for c in entry.charges[view]] if view in entry.charges else None for view in VIEWS}
    return {name: charges[name] if name in VIEWS else getattr(entry, name) for name in COLUMNS}
