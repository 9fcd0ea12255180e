"""A recipe becomes a run folder, round by round; a folder that was cut off goes on where it was."""

import os
import platform
import re
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, replace
from functools import cache
from math import inf
from multiprocessing import active_children
from pathlib import Path
from threading import Lock
from time import monotonic, perf_counter
from typing import Any

import torch

from ladp import accounts, data, folder, models, training
from ladp.data.split import Chosen, Split
from ladp.errors import Problem
from ladp.federation import Gate, Round, State, begin, federate
from ladp.keys import Key
from ladp.ledger.entry import name_run
from ladp.mechanisms import foreign
from ladp.params import Layout
from ladp.privacy.budget import refuse
from ladp.privacy.mechanism import Guarantee
from ladp.recipe import Recipe, dump, load
from ladp.training.work import Engine, Work
from ladp.version import VERSION

CHECKPOINT_SECONDS = 5.0
Read = Callable[[str, str | None, float, str | None], data.Dataset]
Start = Callable[[Work, str], Engine]


def create(recipe: Recipe, out: str | Path, read: Read = data.load) -> Path:
    """A new run folder with its recipe; what cannot run and what is occupied is refused before anything is written."""
    if not str(out):
        raise Problem("--out is empty: name a folder for the run")
    if recipe.root:
        recipe = replace(recipe, root=str(data.directory(recipe.root).absolute()))  # so that it can be resumed from anywhere
    out, elsewhere = Path(out), "choose another --out"
    with folder.writing(out, elsewhere):
        folder.refuse_occupied(out)
    prepare(recipe, read=read)
    with folder.writing(out, elsewhere):
        out.mkdir(parents=True, exist_ok=True)
    with folder.alone(out):
        folder.refuse_occupied(out)  # another process may have been faster
        if text := foreign.text(type(recipe.method)):
            folder.put(out / folder.METHOD, text, elsewhere)
        folder.put(out / folder.RECIPE, dump(recipe, folder.METHOD).encode(), elsewhere)
    return out


def run(recipe: Recipe, out: str | Path) -> dict[str, Any]:
    """Run a recipe from the first round to the last; returns the result."""
    return finish(create(recipe, out))


def finish(out: str | Path, start: Start = training.start, read: Read = data.load) -> dict[str, Any]:
    """Run what is left of a folder; a finished one is left alone. Returns the result."""
    with closing(play(out, start, read)) as records:
        for _ in records:
            pass
    return folder.get_json(Path(out) / folder.RESULT)


def play(out: str | Path, start: Start = training.start, read: Read = data.load) -> Iterator[dict[str, Any]]:
    """Run what is left of a folder, yielding each round's record once it is written; whatever ends it leaves a folder that can go on."""
    out = Path(out)
    if not (out / folder.RECIPE).exists():
        raise Problem(f"{out} is not a run folder: it has no {folder.RECIPE}; `ladp run --out {out}` starts a run")
    if (out / folder.RESULT).exists() and (out / folder.ABOUT).exists():
        return
    with ExitStack() as stack:
        stack.enter_context(folder.alone(out))
        before = _before(out)
        recipe = load(out / folder.RECIPE)
        work, engine_name = prepare(recipe, before.get("precision"), read)
        state, log = _recall(out, recipe, work)
        stack.callback(log.close)
        engine = stack.enter_context(closing(start(work, engine_name)))
        about = describe(recipe, work, engine_name, before.get("starts", []), state.round) | {"run": before.get("run") or name_run(recipe.digest)}
        folder.put_json(out / folder.ABOUT, about)
        gate = stack.enter_context(accounts.gate(out, recipe, work, about["run"]))
        yield from _record(out, recipe, work, engine, state, log, gate)


