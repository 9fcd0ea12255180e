"""What our runs measured, put where the paper's figures stand and in its units."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from ladp.errors import Problem
from ladp.privacy.mechanism import Training
from ladp.recipe import PRESETS
from ladp.report import number
from ladp.report.configuration import Configuration, flat, gather
from ladp.report.runs import Run
from ladp.tables.table import Place, place

DISTRIBUTIONS = {"isolation": "general", "isolation-overlap": "general", "labels": "I", "quantity": "II"}  # our partitions by the paper's names
PAPER = {"run.validation": 0.0, "method.form": "as-run"} | flat({"training": asdict(Training())}) | flat(PRESETS["as-run"])
PAPER = {name: value for name, value in PAPER.items() if name not in ("method.importance", "method.bound", "method.floor")}
LAST = 5  # rounds that the paper's p-values are computed on
SCALES = {"accuracy": 100.0}  # what we keep as a share and the paper prints in per cent


@dataclass(frozen=True)
class Ours:
    """One configuration: where it stands, what each of its runs measured in the end and in its last rounds, and where it is not the paper's setting."""

    label: str
    where: Place
    values: Mapping[str, tuple[float, ...]]
    last: Mapping[str, tuple[float, ...]]
    remarks: tuple[str, ...]


def read(paths: Iterable[Path | str]) -> list[Ours]:
    """All finished runs under `paths`: run folders, folders that hold some, and summaries (.json) of runs."""
    paths = list(map(Path, paths))
    folders, summaries = [p for p in paths if p.suffix != ".json"], [p for p in paths if p.suffix == ".json"]
    found = [one for configuration in (gather(folders) if folders else ()) if (one := _configuration(configuration))]
    found += [one for path in summaries for one in _summary(path)]
    if not found:
        raise Problem(f"no finished run under {', '.join(map(str, paths)) or 'no path'}: finish one with `ladp resume`, or name another folder")
    return found


def cells(measured: Sequence[Ours]) -> dict[frozenset, float]:
    """The mean over runs by place; where two configurations stand at one place neither counts, as no rate could say which it is about."""
    values, twice = {}, set()
    for one in measured:
        for quantity, found in one.values.items():
            at = place({**one.where, "quantity": quantity})
            twice |= {at} & values.keys()
            values[at] = fmean(found)
    return {at: value for at, value in values.items() if at not in twice}


def stand(model: str, data: str, method: str, epsilon: float | None, distribution: str = "general") -> Place:
    """A place in the paper's tables."""
    return {"model": model, "data": data, "method": method, "epsilon": epsilon, "distribution": distribution}


def _configuration(one: Configuration) -> Ours | None:
    runs = [run for run in one.runs if run.finished]
    if not runs:
        return None
    recipe = runs[0].recipe
    partition = recipe.get("partition", {}).get("name", "isolation")
    where = stand(recipe["run"]["model"], recipe["run"]["data"], one.method, recipe["method"].get("epsilon"), DISTRIBUTIONS.get(partition, partition))
    values = {"accuracy": [run.final("accuracy") for run in runs], "noise_scale": [run.total("noise_scale") for run in runs], "seconds": [run.total("seconds") for run in runs]}
    last = {quantity: tuple(value for run in runs for value in _last(run, quantity)) for quantity in ("accuracy", "noise_scale", "accumulated")}
    return Ours(one.label, where, _scaled(values), last, (*one.remarks, *_unlike(recipe)))


def _last(run: Run, quantity: str) -> list[float]:
    """The last five values that the rounds of a run have of it."""
    found = (record["accumulated"] and record["accumulated"]["epsilon"] if quantity == "accumulated" else record.get(quantity) for record in run.rounds)
    return [value * SCALES.get(quantity, 1.0) for value in found if value is not None][-LAST:]


def _scaled(values: Mapping[str, Sequence[float | None]]) -> dict[str, tuple[float, ...]]:
    """Numbers only, in the paper's units; what no run has is left out."""
    kept = {quantity: tuple(value * SCALES.get(quantity, 1.0) for value in found if number.read(value) is not None) for quantity, found in values.items()}
    return {quantity: found for quantity, found in kept.items() if found}


def _unlike(recipe: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Where a run is not set up as the paper's were; what the paper does not tell (R, B) is no difference."""
    mine = flat(dict(recipe))
    if DISTRIBUTIONS.get(str(mine.get("partition.name"))) in ("I", "II"):
        mine.pop("partition.name")  # a setting of the paper's too
    return [f"{name} {mine[name]}, the paper's {value}" for name, value in PAPER.items() if mine.get(name, value) != value]


def _summary(path: Path) -> list[Ours]:
    """A summary of runs: {model, data, runs: [{method, epsilon, seed, rounds, accuracy in per cent, noise_scale, training_seconds}]}."""
    try:
        summary = json.loads(path.read_text("utf-8"))
        runs = [run for run in summary["runs"] if "stopped" not in run]
        groups: dict[tuple, list[dict]] = {}
        for run in runs:
            groups.setdefault((run["method"], run["epsilon"], run.get("precision"), run["rounds"]), []).append(run)
        return [_group(summary, *key, group) for key, group in groups.items()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{path} is not a summary of runs ({type(error).__name__}: {error}): name a run folder, or what a benchmark wrote") from error


def _group(summary: dict, method: str, epsilon: float | None, precision: str | None, rounds: int, runs: list[dict]) -> Ours:
    label = " ".join(str(part) for part in (method, epsilon and f"ε {epsilon:g}", precision) if part)
    values = {"accuracy": [run["accuracy"] / 100 for run in runs], "noise_scale": [run["noise_scale"] for run in runs], "seconds": [run["training_seconds"] for run in runs]}
    return Ours(label, stand(summary["model"], summary["data"], method, epsilon), _scaled(values), {}, tuple(_unlike({"run": {"rounds": rounds}})))
