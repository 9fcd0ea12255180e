"""`ladp run` and `ladp resume`."""

import json
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ladp import experiment, folder
from ladp.cli import Stopped
from ladp.errors import Problem
from ladp.recipe import Recipe, compose, overlay, read, underlay

Text, Number, Whole = str | None, float | None, int | None


def option(flag: str, help: str) -> Any:
    """A flag that is None when it is not given, so that presets and files show through."""
    return typer.Option(flag, help=escape(help), show_default=False)


def run(
    method: Annotated[Text, option("--method", "a name of `ladp list methods`, or file.py:Class or package.module:Class of your own")] = None,
    model: Annotated[Text, option("--model", "cnn-small, cnn, resnet18, resnet152, linear, scatter-cnn, or package.module:Class")] = None,
    data: Annotated[Text, option("--data", "digits (embedded), cifar10, cifar100, femnist")] = None,
    root: Annotated[Text, option("--root", "the folder of the data set's files")] = None,
    partition: Annotated[Text, option("--partition", "who holds what: see `ladp list partitions`")] = None,
    clients: Annotated[Whole, option("--clients", "registered clients N [20]")] = None,
    active: Annotated[Whole, option("--active", "clients drawn each round K [5]")] = None,
    rounds: Annotated[Whole, option("--rounds", "rounds T [30]")] = None,
    epsilon: Annotated[Number, option("--epsilon", "epsilon that the method claims for one upload [0.5]")] = None,
    delta: Annotated[Number, option("--delta", "its delta [0.02]")] = None,
    sensitivity: Annotated[Text, option("--sensitivity", "theorem, steps or as-run [as-run]")] = None,
    constant: Annotated[Text, option("--constant", "paper, classical or exact")] = None,
    layers: Annotated[Text, option("--layers", "a layer is a tensor or a module [tensor]")] = None,
    state: Annotated[Text, option("--state", "noise trainable entries or all [trainable]")] = None,
    importance: Annotated[Text, option("--importance", "R of ladp: a number, or a public quantile such as q0.25 [0]")] = None,
    bound: Annotated[Text, option("--bound", "B of ladp: a number, or a public quantile such as q0.05 [1e-7]")] = None,
    epochs: Annotated[Whole, option("--epochs", "local epochs E [2]")] = None,
    batch: Annotated[Whole, option("--batch", "mini-batch size [50]")] = None,
    lr: Annotated[Number, option("--lr", "learning rate eta [0.1]")] = None,
    clip: Annotated[Number, option("--clip", "gradient clip G_c [20]")] = None,
    augment: Annotated[bool | None, typer.Option("--augment/--no-augment", help="random crop and flip", show_default=False)] = None,
    norm: Annotated[Text, option("--norm", "none, batch or group; the model's own by default")] = None,
    seed: Annotated[Whole, option("--seed", "seed of every random number [0]")] = None,
    preset: Annotated[Text, option("--preset", "as-run (the paper's runs) or as-printed (its text); your options go on top")] = None,
    recipe: Annotated[Path | None, option("--recipe", "a recipe in TOML; your options go on top")] = None,
    set_: Annotated[list[str] | None, option("--set", "any other option, as table.name=value, e.g. --set method.kappa=0.02")] = None,
    engine: Annotated[Text, option("--engine", "auto, sequential, parallel, stacked [auto]")] = None,
    device: Annotated[Text, option("--device", "auto, cpu, cuda [auto]")] = None,
    precision: Annotated[Text, option("--precision", "auto, float32, float64, bf16 [auto]")] = None,
    workers: Annotated[Whole, option("--workers", "worker processes of the parallel engine [one a core]")] = None,
    evaluate_every: Annotated[Whole, option("--evaluate-every", "test every so many rounds [1]")] = None,
    out: Annotated[Text, option("--out", "the run's folder [runs/<data>-<model>-<method>-...]")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else on stdout.")] = False,
) -> None:
    """Train one model over many clients with local noise, and write down what it cost and what it bought."""
    given: dict[str, dict[str, Any]] = {
        "run": dict(model=model, data=data, root=root, clients=clients, active=active, rounds=rounds, norm=norm, seed=seed, engine=engine,
                    device=device, precision=precision, workers=workers, evaluate_every=evaluate_every),
        "training": dict(epochs=epochs, batch=batch, lr=lr, clip=clip, augment=augment),
        "method": dict(name=method, epsilon=epsilon, delta=delta, sensitivity=sensitivity, constant=constant, layers=layers, state=state,
                       importance=_number(importance), bound=_number(bound)),
        "partition": dict(name=partition),
    }  # fmt: skip
    chosen = settle(given, set_ or [], preset, recipe)
    default = Path("runs") / "-".join((chosen.data, chosen.model.replace(":", "."), chosen.method.name, f"s{chosen.seed}", chosen.digest[:8]))
    follow(experiment.create(chosen, default if out is None else out), json_)


def resume(
    out: Annotated[Path, typer.Argument(help="The folder of a run that was cut off.")],
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else on stdout.")] = False,
) -> None:
    """Go on with a run that was cut off, to the result it would have had; a finished one is only shown."""
    follow(out, json_)


def settle(given: dict[str, dict[str, Any]], more: list[str], preset: str | None, path: Path | None) -> Recipe:
    """Options over the recipe file over the preset over the defaults."""
    tables = {title: {k: v for k, v in table.items() if v is not None} for title, table in given.items()}
    if given["method"].get("name") == "none":
        for option in ("epsilon", "delta"):  # a script that compares methods may hand these to all of them
            tables["method"].pop(option, None)
    for text in more:
        title, name, value = _assignment(text)
        tables.setdefault(title, {})[name] = value
    tables = overlay(tables, read(path)) if path else tables
    return compose(underlay(preset, tables) if preset else tables)


def _assignment(text: str) -> tuple[str, str, Any]:
    """table.name=value, the value in TOML; a bare word is a string."""
    left, equals, value = text.partition("=")
    title, dot, name = left.strip().partition(".")
    if not (equals and dot):
        raise Problem(f"--set takes table.name=value, got {text!r}")
    try:
        return title, name, tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return title, name, _number(value.strip())


def _number(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def follow(out: Path, json_: bool) -> None:
    """Show a run's rounds as they come, then its result."""
    try:
        with bar(auto_refresh=False) as progress, closing(experiment.play(out)) as records:
            task = progress.add_task("rounds", total=None, news="")
            for record in records:
                total = progress.tasks[0].total or folder.get_json(out / folder.ABOUT)["rounds"]
                progress.update(task, completed=record["round"], total=total, news=_news(record), refresh=True)
    except Stopped as stop:
        stop.add_note(f"every finished round is kept; go on with `ladp resume {out}`")
        raise
    result = {**folder.get_json(out / folder.RESULT), "out": str(out)}
    print(json.dumps(result)) if json_ else _show(result, out)


def bar(**more: Any) -> Progress:
    """How far long work is, on standard error and for people only: a task has a `news` field."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[news]}"), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, disable=not console.is_terminal, **more)


def _news(record: dict[str, Any]) -> str:
    tested = "" if record["accuracy"] is None else f"accuracy {100 * record['accuracy']:.2f} %  "
    return f"{tested}{record['seconds']:.2f} s/round  {record['examples_per_second']:,.0f} examples/s"


def _show(result: dict[str, Any], out: Path) -> None:
    about = folder.get_json(out / folder.ABOUT)
    table = Table(title=f"{about['method']} · {about['model']} · {about['data']} · seed {about['seed']}", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("accuracy", f"{100 * result['accuracy']:.2f} %  after {result['rounds']} rounds")
    table.add_row("loss", "not finite" if result["loss"] is None else f"{result['loss']:.4f}")
    table.add_row("claimed", guarantee(result["claimed"]))
    if spent := result["accumulated"]:
        terms = f"unit record, view all uploads of client {spent['client']}; accountant: the paper's q·T·ε, which proves nothing"
        table.add_row("accumulated", f"ε = {spent['epsilon']:.4g}, δ = {spent['delta']:.4g} ({terms})")
    for view, value in result["views"].items():
        table.add_row(f"certified, {view}", guarantee(value))
    table.add_row("noise scale", f"{result['noise_scale']:,.1f}")
    table.add_row("seconds", f"{result['seconds']:.1f}")
    table.add_row("digest", result["digest"])
    table.add_row("folder", str(out))
    Console().print(table)


def guarantee(value: dict[str, Any] | None) -> str:
    """An epsilon never stands without its unit, view, delta and accountant."""
    if value is None:
        return "nothing"
    epsilon = "∞" if value["epsilon"] == "inf" else f"{value['epsilon']:g}"
    delta = "" if value["delta"] is None else f", δ = {value['delta']:g}"
    why = "".join(f"\n  · {reason}" for reason in value["reasons"])
    return f"ε = {epsilon}{delta} (unit {value['unit']}, view {value['view']}; accountant: {value['accountant']}){why}"