def convoy(folders: Sequence[str | Path], until: float = inf, abreast: int = 1, read: Read = data.load,
           own: Mapping[Path, Read] | None = None) -> Iterator[tuple[Path, dict[str, Any] | Problem]]:  # fmt: skip
    """Run what is left of many folders at once, those that stack clients as `abreast` computations instead of one each; `own` reads the records of a folder that has its own.

    Yields each folder as it ends, with its result or the Problem that stopped it. No round begins after `until` (monotonic).
    """
    from ladp.training.convoy import Convoy

    read, own, lanes = _in_turn(read), own or {}, [Convoy(len(folders[lane::abreast]), until) for lane in range(abreast)]
    with ThreadPoolExecutor(max(1, len(folders))) as pool:
        try:
            rides = {pool.submit(_ride, Path(out), lanes[n % abreast].seat(n // abreast), own.get(Path(out), read)): Path(out) for n, out in enumerate(folders)}
            failed = []
            for ride in as_completed(rides):
                if ride.exception():
                    failed.append(ride)
                else:
                    yield rides[ride], ride.result()
        finally:
            for lane in lanes:
                lane.halt()
    for ride in failed:
        ride.result()  # what is no Problem is raised when all others have ended


def _ride(out: Path, seat: AbstractContextManager[Start], read: Read) -> dict[str, Any] | Problem:
    try:
        with seat as start:
            return finish(out, start, read)
    except Problem as problem:
        return problem


def _in_turn(read: Read) -> Read:
    """Data are read once for all threads."""
    lock, known = Lock(), cache(read)

    def take(name: str, root: str | None, validation: float, features: str | None) -> data.Dataset:
        with lock:
            return known(name, root, validation, features)

    return take


def prepare(recipe: Recipe, precision: str | None = None, read: Read = data.load) -> tuple[Work, str]:
    """Everything a run needs, checked: data read, split drawn, model made, engine chosen."""
    engine, device, precision = training.settle(recipe.engine, recipe.device, precision or recipe.precision)
    dataset, key = read(recipe.data, recipe.root, recipe.validation, recipe.features), Key(recipe.seed)
    split = _split(recipe, dataset, key)
    with key.at("model").reign():
        model = models.create(recipe.model, len(dataset.classes), dataset.channels, dataset.size, recipe.norm, recipe.dropout)
        _try(model, dataset, recipe.model)  # here: a lazy layer draws its weights when it meets its first input
    if recipe.method.needs_budget and recipe.budget is None:
        raise Problem(f"method {recipe.method.name!r} has no noise of its own: give it a budget, [budget] epsilon = 8 (on the command line: --set budget.epsilon=8)")
    if recipe.budget:
        refuse(recipe.method, Layout.of(model), (name for name, buffer in model.named_buffers() if buffer.is_floating_point()), recipe.mean == "equal", recipe.budget)
    parts = (dataset.images, dataset.labels, dataset.test_images, dataset.test_labels, split, recipe.method, recipe.training, key, recipe.active)
    return Work(model, Layout.of(model), *parts, device, precision, recipe.workers, recipe.budget, recipe.server), engine


def _split(recipe: Recipe, dataset: data.Dataset, key: Key) -> Split:
    """Who holds what, of all training records or of those that are chosen."""
    labels, writers = dataset.labels.numpy(), None if dataset.writers is None else dataset.writers.numpy()
    if dataset.chosen is None:
        return recipe.partition.split(labels, recipe.clients, key, writers)
    chosen = dataset.chosen.numpy()
    return Chosen(recipe.partition.split(labels[chosen], recipe.clients, key, writers), chosen)


def _try(model: torch.nn.Module, dataset: data.Dataset, name: str) -> None:
    """The model must take the images and have an output for every class."""
    shape = tuple(dataset.images.shape[1:])
    try:
        with torch.no_grad():
            logits = model.eval()(torch.zeros(2, *shape))
    except Exception as error:  # whatever a model of the user's own may raise
        raise Problem(f"model {name!r} does not take the images of {dataset.name}, {shape}: {type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
    given, wanted = tuple(getattr(logits, "shape", ())), (2, len(dataset.classes))
    if given != wanted:
        raise Problem(f"model {name!r} gives {given or type(logits).__name__} for two images of {dataset.name}, which has {wanted[1]} classes: it must give {wanted}")


def _before(out: Path) -> dict[str, Any]:
    """What earlier starts wrote of themselves; a run goes on in the precision it began with, and not in an older program."""
    about = folder.get_json(out / folder.ABOUT) if (out / folder.ABOUT).exists() else {}
    if _numbers(about.get("version", "0")) > _numbers(VERSION):
        raise Problem(f"{out} was written by ladp {about['version']}, and this is {VERSION}: go on with that version or a newer one")
    return about


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", str(version))]


def _recall(out: Path, recipe: Recipe, work: Work) -> tuple[State, folder.Log]:
    """Where the folder stands: its checkpoint and the log up to it; the fresh model and an empty log if there is none."""
    path = out / folder.CHECKPOINT
    if not path.exists():
        return begin(work), folder.Log(out / folder.ROUNDS)
    state, expected = folder.load_state(path, recipe.digest, work.device)
    work.layout.check(state.current)
    return state, folder.Log(out / folder.ROUNDS, state.round, expected)


def _record(out: Path, recipe: Recipe, work: Work, engine: Engine, state: State, log: folder.Log, gate: Gate | None) -> Iterator[dict[str, Any]]:
    """Run the rounds that are left; each is written to the log, and the state to the checkpoint every few seconds and at the end."""
    drawn, spending = Counter(client for r in log.records for client in r["clients"]), accounts.Spending()
    for record in log.records:
        spending.add(record)
    noise, seconds = sum(r["noise_scale"] for r in log.records), sum(r["seconds"] for r in log.records)
    last, kept, due = log.records[-1] if log.records else None, None, monotonic() + CHECKPOINT_SECONDS
    try:
        for event in federate(work, engine, state, recipe.rounds, recipe.mean, gate, drawn):
            drawn.update(event.cohort)
            last = report(recipe, work, engine, event, drawn)
            spending.add(last)
            noise, seconds = noise + last["noise_scale"], seconds + last["seconds"]
            kept = event.state, log.append(last)  # at once: a state counts only with the line that tells of it
            if monotonic() > due:
                _save(out, recipe, log, *kept)
                state, due = event.state, monotonic() + CHECKPOINT_SECONDS
            yield last
    finally:
        if kept and kept[0] is not state:
            _save(out, recipe, log, *kept)
    _conclude(out, work, kept[0] if kept else state, last, noise, seconds, spending)


def _save(out: Path, recipe: Recipe, log: folder.Log, state: State, lines: str) -> None:
    """The log reaches the disk before the checkpoint that counts on it."""
    log.sync()
    folder.save_state(out / folder.CHECKPOINT, state, recipe.digest, lines)


def report(recipe: Recipe, work: Work, engine: Engine, event: Round, drawn: Counter[int]) -> dict[str, Any]:
    """What is written of a round."""
    began, number = perf_counter(), event.state.round
    tested = number % recipe.evaluate_every == 0 or number == recipe.rounds
    accuracy, loss = engine.evaluate(event.state.tested, event.state.counts) if tested else (None, None)
    names = [layer.name for layer in work.layout.layers(work.mechanism.layers, work.mechanism.state)]
    receipt, claim = event.receipt, accounts.claimed(work)
    by_layer = lambda values: {name: _finite(v) for name, v in zip(names, values.mean(0).tolist())}  # noqa: E731
    return {
        "round": number,
        "clients": event.cohort,
        "refused": list(event.refused),
        "accuracy": accuracy,
        "loss": _finite(loss),
        "train_loss": _finite(event.losses.mean().item()),
        "claimed_epsilon": claim.epsilon if claim else None,
        "accumulated": accumulated(work, claim, drawn),
        "noise_scale": receipt.noise.sum().item() / len(event.cohort),
        "noise": by_layer(receipt.noise),
        "sigma": by_layer(receipt.sigma),
        "KL": None if receipt.divergence.isnan().all() else by_layer(receipt.divergence),
        "P": None if receipt.privacy.isnan().all() else by_layer(receipt.privacy),
        "selected": by_layer(receipt.selected),
        "downlink_noise": event.downlink,
        "multipliers": receipt.multiplier[:, 0].tolist() if work.budget else None,
        "seconds": event.seconds,
        "evaluation_seconds": perf_counter() - began,
        "examples_per_second": event.examples / event.seconds,
        "memory": memory(work.device),
    }


def accumulated(work: Work, claim: Guarantee | None, drawn: Counter[int]) -> dict[str, Any] | None:
    """q T epsilon and q T delta of the client drawn most often: what the paper's sequential accountant adds up (docs/theory.md says why not to trust it)."""
    if claim is None or claim.view != "one upload":
        return None
    client, times = drawn.most_common(1)[0]
    size = int(work.split.sizes()[client])
    qT = times * work.training.steps(size) * work.training.batch / size
    return {"epsilon": _finite(qT * claim.epsilon), "delta": qT * (claim.delta or 0.0), "client": client, "uploads": times}


def _conclude(out: Path, work: Work, state: State, last: dict[str, Any], noise: float, seconds: float, spending: accounts.Spending) -> None:
    """The final weights by name, and the result that points at them."""
    weights = {name: view.clone() for name, view in work.layout.views(state.tested.cpu()).items()}
    folder.put(out / folder.MODEL, folder.save(weights, {"round": str(state.round)}))
    result = {
        "out": str(out),
        "rounds": state.round,
        "accuracy": last["accuracy"],
        "loss": last["loss"],
        "noise_scale": noise,
        "seconds": seconds,
        "claimed": guarantee(accounts.claimed(work)),
        "accumulated": last["accumulated"],
        "certified": guarantee(accounts.certified(work, spending)),
        "views": {view: guarantee(found) for view, found in accounts.views(work, spending).items()},
        "digest": folder.digest({**weights, "counts": state.counts}),
    }
    folder.put_json(out / folder.RESULT, result)


def describe(recipe: Recipe, work: Work, engine: str, starts: list[dict[str, Any]], round: int) -> dict[str, Any]:
    """run.json: what ran where; a resumed run adds a line for each start."""
    here = {"version": VERSION, "torch": torch.__version__, "python": platform.python_version(), "device": device_name(work.device), "engine": engine}
    layers = work.layout.layers(work.mechanism.layers, work.mechanism.state)
    return {
        "digest": recipe.digest,
        **here,
        "precision": work.precision,
        "method": recipe.method.name,
        "model": recipe.model,
        "data": recipe.data,
        "weights": sum(len(e) for e in work.layout.entries if e.trainable),
        "layers": [layer.name for layer in layers],
        "train": len(work.labels),
        "test": len(work.test_labels),
        "seed": recipe.seed,
        "clients": recipe.clients,
        "active": recipe.active,
        "rounds": recipe.rounds,
        "curious": work.split.curious,
        "claimed": guarantee(accounts.claimed(work)),
        "certified": guarantee(accounts.certified(work)),
        "starts": [*starts, {"after_round": round, **here}],
    }


def guarantee(value: Guarantee | None) -> dict[str, Any] | None:
    """A guarantee as JSON, which has no infinity: it is written "inf"."""
    if value is None:
        return None
    fields = asdict(value)
    return {**fields, "epsilon": value.epsilon if value.epsilon < float("inf") else "inf", "reasons": list(value.reasons)}


def device_name(device: str) -> str:
    """What the device calls itself."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def memory(device: str) -> int:
    """Bytes: the peak of the device's allocator, or what this process and its workers occupy (shared pages counted once)."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    pids = [os.getpid(), *(child.pid for child in active_children())]
    try:
        return sum(_pss(pid) for pid in pids)
    except (OSError, StopIteration):  # no /proc here
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _finite(value: float | None) -> float | None:
    """JSON has no NaN: null."""
    return value if value is not None and abs(value) < float("inf") else None
