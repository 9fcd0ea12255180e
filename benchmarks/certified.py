"""What certified privacy costs, unit record, delta 1e-5: on CIFAR-10 with 100 clients of 500 records each and whitened scattering features, to peers and to the server;
and whether noise by layer is worth anything, on the digits with a network of several layers.

    python benchmarks/certified.py search --root DATA --out RUNS --case peer --epsilons 1 3 8 --summary results/search-certified.json
    python benchmarks/certified.py runs --root DATA --out RUNS --case peer --epsilons 1 3 8 --seeds 0 1 2 --search results/search-certified.json --summary results/certified-peer.json

`search` plays every setting of a case once, seed 0, on nine tenths of the training records, and takes the learning rate and the number of rounds that are best on
the tenth that is held out. `runs` plays what was chosen on all training records and tests on the test set; --methods adds rivals under the same budget with the same
settings. Every run is a run folder and goes on where it was cut off; a summary holds each one's recipe, seed, versions, device, accuracy by round, z, and what is certified
in every view. Settings were searched for on records of the same training set: the number of runs is in the summary, their privacy is in no epsilon.
"""

import argparse
import json
from functools import cache
from pathlib import Path

from ladp import data, experiment, folder
from ladp.recipe import Recipe, compose, dump

READ = cache(data.load)
RUN = dict(mean="equal", evaluate_every=10, precision="float32")
CIFAR = dict(data="cifar10", features="whitened", clients=100, active=100, model="linear", engine="stacked")
DIGITS = dict(data="digits", clients=20, active=20, model="cnn-small", norm="none", engine="sequential")
CASES = {  # who looks, at what, and the grid that is searched
    "peer": dict(view="peer", run=CIFAR, grid=dict(rounds=[100], rate=[0.25], lr=[0.5, 0.8])),
    "server": dict(view="server", run=CIFAR, grid=dict(rounds=[100], rate=[0.25], lr=[0.06, 0.1])),
    "layers": dict(view="peer", run=DIGITS, grid=dict(rounds=[100], rate=[0.2], lr=[0.05, 0.1, 0.2, 0.4, 0.8])),
}
METHODS = {  # rivals under the same budget
    "certified": {"name": "certified"},
    **{f"certified-{share}": {"name": "certified", "share_by": share} for share in ("size", "update", "divergence", "curvature")},
    "full": {"name": "full"},
    "time-varying": {"name": "time-varying"},
    "dpa": {"name": "dpa"},
    "sensitive": {"name": "sensitive", "beta": 0.0},
}


def recipe(options: argparse.Namespace, epsilon: float, setting: dict, seed: int, method: str = "certified", validation: float = 0.0) -> Recipe:
    case = CASES[options.case]
    return compose({
        "run": {**RUN, **case["run"], "root": options.root, "rounds": setting["rounds"], "seed": seed, "validation": validation},
        "partition": {"name": "iid"},
        "training": {"lr": setting["lr"]},
        "method": METHODS[method],
        "server": {"optimiser": "momentum", "average": 0.95},
        "budget": {"epsilon": epsilon, "delta": 1e-5, "unit": "record", "view": case["view"], "rate": setting["rate"]},
    })  # fmt: skip


def play(options: argparse.Namespace, name: str, chosen: Recipe) -> dict:
    """A run, or what is left of it, and its line of the summary."""
    where = options.out / name
    if not (where / folder.RECIPE).exists():
        experiment.create(chosen, where, READ)
    result, about = experiment.finish(where, read=READ), folder.get_json(where / folder.ABOUT)
    rounds = [json.loads(line) for line in (where / folder.ROUNDS).read_text().splitlines()]
    row = {
        "name": name, "recipe": chosen.digest, "seed": chosen.seed, "method": chosen.method.name, "accuracy": result["accuracy"],
        "by_round": {r["round"]: r["accuracy"] for r in rounds if r["accuracy"] is not None}, "seconds": result["seconds"],
        "multiplier": rounds[0]["multipliers"][0], "views": result["views"], **{key: about[key] for key in ("version", "torch", "device", "precision")},
    }  # fmt: skip
    print(f"{name:44} {100 * row['accuracy']:.2f} %  z {row['multiplier']:.3f}  {row['seconds']:.0f} s", flush=True)
    return row


def search(options: argparse.Namespace) -> None:
    """Every setting of the grid once for each epsilon, on held-out records."""
    grid = CASES[options.case]["grid"]
    settings = [dict(rounds=rounds, rate=rate, lr=lr) for rounds in grid["rounds"] for rate in grid["rate"] for lr in options.lr or grid["lr"]]
    known = json.loads(options.summary.read_text()) if options.summary.exists() else {}
    for epsilon in options.epsilons:
        key = f"{options.case} {epsilon:g}"
        tried = {json.dumps(row["setting"]): row for row in known.get(key, {}).get("tried", [])}
        for setting in settings:
            name = f"search-{options.case}-e{epsilon:g}-T{setting['rounds']}-q{setting['rate']:g}-lr{setting['lr']:g}"
            tried[json.dumps(setting)] = {"setting": setting, **play(options, name, recipe(options, epsilon, setting, 0, validation=0.1))}
        best = max(tried.values(), key=lambda row: row["accuracy"])
        known[key] = {"chosen": best["setting"], "validation_accuracy": best["accuracy"], "tried": list(tried.values())}
        folder.put(options.summary, (json.dumps(known, indent=1) + "\n").encode(), "choose another --summary")


def runs(options: argparse.Namespace) -> None:
    """What was chosen, on all training records, for every epsilon, method and seed."""
    found, searched = [], json.loads(options.search.read_text())
    for epsilon in options.epsilons:
        entry = searched[f"{options.case} {epsilon:g}"]
        for seed in options.seeds:
            for method in options.methods:
                chosen = recipe(options, epsilon, entry["chosen"], seed, method)
                row = play(options, f"{options.case}-{method}-e{epsilon:g}-s{seed}", chosen)
                found.append({"label": method, "epsilon": epsilon, "setting": entry["chosen"], "searched": len(entry["tried"]), **row})
                write(options, found)
                keep(options, chosen, method, epsilon)


def keep(options: argparse.Namespace, chosen: Recipe, method: str, epsilon: float) -> None:
    """The recipe of seed 0, without the place of its data."""
    if chosen.seed == 0:
        path = options.summary.parent / "recipes" / options.summary.stem / f"{method}-e{epsilon:g}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = dump(chosen).splitlines(keepends=True)
        folder.put(path, "".join(line for line in lines if not line.startswith("root =")).encode(), "choose another --summary")


def write(options: argparse.Namespace, found: list[dict]) -> None:
    folder.put(options.summary, (json.dumps({"case": options.case, "runs": found}, indent=1) + "\n").encode(), "choose another --summary")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "runs"))
    parser.add_argument("--root", help="the files of CIFAR-10")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--case", choices=list(CASES), required=True)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--lr", type=float, nargs="+", help="in place of those of the grid")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", choices=list(METHODS), nargs="+", default=["certified"])
    parser.add_argument("--search", type=Path, help="the summary of the search")
    parser.add_argument("--summary", type=Path, required=True)
    options = parser.parse_args()
    search(options) if options.what == "search" else runs(options)
