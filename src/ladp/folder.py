"""A run's folder: every file is written whole or not at all, and what was written is checked when it is read."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ladp.errors import Problem
from ladp.federation import State

try:
    import fcntl
except ImportError:  # on Windows; there nothing guards against a second process
    fcntl = None

RECIPE, METHOD, ABOUT, ROUNDS, CHECKPOINT, MODEL, RESULT, LEDGER, LOCK = (
    "recipe.toml", "method.py", "run.json", "rounds.jsonl", "checkpoint.safetensors", "model.safetensors", "result.json", "ledger.sqlite", ".lock",
)  # fmt: skip
NEEDED = {  # without these the rest of the program cannot use the file
    ABOUT: ("version", "precision", "method", "model", "data", "seed", "rounds", "starts"),
    RESULT: ("rounds", "accuracy", "loss", "noise_scale", "seconds", "claimed", "accumulated", "certified", "views", "digest"),
}
LOGS = ("", ".log", ".txt", ".out", ".err", ".json", ".toml", ".part")  # what a script or a redirection may have put there before the run
RESUME = "mend it, then `ladp resume`"
AFRESH = f"delete {CHECKPOINT} and `ladp resume` to begin again at round 1 with the same result"


@contextmanager
def writing(path: Path, remedy: str = RESUME) -> Iterator[None]:
    """A full disk or a read-only folder is one clear line; what stood there before still stands."""
    try:
        yield
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror or error}; nothing that was there is damaged: {remedy}") from error


def put(path: Path, content: bytes, remedy: str = RESUME) -> None:
    """Write a whole file or none: beside it, to the disk, then in its place."""
    beside = path.with_name(path.name + ".part")
    with writing(path, remedy):
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            _sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
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
        content = json.loads(path.read_bytes())
        missing = [key for key in NEEDED[path.name] if key not in content]
    except FileNotFoundError as error:
        raise Problem(f"{path.parent} has no {path.name}: `ladp resume` writes it") from error
    except (OSError, ValueError, TypeError) as error:
        raise Problem(f"{path} is damaged ({error}): delete it and `ladp resume`, which writes it again") from error
    if missing:
        raise Problem(f"{path} is damaged (it has no {missing[0]!r}): delete it and `ladp resume`, which writes it again")
    return content


def refuse_occupied(folder: Path) -> None:
    """A run has a folder to itself, new or empty but for logs: it never mixes with a checkout or with anybody's files."""
    if not folder.is_dir():
        if folder.exists():
            raise Problem(f"{folder} is a file: choose another --out")
        return
    for path in sorted(folder.iterdir()):
        if path.name in (RECIPE, ABOUT, CHECKPOINT):
            raise Problem(f"{folder} already holds a run: continue it with `ladp resume {folder}`, or choose another --out")
        hidden, plain = path.name.startswith(".") and path.name != ".git", path.suffix in LOGS and not path.is_dir()
        if path.name in (ROUNDS, MODEL, RESULT) or not (hidden or plain):
            raise Problem(f"{folder} holds {path.name!r}, which is not of this run: choose a new or empty folder as --out")


def seal(tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    """sha256 of all that a checkpoint says."""
    return sha256(json.dumps([digest(tensors), about], sort_keys=True).encode()).hexdigest()


def save_state(path: Path, state: State, recipe: str, log: str) -> None:
    """The checkpoint: the state after a round, the digests of its recipe and of the log up to it, and its own."""
    tensors = {"current": state.current, "counts": state.counts, "shared": state.shared} | {f"memory.{client}": value for client, value in state.memory.items()} | {f"server.{name}": value for name, value in state.moments.items()}
    if state.previous is not None:
        tensors["previous"] = state.previous
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    about = {"round": str(state.round), "recipe": recipe, "log": log}
    put(path, save(tensors, about | {"digest": seal(tensors, about)}))


def load_state(path: Path, recipe: str, device: str) -> tuple[State, str]:
    """The state and the log's digest again, refused if a single bit of the checkpoint has changed or if it belongs to another recipe."""
    try:
        with safe_open(path, "pt") as file:
            about, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise Problem(f"checkpoint {path} is corrupt ({error}): {AFRESH}") from error
    given = about.pop("digest", "none")
    if given != (found := seal(tensors, about)):
        raise Problem(f"checkpoint {path} is corrupt: its digest is {found[:16]}, not {given[:16]}: {AFRESH}")
    if about["recipe"] != recipe:
        raise Problem(f"checkpoint {path} belongs to recipe {about['recipe'][:12]}, but the folder's recipe is {recipe[:12]}: {RECIPE} was changed; restore it or {AFRESH}")
    previous = tensors["previous"].to(device) if "previous" in tensors else None
    memory = {int(name[7:]): tensor.to(device) for name, tensor in tensors.items() if name.startswith("memory.")}
    moments = {name[7:]: tensor.to(device) for name, tensor in tensors.items() if name.startswith("server.")}
    return State(int(about["round"]), tensors["current"].to(device), previous, tensors["counts"], memory, tensors.get("shared", torch.empty(0, dtype=torch.float64)), moments), about["log"]


def digest(tensors: dict[str, Tensor]) -> str:
    """sha256 of named tensors: names, types, shapes and every byte."""
    total = sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


class Log:
    """rounds.jsonl: one line a round. Lines after the checkpoint, whole or torn, belong to rounds that will be run again."""

    def __init__(self, path: Path, upto: int = 0, expected: str | None = None):
        lines = path.read_bytes().splitlines(keepends=True)[:upto] if path.exists() else []
        self.path, self.total = path, sha256(b"".join(lines))
        if expected is not None and self.total.hexdigest() != expected:
            raise Problem(f"{path} is damaged: its first {upto} rounds are not those that the checkpoint counts on; restore the file or {AFRESH}")
        self.records = [json.loads(line) for line in lines]
        put(path, b"".join(lines))
        with writing(path):
            self.file = open(path, "ab")

    def append(self, record: dict[str, Any]) -> str:
        """One more round; the digest of all lines so far."""
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        with writing(self.path):
            self.file.write(line)
            self.file.flush()
        self.total.update(line)
        return self.total.hexdigest()

    def sync(self) -> None:
        """To the disk, before a checkpoint counts on it."""
        with writing(self.path):
            os.fsync(self.file.fileno())

    def close(self) -> None:
        """What could not be written has been reported already."""
        with suppress(OSError):
            self.file.close()


_held: set[Path] = set()  # by this process: the system's lock keeps only other processes out


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one run works in a folder at a time; the lock goes with the process, however it ends."""
    place, busy = folder.resolve(), Problem(f"{folder} is in use by another process: wait for it, or choose another --out")
    if place in _held:
        raise busy
    with writing(folder):
        handle = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR)
    try:
        if not _lock(handle):
            raise busy
        _held.add(place)
        yield
    finally:
        _held.discard(place)
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether the lock is ours. Not flock: workers that outlive a killed server must not keep it."""
    try:
        if fcntl:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)  # another error: a file system without locks
    return True
