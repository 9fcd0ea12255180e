"""Run folders read back, checked line by line."""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ladp.errors import Problem
from ladp.report import number

NEEDED = {"method": str, "rounds": int, "seed": int}
GUARANTEES = ("claimed", "certified")  # either may be missing or null


@dataclass(frozen=True)
class Run:
    """One run folder: facts (run.json), recipe, rounds, and the result when the run finished."""

    folder: Path
    facts: dict
    recipe: dict
    text: str
    rounds: tuple[dict, ...]
    result: dict | None
    notes: tuple[str, ...]

    @property
    def finished(self) -> bool:
        return self.result is not None

    @property
    def state(self) -> str:
        """finished, or how far the run came."""
        reached = self.rounds[-1]["round"] if self.rounds else 0
        return "finished" if self.finished else f"unfinished, round {reached} of {self.facts['rounds']}"

    def final(self, key: str) -> float | None:
        """The value at the end of the run; of an unfinished one, at the last round that has it."""
        if self.result is not None:
            return number.read(self.result.get(key))
        values = (number.read(record.get(key)) for record in reversed(self.rounds))
        return next((value for value in values if value is not None), None)

    def total(self, key: str) -> float | None:
        """The sum over all rounds, from the result where the run finished."""
        whole = number.read((self.result or {}).get(key))
        parts = [value for record in self.rounds if (value := number.read(record.get(key))) is not None]
        return whole if whole is not None else sum(parts) if parts else None

    def accumulated(self, key: str) -> float | None:
        """ε or δ of the client drawn most often, summed as the paper's accountant does."""
        spent = [record["accumulated"] for record in self.rounds if isinstance(record.get("accumulated"), dict)]
        return number.read(spent[-1].get(key)) if spent else None


def read(folder: Path | str) -> Run:
    """The run in `folder`; whatever cannot be read is a Problem that names file and line."""
    folder = Path(folder)
    facts = _facts(folder / "run.json")
    text = _text(folder / "recipe.toml")
    rounds, notes = read_rounds(folder / "rounds.jsonl")
    result = _object(folder / "result.json") if (folder / "result.json").exists() else None
    return Run(folder, facts, _recipe(folder / "recipe.toml", text), text, rounds, result, _starts(facts) + notes)


def find(paths: Iterable[Path | str]) -> list[Path]:
    """Every run folder that is named or lies beneath a named folder, each once; what lies in the folder of a run (shadows of an attack) is no run of its own."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise Problem(f"no folder {path}: name a run folder, or a folder that holds some")
        folders = [path] if (path / "run.json").is_file() else _outermost(path)
        if not folders:
            raise Problem(f"no run under {path}: a run folder holds run.json, as `ladp run --out` writes it")
        found |= {folder.resolve(): folder for folder in folders if folder.resolve() not in found}
    return list(found.values())


def _outermost(path: Path) -> list[Path]:
    """Run folders beneath a folder that lie in no other."""
    held = {file.parent for file in path.rglob("run.json")}
    return sorted(folder for folder in held if held.isdisjoint(folder.parents))


def _facts(path: Path) -> dict:
    facts = _object(path)
    for key, kind in NEEDED.items():
        if not isinstance(facts.get(key), kind):
            raise Problem(f"{path}: {key!r} must be of type {kind.__name__}, got {facts.get(key)!r}; run again")
    for key in GUARANTEES:
        if not isinstance(facts.get(key) or {}, dict):
            raise Problem(f"{path}: {key!r} must be an object or null, got {facts[key]!r}; run again")
    return facts


def _starts(facts: dict) -> tuple[str, ...]:
    """A run that was cut off and went on says so."""
    later = [start for start in facts.get("starts") or () if isinstance(start, dict) and start.get("after_round")]
    return tuple(f"went on after round {start['after_round']} on {start.get('device', 'a device')}" for start in later)


def _recipe(path: Path, text: str) -> dict:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{path}: not a recipe: {error}; restore the file or leave this run out") from error


def read_rounds(path: Path) -> tuple[tuple[dict, ...], tuple[str, ...]]:
    """The rounds in order; a round written twice counts as last written; a torn last line is dropped with a note."""
    lines = _text(path).splitlines() if path.exists() else []
    while lines and not lines[-1].strip():
        lines.pop()
    records: dict[int, dict] = {}
    for place, line in enumerate(lines, 1):
        record = _round(line)
        if record is None and place == len(lines):
            return tuple(records.values()), (f"the last line of {path.name} was torn and is left out",)
        if record is None:
            raise Problem(f"{path}, line {place}: not a round; restore the line or leave this run out")
        records[record["round"]] = record
    return tuple(sorted(records.values(), key=lambda record: record["round"])), ()


def _round(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("round"), int) else None


def _object(path: Path) -> dict:
    try:
        value = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise Problem(f"{path}, line {error.lineno}: not JSON ({error.msg}); restore the file or leave this run "
                      "out") from error
    if not isinstance(value, dict):
        raise Problem(f"{path}, line 1: expected an object, got {type(value).__name__}; restore the file")
    return value


def _text(path: Path) -> str:
    """The file's text; bytes that are not UTF-8 stay visible, so that the line they are on is the one refused."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}; restore the file or leave this run out") from error
