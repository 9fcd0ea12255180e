"""The paper's runs again, with its own preset, on real CIFAR-10: accuracy, noise and time of each, beside the paper's printed accuracy.

    python benchmarks/as_run.py --root DATA --out RUNS --model cnn --methods none full ladp --epsilons 0.2 0.5

Every run is a run folder under --out and goes on where it was cut off; the summary (JSON) holds each one's recipe digest, seed,
versions, device, accuracy by round and seconds. Nothing in it is typed in but the paper's own figures.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import torch

from ladp import experiment, folder
from ladp.errors import Problem
from ladp.recipe import compose, underlay

PRINTED = {  # test accuracy in per cent, from the paper's tables of accuracy: {(model, method): {epsilon: accuracy}}
    ("cnn", "full"): {0.2: 10.00, 0.3: 38.15, 0.4: 50.75, 0.5: 63.19},
    ("cnn", "ladp"): {0.2: 38.81, 0.3: 52.13, 0.4: 68.93, 0.5: 75.36},
    ("resnet18", "full"): {0.2: 58.35, 0.3: 58.58, 0.4: 60.71, 0.5: 70.59},
    ("resnet18", "ladp"): {0.2: 77.82, 0.3: 82.29, 0.4: 87.12, 0.5: 90.06},
}


def recipe(options: argparse.Namespace, method: str, epsilon: float | None, precision: str, seed: int):
    tables = {
        "run": dict(data="cifar10", root=options.root, model=options.model, rounds=options.rounds, seed=seed, precision=precision,
                    evaluate_every=options.evaluate_every),
        "method": {"name": method} | ({} if epsilon is None else {"epsilon": epsilon}),
    }  # fmt: skip
    return compose(underlay("as-run", tables))


def work(options: argparse.Namespace) -> list[dict]:
    plan = [(m, e, p, s) for p in options.precisions for s in options.seeds for m in options.methods for e in ([None] if m == "none" else options.epsilons)]
    with ThreadPoolExecutor(options.together) as pool:
        return list(pool.map(lambda one: play(options, *one), plan))


def play(options: argparse.Namespace, method: str, epsilon: float | None, precision: str, seed: int) -> dict:
    name = "-".join(map(str, filter(None, (options.model, method, epsilon and f"e{epsilon:g}", precision, f"s{seed}"))))
    chosen, where, began = recipe(options, method, epsilon, precision, seed), options.out / name, time.perf_counter()
    try:
        with torch.cuda.stream(torch.cuda.Stream()) if torch.cuda.is_available() else nullcontext():
            result = experiment.finish(where if (where / folder.RECIPE).exists() else experiment.create(chosen, where))
        row = summary(where, chosen, epsilon, result, time.perf_counter() - began)
    except Problem as problem:
        row = dict(name=name, method=method, epsilon=epsilon, precision=precision, seed=seed, stopped=str(problem))
    print(line(options.model, row), flush=True)
    return row


def summary(where: Path, chosen, epsilon: float | None, result: dict, wall: float) -> dict:
    about = folder.get_json(where / folder.ABOUT)
    records = [json.loads(text) for text in (where / folder.ROUNDS).read_text().splitlines()]
    curve = {r["round"]: round(100 * r["accuracy"], 2) for r in records if r["accuracy"] is not None}
    kept = ("version", "torch", "device", "engine", "precision")
    return dict(
        name=where.name, method=chosen.method.name, epsilon=epsilon, seed=chosen.seed, rounds=result["rounds"], recipe=chosen.digest,
        accuracy=round(100 * result["accuracy"], 2), noise_scale=result["noise_scale"], training_seconds=round(result["seconds"], 2),
        wall_seconds=round(wall, 2), median_round=sorted(r["seconds"] for r in records)[len(records) // 2],
        divergence={k: v for k, v in records[-1]["KL"].items()} if records[-1]["KL"] else None, curve=curve, **{k: about[k] for k in kept},
    )  # fmt: skip


def line(model: str, row: dict) -> str:
    if "stopped" in row:
        return f"{row['name']:36} stopped: {row['stopped']}"
    printed = PRINTED.get((model, row["method"]), {}).get(row["epsilon"])
    return f"{row['name']:36} accuracy {row['accuracy']:6.2f}  printed {printed or '-'}  noise {row['noise_scale']:,.0f}  {row['wall_seconds']:.1f} s"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--methods", nargs="+", default=["none", "full", "ladp"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.2, 0.3, 0.4, 0.5])
    parser.add_argument("--precisions", nargs="+", default=["bf16"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--evaluate-every", type=int, default=20)
    parser.add_argument("--together", type=int, default=1, help="runs at once on one device")
    parser.add_argument("--summary", type=Path)
    options = parser.parse_args()
    rows = work(options)
    if options.summary:
        options.summary.write_text(json.dumps(dict(model=options.model, data="cifar10", preset="as-run", printed=[[*k, v] for k, v in PRINTED.items()], runs=rows), indent=1) + "\n")
