"""`ladp list`: what there is to choose from."""

import json
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ladp import attacks
from ladp.data import DATA, FEATURES
from ladp.data.partition import PARTITIONS
from ladp.data.partition import describe as describe_partition
from ladp.errors import choose
from ladp.mechanisms import METHODS
from ladp.models import MODELS
from ladp.recipe import PRESETS
from ladp.training import ENGINES


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def _method(name: str) -> dict[str, Any]:
    kind = METHODS[name]
    options = {f.name: f.default for f in fields(kind)}
    return {"name": name, "meaning": _first_line(kind), "peeks": kind().peeks, "options": options}


def _named(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "meaning": _first_line(thing)} for name, thing in table.items()]


LISTS = {
    "methods": lambda: [_method(name) for name in METHODS],
    "models": lambda: _named(MODELS),
    "data": lambda: _named(DATA),
    "features": lambda: _named(FEATURES),
    "partitions": lambda: [describe_partition(name) for name in PARTITIONS],
    "engines": lambda: [{"name": name, "meaning": where} for name, where in ENGINES.items()],
    "attacks": lambda: _named({name: attacks.kind(name) for name in attacks.ATTACKS}),
    "presets": lambda: [{"name": name, "options": tables} for name, tables in PRESETS.items()],
}


def show(
    what: Annotated[str, typer.Argument(help="methods, models, data, features, partitions, engines, attacks or presets")],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List methods, models, data sets, features, partitions, engines, attacks or presets."""
    rows = LISTS[choose("list", what, LISTS)]()
    if json_:
        print(json.dumps(rows))
        return
    table = Table(*rows[0].keys())
    for row in rows:
        table.add_row(*(_text(v) for v in row.values()))
    Console().print(table)


def _text(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
