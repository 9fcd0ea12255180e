"""A run's folder: every file is written whole or not at all, and what was written is checked when it is read."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ladp.errors import Problem
from ladp.federation import State

RECIPE, ABOUT, ROUNDS, CHECKPOINT, MODEL, RESULT, LOCK = (
    "recipe.toml", "run.json", "rounds.jsonl", "checkpoint.safetensors", "model.safetensors", "result.json", ".lock",
)  # fmt: skip


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A full disk or a read-only folder is one clear line; what stood there before still stands."""
    try:
        yield
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror or error}; everything already in the folder is whole. Mend it, then `ladp resume`") from error


def put(path: Path, content: bytes) -> None:
    """Write a whole file or none: beside it, to the disk, then in its place."""
    beside = path.with_name(path.name + ".part")
    with writing(path):
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            _sync_folder(path.parent)
        except OSError:
            beside.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def put_json(path: Path, content: dict[str, Any]) -> None:
    """A JSON file people can read."""
    put(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def get_json(path: Path) -> dict[str, Any]:
    """A JSON file of the folder, or a Problem that names it."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise Problem(f"{path.parent} is not a run folder: it has no {path.name}") from error
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {error}") from error


def save_state(path: Path, state: State, recipe: str) -> None:
    """The checkpoint: the state after a round, with its own digest."""
    tensors = {"current": state.current, "counts": state.counts} | {f"memory.{client}": value for client, value in state.memory.items()}
    if state.previous is not None:
        tensors["previous"] = state.previous
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    put(path, save(tensors, {"round": str(state.round), "recipe": recipe, "digest": digest(tensors)}))


def load_state(path: Path, recipe: str, device: str) -> State:
    """The checkpoint again, refused if a single bit of it has changed or if it belongs to another recipe."""
    remedy = f"delete {path.name} and `ladp resume` to begin again at round 1 with the same result"
    try:
        with safe_open(path, "pt") as file:
            about, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise Problem(f"checkpoint {path} is corrupt ({error}): {remedy}") from error
    if about.get("digest") != digest(tensors):
        raise Problem(f"checkpoint {path} is corrupt: its digest is {digest(tensors)[:16]}, not {about.get('digest', 'given')[:16]}: {remedy}")
    if about["recipe"] != recipe:
        raise Problem(f"checkpoint {path} belongs to recipe {about['recipe'][:12]}, but the folder's recipe is {recipe[:12]}: {RECIPE} was changed; restore it or {remedy}")
    previous = tensors["previous"].to(device) if "previous" in tensors else None
    memory = {int(name[7:]): tensor.to(device) for name, tensor in tensors.items() if name.startswith("memory.")}
    return State(int(about["round"]), tensors["current"].to(device), previous, tensors["counts"], memory)


def digest(tensors: dict[str, Tensor]) -> str:
    """sha256 of named tensors: names, types, shapes and every byte."""
    total = sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def read_rounds(path: Path, upto: int) -> list[dict[str, Any]]:
    """The records of rounds 1 to `upto`; later ones, or a torn last line, belong to rounds that will be run again."""
    records: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else [], 1):
        if len(records) == upto:
            break
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise Problem(f"{path}, line {number} is not JSON, but the checkpoint is of round {upto}: the file was damaged; restore it or start the run afresh") from error
    if [r.get("round") for r in records] != list(range(1, upto + 1)):
        raise Problem(f"{path} holds {len(records)} whole rounds, but the checkpoint is of round {upto}: the file was damaged; restore it or start the run afresh")
    return records


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one process works in a folder at a time; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows; there nothing guards against a second process
        yield
        return
    with writing(folder):
        handle = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not flock: workers that outlive a killed server must not keep the lock
        yield
    except (BlockingIOError, PermissionError) as error:
        raise Problem(f"{folder} is in use by another process: wait for it, or choose another --out") from error
    finally:
        os.close(handle)
