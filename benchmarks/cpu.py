"""Seconds a round on a CPU: ladp's engines beside a plain PyTorch loop, pfl-research and Flower, in turns in one run.

    python benchmarks/cpu.py --pfl ENV/bin/python --flower ENV/bin/python --out benchmarks/results/cpu.json

README.md beside this file says how to make the peers' environments and what the numbers mean. Every pass runs one round of every
candidate, in a new order each time; while one works, the others wait for the word. Without --pfl or --flower those are left out.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from ladp import data

HERE = Path(__file__).parent
ARRAYS = ("images", "labels", "test_images", "test_labels")
WARM = 2  # rounds of each candidate that are not counted


class Candidate:
    """A program that runs a round at each word and says how long it took."""

    def __init__(self, name: str, *command: object):
        self.name, self.rounds, self.errors = name, [], tempfile.TemporaryFile("w+")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([str(part) for part in command], stdin=pipe, stdout=pipe, stderr=self.errors, text=True, cwd=HERE)
        self.about = self.hear()

    def say(self, word: str) -> dict:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> dict:
        if line := self.process.stdout.readline():
            return json.loads(line)
        self.errors.seek(0)
        raise SystemExit(f"{self.name} stopped with exit code {self.process.wait()}:\n{self.errors.read()}")

    def finish(self) -> None:
        self.about |= self.say("end")
        self.process.communicate()

    def __enter__(self) -> "Candidate":
        return self

    def __exit__(self, *error) -> None:
        self.process.kill()

    def summary(self, rod: list[float]) -> dict:
        """Seconds a round with their spread, and how many times as fast as the rod in the same pass."""
        seconds = [r["seconds"] for r in self.rounds[WARM:]]
        shares = [r["share"] for r in self.rounds[WARM:] if "share" in r]
        extra = {"noise_KL_and_mean_share": round(median(shares), 4)} if shares else {}
        times = spread([theirs / ours for theirs, ours in zip(rod, seconds)])
        return {**self.about, **extra, "seconds": spread(seconds), "times_as_fast_as_the_loop": times, "rounds": [round(s, 4) for s in seconds]}


def spread(values: list[float]) -> dict[str, float]:
    low, _, high = quantiles(values, n=4)
    return {k: round(v, 4) for k, v in dict(median=median(values), low_quartile=low, high_quartile=high, least=min(values), most=max(values)).items()}


def candidates(options: argparse.Namespace, root: str, cores: int) -> dict[str, tuple]:
    """Name: command. The loop runs as torch does by itself (all cores) and on one core; pfl on one process and on as many as there are cores."""
    here, peers = sys.executable, HERE / "peers"
    table = {"loop": (here, peers / "loop.py", root), "loop, one thread": (here, peers / "loop.py", root, 1)}
    if options.pfl:
        table |= {f"pfl, processes {n}": (options.pfl, peers / "pfl_research.py", root, n, options.port) for n in sorted({1, cores})}
    if options.flower:
        table["flower"] = (options.flower, peers / "flower.py", root, cores)
    for engine, workers in (("sequential", 1), ("parallel", cores)):
        table |= {f"ladp {engine}, {method}": (here, HERE / "ours.py", root, method, engine, "float32", workers) for method in ("none", "full", "ladp")}
    table["ladp parallel, full, bf16"] = (here, HERE / "ours.py", root, "full", "parallel", "bf16", cores)
    return {name: command for name, command in table.items() if not options.only or any(part in name for part in options.only)}


def measure(commands: dict[str, tuple], passes: int) -> list[Candidate]:
    with ExitStack() as stack:
        running = [stack.enter_context(Candidate(name, *command)) for name, command in commands.items()]
        for number in range(WARM + passes):
            for candidate in random.Random(number).sample(running, len(running)):
                candidate.rounds.append(candidate.say("round"))
            print(f"pass {number - WARM + 1}: " + "  ".join(f"{c.name} {c.rounds[-1]['seconds']:.2f}" for c in running), file=sys.stderr, flush=True)
        for candidate in running:
            candidate.finish()
    return running


def store(options: argparse.Namespace, root: Path) -> str:
    """The arrays for all candidates: CIFAR-10, or bytes of its size: ten coarse pictures, each record one of them under three times as much noise."""
    if options.root:
        dataset = data.load("cifar10", options.root)
        arrays, name = [getattr(dataset, part).numpy() for part in ARRAYS], "CIFAR-10"
    else:
        random, name = np.random.default_rng(0), "synthetic bytes"
        pictures = random.integers(0, 256, (10, 3, 8, 8), np.uint8).repeat(4, 2).repeat(4, 3)
        labels, test = (random.integers(0, 10, n) for n in (50_000, 10_000))
        arrays = [part for y in (labels, test) for part in (noisy(random, pictures, y), y)]
    for part, array in zip(ARRAYS, arrays):
        np.save(root / f"{part}.npy", array)
    return name


def noisy(random: np.random.Generator, pictures: np.ndarray, labels: np.ndarray) -> np.ndarray:
    noise = random.integers(0, 256, (len(labels), 3, 32, 32), np.uint8)
    return (pictures[labels] // 4 + 3 * (noise // 4)).astype(np.uint8)


def machine(cores: int) -> dict:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    return {"device": "cpu", "processor": model, "cores": cores, "system": platform.platform(), "python": platform.python_version()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pfl", help="Python of an environment with pfl 0.6")
    parser.add_argument("--flower", help="Python of an environment with flwr and ray")
    parser.add_argument("--root", help="directory with CIFAR-10; without it the images are synthetic")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--only", nargs="+", help="candidates whose name holds one of these")
    parser.add_argument("--port", type=int, default=29511, help="for pfl's processes")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cores, before, began = len(os.sched_getaffinity(0)), os.getloadavg(), datetime.now(timezone.utc)
    with tempfile.TemporaryDirectory() as root:
        name = store(options, Path(root))
        running = measure(candidates(options, root, cores), options.passes)
    rods = [c for c in running if c.name.startswith("loop")]
    rod = min(([r["seconds"] for r in c.rounds[WARM:]] for c in rods), key=median)
    result = {
        "work": "10 of 100 clients x 500 images 3x32x32, 2 epochs, batch 50, SGD .1, clip 20, noise on each client's weights, mean; CNN, 541,094 weights",
        "data": name, "passes": options.passes, "date": began.isoformat(timespec="seconds"), **machine(cores),
        "load_before": before, "load_after": os.getloadavg(), "rod": next(c.name for c in rods if [r["seconds"] for r in c.rounds[WARM:]] == rod),
        "candidates": {c.name: c.summary(rod) for c in running},
    }  # fmt: skip
    text = json.dumps(result, indent=1) + "\n"
    print(table(result["candidates"]))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


def table(found: dict[str, dict]) -> str:
    lines = [f"{'':28} {'median':>8} {'quartiles':>15} {'x loop':>7} {'noise, KL, mean':>16} {'accuracy':>9}"]
    for name, c in found.items():
        s, share = c["seconds"], c.get("noise_KL_and_mean_share")
        quartiles = f"{s['low_quartile']:.3f} to {s['high_quartile']:.3f}"
        lines.append(f"{name:28} {s['median']:8.3f} {quartiles:>15} {c['times_as_fast_as_the_loop']['median']:7.2f} {f'{share:.1%}' if share else '':>16} {c['accuracy']:9.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
