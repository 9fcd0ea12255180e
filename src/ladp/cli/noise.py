"""`ladp noise`: how much noise a run will add, without training."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ladp.cli.privacy import Json, show
from ladp.cli.run import settle
from ladp.cli.tables import put
from ladp.recipe import Recipe
from ladp.studies import expected

app = typer.Typer(help="How much noise a run will add.", no_args_is_help=True)

Preset = Annotated[str, typer.Option(help="as-run or as-printed: the paper's runs, or its text.")]


@app.callback()
def noise() -> None:
    """How much noise a run will add."""


@app.command("expected")
def expected_command(
    method: Annotated[str, typer.Option(help="A method, see `ladp list methods`; one that looks at weights counts as noising every layer alike.")] = "full",
    model: Annotated[str, typer.Option(help="Name of a model, or package.module:Class.")] = "cnn",
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    channels: Annotated[int, typer.Option(help="Image channels.")] = 3,
    size: Annotated[int, typer.Option(help="Image side in pixels.")] = 32,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of one upload; the method's own by default.")] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability; the preset's by default.")] = None,
    kappa: Annotated[float | None, typer.Option(help="The Delta of sigma = c Delta / epsilon: .01 as run, 2 eta E G_c = 8 as printed.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds T.")] = 400,
    active: Annotated[int, typer.Option(help="Clients active in a round.")] = 10,
    clients: Annotated[int, typer.Option(help="Registered clients, for a method that counts how often one takes part.")] = 100,
    records: Annotated[int, typer.Option(help="Records of a client, for a sensitivity that counts steps.")] = 500,
    preset: Preset = "as-run",
    state: Annotated[str | None, typer.Option(help="all or trainable: what is noised; the preset's by default.")] = None,
    layers: Annotated[str | None, typer.Option(help="What a layer is: tensor or module.")] = None,
    counters: Annotated[bool | None, typer.Option(help="Whether integer batch counters are noised; by default if all is, as run.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Any other option, as table.name=value, e.g. --set method.constant=exact.")] = None,
    as_json: Json = False,
) -> None:
    """The paper's noise scale before a run: the sum of the noise norms over rounds, clients and layers, each after division by the cohort."""
    rule = {} if kappa is None else {"kappa": kappa, "sensitivity": "as-run"}
    given = {"name": method, "epsilon": epsilon, "delta": delta, "state": state, "layers": layers} | rule
    recipe = settle({"run": {"rounds": rounds, "active": active, "clients": max(active, clients)}, "method": given}, set_ or [], preset, None)
    counters = recipe.method.state == "all" if counters is None else counters
    network = expected.outline(model, classes, channels, size)
    found = expected.expect(recipe.method, network, rounds, active, recipe.training, records, counters, recipe.clients)
    facts = asdict(found) | {"model": model, "classes": classes, "counters": counters, "preset": preset}
    show("Expected noise scale", facts | _settings(recipe), as_json)


@app.command("table")
def table_command(
    method: Annotated[str, typer.Option(help="The method whose printed noise scales are looked at.")] = "full",
    preset: Preset = "as-run",
    as_json: Json = False,
) -> None:
    """The noise scale to expect beside every one the paper prints for a method."""
    rows = expected.beside(method, preset)
    return print(json.dumps(rows)) if as_json else put("Noise scale, printed and expected", HEADS, map(_cells, rows), _notes(rows))


HEADS = ("table", "model", "data", "distribution", "ε", "printed", "expected", "sd", "printed / expected")


def _cells(row: dict) -> list[str]:
    where = [str(row[axis]) for axis in ("table", "model", "data", "distribution", "epsilon")]
    return [*where, row["printed"], f"{row['expected']:,.0f}", f"{row['sd']:.1f}", f"{row['ratio']:.3f}"]


def _notes(rows: list[dict]) -> list[str]:
    return list(dict.fromkeys(note for row in rows for note in (row["taken"], row["mark"] and f"{row['printed']}: {row['mark']}") if note))


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {"method": recipe.method.name, "rounds": recipe.rounds, "active": recipe.active, **asdict(recipe.method)}
