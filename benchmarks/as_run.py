"""The paper's runs again, with its own preset, on real CIFAR-10: accuracy, noise and time of each, beside the paper's printed accuracy.

    python benchmarks/as_run.py --root DATA --out RUNS --model cnn --seeds 0 1 2 --together 25 --budget 540 --ladp results/search-cnn-cifar10.json --summary FILE

Every run is a run folder under --out and goes on where it was cut off; --together runs at a time are trained as one computation. The
summary (JSON, written again after each run) holds each one's recipe digest, seed, versions, device, accuracy by round and seconds; the
seconds of runs that went together are those of all of them. Nothing in it is typed in but the paper's own figures.
"""

import argparse
import json
from functools import cache
from math import inf
from pathlib import Path
from statistics import median
from time import monotonic

import ladp.tables.ours
from ladp import data, experiment, folder, tables
from ladp.errors import Problem
from ladp.mechanisms import METHODS
from ladp.recipe import Recipe, compose, load, underlay

READ = cache(data.load)
experiment.CHECKPOINT_SECONDS = 60.0  # many runs at once write many checkpoints
START, SPARE = 20.0, 1.2  # seconds until the first round of a convoy; evaluation and checkpoints beside the rounds


def recipe(options: argparse.Namespace, method: str, epsilon: float | None, precision: str, seed: int) -> Recipe:
    tables = {
        "run": dict(data="cifar10", root=options.root, model=options.model, rounds=options.rounds, seed=seed, precision=precision,
                    evaluate_every=options.evaluate_every),
        "method": {"name": method} | ({} if epsilon is None else {"epsilon": epsilon}) | (options.chosen if method == "ladp" else {}),
    }  # fmt: skip
    return compose(underlay("as-run", tables))


def work(options: argparse.Namespace) -> None:
    """All that was asked for, a convoy at a time, for as long as it can be expected to end within the budget."""
    until, plan = monotonic() + options.budget, place(options)
    rows = {where.name: row for where in plan if (row := earlier(options, where, plan[where][0]))}
    left, need = [where for where in plan if where.name not in rows], 0.0
    for at in range(0, len(left), options.together):
        batch = left[at : at + options.together]
        if monotonic() + (need := expect(batch, left[max(0, at - options.together) : at], options.rounds)) > until:
            print(f"{len(left) - at} runs are left: {need:.0f} s would be needed for the next {len(batch)}, and {until - monotonic():.0f} s are there", flush=True)
            break
        together(options, plan, batch, rows, until)
    write(options, plan, rows)


def place(options: argparse.Namespace) -> dict[Path, tuple[Recipe, float | None]]:
    """The folder of each run, made if it is not there, with the recipe and epsilon."""
    asked = [(m, e, p, s) for p in options.precisions for s in options.seeds for m in options.methods for e in ([None] if m == "none" else options.epsilons)]
    plan = {}
    for method, epsilon, precision, seed in asked:
        chosen = recipe(options, method, epsilon, precision, seed)
        where = options.out / "-".join(map(str, filter(None, (options.model, method, epsilon and f"e{epsilon:g}", precision, f"s{seed}"))))
        plan[where] = chosen, epsilon
        if not (where / folder.RECIPE).exists():
            experiment.create(chosen, where, READ)
        elif load(where / folder.RECIPE).digest != chosen.digest:
            raise Problem(f"{where} holds a run of another recipe: choose another --out")
    return plan


def earlier(options: argparse.Namespace, where: Path, chosen: Recipe) -> dict | None:
    """The row of a run that had ended before, from the summary written then."""
    if not options.summary or not options.summary.exists() or not (where / folder.RESULT).exists():
        return None
    rows = json.loads(options.summary.read_text())["runs"]
    return next((row for row in rows if row["name"] == where.name and row.get("recipe") == chosen.digest and "accuracy" in row), None)


