"""Seconds for a thousand examples of record-level training, beside plain training of the same model and Opacus, taking turns.

    OMP_NUM_THREADS=1 python benchmarks/records.py --out benchmarks/results/records-cpu.json
    python benchmarks/records.py --device cuda --out benchmarks/results/records-cuda.json

The paper's CNN (541,094 weights), 10 clients x 500 images 3x32x32. `m = 20`: every client takes 20 steps with weights of its own, each on a Poisson sample of its
records (rate .1), which are 2 epochs in expectation; a step is clipped gradients, their sum, and the move of the weights. `m = 1`: the clients' samples are one
computation with one set of weights, 20 rounds. Plain training is `ladp.training.local.train`: 2 epochs, batch 50. Nobody adds noise. Images are random bytes:
nothing here depends on what they show. On a CPU everything has one thread, and seconds are those of the
processor, not of the clock. A candidate that cannot run here is left out, and said to be.
"""

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp import models
from ladp.keys import Key
from ladp.params import Layout
from ladp.privacy.mechanism import Training
from ladp.training.local import Schedule, normalise, take, train
from ladp.training.parallel import _settle
from ladp.training.quick import quicken
from ladp.training.records import Geometry, clipped_sums, stacked_step
from ladp.training.records.manner import _TRIED, choose, plainly
from ladp.training.records.sampling import sample
from ladp.version import VERSION

CLIENTS, HELD, STEPS, RATE, LR, CLIP = 10, 500, 20, 0.1, 0.1, 1.0


