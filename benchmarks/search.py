"""R and B of LaDP-FL, which the paper does not tell: a search on records held out of the training set.

    python benchmarks/search.py --root DATA --out RUNS --summary benchmarks/results/search-cnn-cifar10.json

Every R and B is played once, as run but for a tenth of the training records, which takes the test set's place. No noise at all would always
win, so what is looked for is the best accuracy among settings that add at least the share of Full DP's noise that the paper prints for LaDP-FL.
"""

import argparse
import json
from pathlib import Path
from time import monotonic

import ladp.tables.ours
from as_run import READ, summary
from ladp import experiment, folder, tables
from ladp.errors import Problem
from ladp.recipe import Recipe, compose, underlay

IMPORTANCE = [0.0, "q0.25", "q0.5", "q0.75", "q0.9"]
BOUND = [1e-12, 1e-7, 3e-7, 1e-6]


def recipe(options: argparse.Namespace, method: dict) -> Recipe:
    run = dict(data="cifar10", root=options.root, model="cnn", rounds=options.rounds, seed=0, precision="auto", evaluate_every=20, validation=0.1)
    return compose(underlay("as-run", {"run": run, "method": method | {"epsilon": options.epsilon}}))


def share(epsilon: float) -> float:
    """LaDP-FL's noise over Full DP's, as printed."""
    scale = lambda method: tables.table.load("noise").entry(**tables.ours.stand("cnn", "cifar10", method, epsilon), quantity="noise_scale").value  # noqa: E731
    return scale("ladp") / scale("full")


def search(options: argparse.Namespace) -> dict:
    """Play the grid, and Full DP beside it, as one computation; what was found and what is chosen."""
    grid = [{"name": "ladp", "importance": importance, "bound": bound} for importance in IMPORTANCE for bound in BOUND]
    plan = {options.out / "-".join(map(str, one.values())): one for one in ({"name": "full"}, *grid)}
    recipes = {where: recipe(options, one) for where, one in plan.items()}
    for where, chosen in recipes.items():
        if not (where / folder.RECIPE).exists():
            experiment.create(chosen, where, READ)
    found = {where: outcome for where, outcome in experiment.convoy(list(plan), monotonic() + options.budget, read=READ)}
    rows = {where: row(where, recipes[where], options.epsilon, found[where]) | {"setting": plan[where]} for where in plan}
    return {"epsilon": options.epsilon, "rounds": options.rounds, "validation": 0.1, **choose(list(rows.values()), share(options.epsilon)), "runs": list(rows.values())}


def row(where: Path, chosen: Recipe, epsilon: float, outcome: dict | Problem) -> dict:
    return {"name": where.name, "stopped": str(outcome)} if isinstance(outcome, Problem) else summary(where, chosen, epsilon, outcome, 0.0)


def choose(rows: list[dict], least: float) -> dict:
    """The setting of LaDP-FL with the best accuracy among those with enough noise."""
    whole = next(one["noise_scale"] for one in rows if one["setting"]["name"] == "full")
    fit = [one for one in rows if one["setting"]["name"] == "ladp" and one.get("noise_scale", 0) >= least * whole]
    best = max(fit, key=lambda one: one["accuracy"])
    return {"least_share_of_noise": least, "chosen": {k: v for k, v in best["setting"].items() if k != "name"}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--budget", type=float, default=600.0)
    parser.add_argument("--summary", type=Path, required=True)
    options = parser.parse_args()
    result = search(options)
    for one in result["runs"]:
        print(f"{one['name']:24} {one.get('accuracy', one.get('stopped'))}  noise {one.get('noise_scale', 0):,.0f}", flush=True)
    print("chosen:", result["chosen"], flush=True)
    folder.put(options.summary, (json.dumps(result, indent=1) + "\n").encode(), "choose another --summary")