def expect(batch: list[Path], before: list[Path], rounds: int) -> float:
    """Seconds that a convoy will take, by the rounds of the one before or by its own earlier ones; 0 if there are none."""
    for known in (before, batch):
        seconds = [r["seconds"] for where in known for r in records(where)[-50:]]
        if seconds:
            most = max(rounds - len(records(where)) for where in batch)
            return START + SPARE * most * median(seconds) * len(batch) / len(known)
    return 0.0


def records(where: Path) -> list[dict]:
    """The rounds of a folder; a torn last line is none."""
    lines = (where / folder.ROUNDS).read_text().splitlines() if (where / folder.ROUNDS).exists() else []
    return [json.loads(text) for text in lines if text.endswith("}")]


def together(options: argparse.Namespace, plan: dict, batch: list[Path], rows: dict[str, dict], until: float) -> None:
    """Play a convoy to its end; each run has its line, and the summary its row, as soon as it has ended."""
    began = monotonic()
    for where, outcome in experiment.convoy(batch, until, options.abreast, READ):
        chosen, epsilon = plan[where]
        if isinstance(outcome, Problem):
            rows[where.name] = dict(name=where.name, method=chosen.method.name, epsilon=epsilon, precision=chosen.precision, seed=chosen.seed, stopped=str(outcome))
        else:
            rows[where.name] = summary(where, chosen, epsilon, outcome, monotonic() - began) | dict(together=len(batch))
        print(line(options.model, rows[where.name]), flush=True)
        write(options, plan, rows)


def write(options: argparse.Namespace, plan: dict, rows: dict[str, dict]) -> None:
    """The summary of all that has ended."""
    if options.summary:
        about = dict(model=options.model, data="cifar10", preset="as-run", chosen=options.chosen)
        ended = [rows[where.name] for where in plan if where.name in rows]
        folder.put(options.summary, (json.dumps(about | {"runs": ended}, indent=1) + "\n").encode(), "choose another --summary")


def summary(where: Path, chosen: Recipe, epsilon: float | None, result: dict, wall: float) -> dict:
    about, rounds = folder.get_json(where / folder.ABOUT), records(where)
    curve = {r["round"]: round(100 * r["accuracy"], 2) for r in rounds if r["accuracy"] is not None}
    kept = ("version", "torch", "device", "engine", "precision")
    return dict(
        name=where.name, method=chosen.method.name, epsilon=epsilon, seed=chosen.seed, rounds=result["rounds"], recipe=chosen.digest,
        accuracy=round(100 * result["accuracy"], 2), noise_scale=result["noise_scale"], training_seconds=round(result["seconds"], 2),
        wall_seconds=round(wall, 2), median_round=median(r["seconds"] for r in rounds),
        divergence=rounds[-1]["KL"], curve=curve, **{k: about[k] for k in kept},
    )  # fmt: skip


def printed(model: str, row: dict) -> float | None:
    """The accuracy that the paper prints for this model, method and epsilon."""
    found = tables.table.load("accuracy").find(**tables.ours.stand(model, "cifar10", row["method"], row["epsilon"]), quantity="accuracy")
    return found[0].value if found else None


def line(model: str, row: dict) -> str:
    if "stopped" in row:
        return f"{row['name']:36} stopped: {row['stopped']}"
    return f"{row['name']:36} accuracy {row['accuracy']:6.2f}  printed {printed(model, row) or '-'}  noise {row['noise_scale']:,.0f}  {row['wall_seconds']:.1f} s"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.2, 0.3, 0.4, 0.5])
    parser.add_argument("--precisions", nargs="+", default=["bf16"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--evaluate-every", type=int, default=20)
    parser.add_argument("--together", type=int, default=1, help="runs trained as one computation")
    parser.add_argument("--abreast", type=int, default=1, help="computations at once: the runs of one train while those of another write")
    parser.add_argument("--budget", type=float, default=inf, help="seconds after which no round begins, and no convoy that would not end before")
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--ladp", type=Path, help="what benchmarks/search.py wrote: its choice of R and B is LaDP's")
    options = parser.parse_args()
    options.chosen = json.loads(options.ladp.read_text())["chosen"] if options.ladp else {}
    work(options)