class Bench:
    """The clients' records on the device, a model, and which records each client's steps meet."""

    def __init__(self, device: str, quick: bool = True):
        self.device, key = torch.device(device), Key(0)
        with key.at("model").reign():
            model = models.create("cnn").to(self.device, memory_format=torch.channels_last)
        self.model = quicken(model) if quick else model
        bytes_ = torch.randint(256, (CLIENTS * HELD, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        self.images = normalise(bytes_.to(self.device))
        self.labels = torch.randint(10, (CLIENTS * HELD,), generator=torch.Generator().manual_seed(1)).to(self.device)
        self.layout = Layout.of(self.model)
        self.layers = self.layout.layers()
        self.scales = torch.full((CLIENTS, len(self.layers)), CLIP)
        self.drawn = [[torch.from_numpy(sample(key.at(k, step), HELD, RATE) + k * HELD) for k in range(CLIENTS)] for step in range(STEPS)]

    def of(self, picked: Tensor) -> tuple[Tensor, Tensor]:
        picked = picked.to(self.device)
        return take(self.images, picked), self.labels[picked]

    def move(self, parameters: list[Tensor], row: Tensor) -> None:
        views = self.layout.views(row)
        with torch.no_grad():
            torch._foreach_add_(parameters, [views[e.name] for e in self.layout.entries], alpha=-LR / (RATE * HELD))

    def steps(self, clients: int) -> list[Tensor]:
        return [self.drawn[step][k] for k in range(clients) for step in range(STEPS)]


def plain(device: str, clients: int) -> Callable[[], int]:
    """Non-private local training, as the plain engine does it."""
    bench = Bench(device)
    schedules = [Schedule.draw(Key(0), 1, k, HELD, Training()) for k in range(clients)]

    def work() -> int:
        for k, schedule in enumerate(schedules):
            part = slice(k * HELD, (k + 1) * HELD)
            train(bench.model, bench.images[part], bench.labels[part], schedule, Training())
        return 2 * HELD * clients

    return work


def alone(device: str, clients: int, slowly: bool = False) -> Callable[[], int]:
    """m = 20 as a CPU engine does it: one client after the other."""
    bench = Bench(device)
    parameters = list(bench.model.parameters())
    if slowly:
        one_by_one(bench)

    def work() -> int:
        for picked in bench.steps(clients):
            x, y = bench.of(picked)
            rows, _ = clipped_sums(bench.model, x, y, torch.zeros(len(y), dtype=torch.int64), 1, bench.layout, bench.layers, bench.scales[:1])
            bench.move(parameters, rows[0])
        return sum(map(len, bench.steps(clients)))

    return work


def one_by_one(bench: Bench) -> None:
    """Have the records of this model read by the specification."""
    choose(bench.model, bench.images)
    _TRIED[bench.model] = dict.fromkeys(_TRIED[bench.model], plainly(bench.model, bench.images[:1]))


def shared(device: str, clients: int, bf16: bool = False) -> Callable[[], int]:
    """m = 1: the samples of all clients as one computation, summed by client."""
    bench = Bench(device)
    parameters, scales = list(bench.model.parameters()), bench.scales[:clients]
    rounds = [(torch.cat(drawn[:clients]), torch.cat([torch.full((len(p),), k) for k, p in enumerate(drawn[:clients])])) for drawn in bench.drawn]

    def work() -> int:
        for picked, owners in rounds:
            with torch.autocast(device, torch.bfloat16) if bf16 else nullcontext():
                rows, _ = clipped_sums(bench.model, *bench.of(picked), owners, clients, bench.layout, bench.layers, scales)
            bench.move(parameters, rows.mean(0))
        return sum(len(picked) for picked, _ in rounds)

    return work


def stacked(device: str, clients: int, bf16: bool = False, captured: bool = False) -> Callable[[], int]:
    """m = 20 as a device does it: all clients' steps together, each with its own weights; batches are filled up to the largest."""
    bench = Bench(device)
    most = max(map(len, bench.steps(clients)))
    fill = lambda picked: F.pad(picked, (0, most - len(picked)))  # noqa: E731
    order = torch.stack([torch.stack([fill(p) for p in drawn[:clients]]) for drawn in bench.drawn]).to(bench.device)
    mask = torch.stack([torch.stack([torch.arange(most) < len(p) for p in drawn[:clients]]) for drawn in bench.drawn]).to(bench.device)
    geometry = Geometry.of(bench.layout, bench.layers, bench.scales[:clients], clients, bench.device)
    start = bench.layout.read(bench.model)
    rows, lines, kept = start.repeat(clients, 1), order[0].clone(), mask[0].clone()

    def step() -> None:
        x, y = take(bench.images, lines.flatten()), bench.labels[lines]
        with torch.autocast(device, torch.bfloat16) if bf16 else nullcontext():
            found, _ = stacked_step(bench.model, rows, x.unflatten(0, (clients, most)), y, kept, bench.layout, geometry)
        rows.sub_(found, alpha=LR / (RATE * HELD))

    go = capture(step) if captured else step

    def work() -> int:
        rows.copy_(start.expand_as(rows))
        for picked, own in zip(order, mask):
            lines.copy_(picked), kept.copy_(own)
            go()
        return sum(map(len, bench.steps(clients)))

    return work


def capture(step: Callable[[], None]) -> Callable[[], None]:
    """A step as one graph of the device."""
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(), step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def opacus(device: str, clients: int, ghost: bool = False) -> Callable[[], int]:
    """Opacus on the same samples: hooks that write out every record's gradient, or ghost clipping with its second backward pass."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    bench = Bench(device, quick=False)
    wrapped = (GradSampleModuleFastGradientClipping(bench.model, max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum") if ghost else GradSampleModule(bench.model, loss_reduction="sum")).train()
    options = dict(noise_multiplier=0.0, max_grad_norm=CLIP, expected_batch_size=None, loss_reduction="sum")
    optimiser = (DPOptimizerFastGradientClipping if ghost else DPOptimizer)(torch.optim.SGD(wrapped.parameters(), lr=LR / (RATE * HELD)), **options)
    criterion = DPLossFastGradientClipping(wrapped, optimiser, nn.CrossEntropyLoss(reduction="sum"), "sum") if ghost else nn.CrossEntropyLoss(reduction="sum")

    def work() -> int:
        for picked in bench.steps(clients):
            x, y = bench.of(picked)
            optimiser.zero_grad()
            criterion(wrapped(x), y).backward()
            optimiser.step()
        return sum(map(len, bench.steps(clients)))

    return work


def engine(device: str, clients: int, precision: str) -> Callable[[], int]:
    """The round of the non-private engine for clients stacked on a device, noise and mean of nothing included."""
    from gpu import make, ours

    from ladp.mechanisms import NoNoise

    rounds = ours(*make("cnn", NoNoise(), precision, device=device))

    def work() -> int:
        next(rounds)
        return 2 * HELD * CLIENTS

    return work


CPU = {
    "plain training": (plain, {}),
    "records, m = 20": (alone, {}),
    "records, m = 1": (shared, {}),
    "records, m = 20, one by one": (alone, dict(slowly=True)),
    "Opacus, hooks": (opacus, {}),
    "Opacus, ghost": (opacus, dict(ghost=True)),
}
CUDA = {
    "plain training": (plain, {}),
    "plain engine, stacked, float32": (engine, dict(precision="float32")),
    "plain engine, stacked, bf16": (engine, dict(precision="bf16")),
    "records, m = 1": (shared, {}),
    "records, m = 1, bf16": (shared, dict(bf16=True)),
    "records, m = 20, client by client": (alone, {}),
    "records, m = 20, stacked": (stacked, {}),
    "records, m = 20, stacked, captured": (stacked, dict(captured=True)),
    "records, m = 20, stacked, captured, bf16": (stacked, dict(captured=True, bf16=True)),
    "Opacus, hooks": (opacus, {}),
    "Opacus, ghost": (opacus, dict(ghost=True)),
}


def measure(device: str, passes: int, clients: int, only: list[str] | None) -> dict[str, dict]:
    """Every candidate works once to warm up, then all take turns, the first one moving on by one each pass."""
    found, ready = {}, {}
    for name, (candidate, options) in (CUDA if device == "cuda" else CPU).items():
        if only and not any(part in name for part in only):
            continue
        try:
            ready[name] = candidate(device, clients, **options)
            found[name] = {"first": timed(ready[name]), "seconds_per_thousand": []}
        except Exception as error:  # whatever it is, the others are measured all the same
            found[name] = {"left_out": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
            ready.pop(name, None)
    for number in range(passes):
        names = list(ready)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name]["seconds_per_thousand"].append(timed(ready[name]))
    return {name: row | summary(row, found["plain training"]) for name, row in found.items()}


def timed(work: Callable[[], int]) -> float:
    """Seconds for a thousand examples: of the clock on a device, of the processor on a CPU, which others may be using as well."""
    wait, clock = (torch.cuda.synchronize, time.perf_counter) if torch.cuda.is_available() else (lambda: None, time.process_time)
    wait()
    began = clock()
    examples = work()
    wait()
    return round((clock() - began) / examples * 1000, 6)


def summary(row: dict, rod: dict) -> dict:
    """Median and spread, and how many times as long as plain training in the same pass."""
    if "left_out" in row:
        return {}
    seconds = row["seconds_per_thousand"]
    times = statistics.median(mine / theirs for mine, theirs in zip(seconds, rod["seconds_per_thousand"]))
    return {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds), "times_plain": round(times, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--clients", type=int, default=CLIENTS, help="of ten; fewer for a shorter run")
    parser.add_argument("--only", nargs="+", help="candidates whose name holds one of these, beside plain training")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Full backward hook is firing")
    torch.set_num_threads(1)
    _settle()
    before = os.getloadavg()
    found = measure(options.device, options.passes, options.clients, options.only and ["plain training", *options.only])
    print("\n".join(line(name, row) for name, row in found.items()))
    if options.out:
        options.out.write_text(json.dumps(about(options, before) | {"candidates": found}, indent=1) + "\n")


def line(name: str, row: dict) -> str:
    if "left_out" in row:
        return f"{name:42} left out: {row['left_out']}"
    return f"{name:42} {row['median']:.4f} s per 1,000 ({row['least']:.4f} to {row['most']:.4f}), {row['times_plain']:.2f} x plain"


def about(options: argparse.Namespace, before: tuple[float, ...]) -> dict:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    return {
        "work": __doc__.split("\n\n")[2].replace("\n", " "), "passes": options.passes, "clients": options.clients, "version": VERSION, "torch": torch.__version__,
        "python": platform.python_version(), "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device, "processor": model, "load_before": before, "load_after": os.getloadavg(),
    } | opacus_version()  # fmt: skip


def opacus_version() -> dict:
    try:
        import opacus as peer
    except ImportError:
        return {}
    return {"opacus": peer.__version__}


if __name__ == "__main__":
    main()
