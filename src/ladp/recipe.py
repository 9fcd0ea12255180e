"""A run written down: frozen, with a digest, in Python or TOML."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from ladp.data import DATA, FEATURES
from ladp.data.isolation import Isolation
from ladp.data.partition import PARTITIONS
from ladp.errors import Problem, choose
from ladp.federation import MEANS
from ladp.mechanisms import LaDP, address, find, foreign, named
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Mechanism, Training
from ladp.server import Server

PLACES = ("root", "ledger", "engine", "device", "workers")  # where and how fast, not what: they are left out of the digest
TABLES = ("training", "method", "partition", "budget", "server")
COUNTS, MANY = ("clients", "active", "rounds", "evaluate_every", "workers"), 2**31 - 1


@dataclass(frozen=True)
class Recipe:
    """All that decides a run's result, and (PLACES) where it runs. The defaults are the paper's, on the embedded digits."""

    method: Mechanism = field(default_factory=LaDP)
    model: str = ""  # "" takes linear for features, cnn-small for the digits and cnn otherwise
    norm: str | None = None
    dropout: float | None = None
    data: str = "digits"
    features: str | None = None  # made of each record beforehand, in place of its pixels
    partition: Any = field(default_factory=Isolation)
    clients: int = 20
    active: int = 5
    rounds: int = 30
    training: Training = field(default_factory=Training)
    mean: str = "size"
    seed: int = 0
    precision: str = "auto"
    evaluate_every: int = 1
    validation: float = 0.0  # share of the training records that is held out and takes the test set's place
    budget: Budget | None = None  # one for all methods: epsilon and delta of the method are not used then
    server: Server = Server()  # what the server makes of the mean
    root: str | None = None
    ledger: str | None = None  # a file that outlives the run and keeps what every client has spent; by default one in the run's folder
    engine: str = "auto"
    device: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.root, Path):
            object.__setattr__(self, "root", str(self.root))
        _check(self)
        choose("data set", self.data, DATA)
        choose("mean", self.mean, MEANS)
        if self.features is not None and choose("features", self.features, FEATURES) and self.training.augment:
            raise Problem(f"augment moves pixels, and {self.features!r} leaves none: turn augment off, or leave features out")
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MANY:
                raise Problem(f"{name} must be {'at least 1' if value < 1 else f'at most {MANY}'}, got {value}")
        if not 0 <= self.validation < 1:
            raise Problem(f"validation must be at least 0 and below 1, got {self.validation}")
        if self.active > self.clients:
            raise Problem(f"{self.active} active clients asked for, but there are {self.clients}: active must be at most the number of clients")
        if not self.model:
            object.__setattr__(self, "model", "linear" if self.features else "cnn-small" if self.data == "digits" else "cnn")

    @property
    def digest(self) -> str:
        """sha256 of what decides the result."""
        tables = {name: {k: v for k, v in table.items() if k not in PLACES} for name, table in tabulate(self).items()}
        tables["method"] = foreign.identity(tables["method"])
        return sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def tabulate(recipe: Recipe, file: str | None = None) -> dict[str, dict[str, Any]]:
    """The recipe as tables: [run], [training], [method], [partition] and, where they say something, [budget] and [server], without what is not set.

    `file` is where the text of a method of the user's own will lie.
    """
    kind = next(name for name, kind in PARTITIONS.items() if type(recipe.partition) is kind)
    run = {name: value for name, value in _values(recipe).items() if name not in TABLES}
    tables = {
        "run": run,
        "training": _values(recipe.training),
        "method": {**address(type(recipe.method), file), **_values(recipe.method)},
        "partition": {"name": kind, **_values(recipe.partition)},
    } | ({"budget": _values(recipe.budget)} if recipe.budget else {}) | ({} if recipe.server == Server() else {"server": _values(recipe.server)})
    return {title: {k: v for k, v in table.items() if v is not None} for title, table in tables.items()}


def _values(part: Any) -> dict[str, Any]:
    """Name to value; a whole number that stands for a real one is written as one, so that 1 and 1.0 have one digest."""
    real = lambda option, value: float(value) if "float" in _kind(option) and isinstance(value, int) else value  # noqa: E731
    return {option.name: real(option, getattr(part, option.name)) for option in fields(part)}


def compose(tables: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """The recipe that tables describe; whatever they leave out has its default, whatever is unknown is refused."""
    for title, table in tables.items():
        choose("recipe table", title, ("run", *TABLES))
        if not isinstance(table, Mapping):
            raise Problem(f"{title} must be a table, [{title}], got {table!r}")
    run = dict(tables.get("run", {}))
    for title in TABLES:
        if title in run:
            raise Problem(f"{title!r} stands in [run]: give it a table of its own, [{title}]")
    method, partition = dict(tables.get("method", {})), dict(tables.get("partition", {}))
    parts = {}
    if method:
        kind = _kind_of(method)
        parts["method"] = _make(kind, f"method {kind.name!r}", {k: v for k, v in method.items() if k not in foreign.RESERVED})
    if partition:
        name = choose("partition", partition.pop("name", "isolation"), PARTITIONS)
        parts["partition"] = _make(PARTITIONS[name], f"partition {name!r}", partition)
    for title, kind in (("training", Training), ("budget", Budget), ("server", Server)):
        if title in tables:
            parts[title] = _make(kind, title, tables[title])
    return _make(Recipe, "the recipe", {**run, **parts})


def _kind_of(method: Mapping[str, Any]) -> type[Mechanism]:
    """The class that a [method] table names."""
    name, source = method.get("name", "ladp"), method.get("source")
    if not (isinstance(name, str) and isinstance(source, str | None)):
        raise Problem(f"name and source of the method must be text, got {name!r} and {source!r}")
    if source and not foreign.is_path(name):
        raise Problem(f"source is for a method of your own, and {name!r} is none: leave it out, or write name = \"file.py:Class\"")
    return find(name, source)


def _make(kind: type, owner: str, options: Mapping[str, Any]) -> Any:
    """An instance of a frozen dataclass from options, refusing unknown names and wrong types."""
    known = {option.name: option for option in fields(kind)}
    for name, value in options.items():
        choose(f"option of {owner}", name, known)
        _check_type(owner, known[name], value)
    return kind(**options)


def _check(recipe: Recipe) -> None:
    """Every part is what it should be, and so is every value of every part: a recipe made in Python must read back from TOML."""
    for name, kinds, example in (("method", Mechanism, LaDP), ("training", Training, Training), ("server", Server, Server), ("partition", tuple(PARTITIONS.values()), Isolation)):
        if not isinstance(getattr(recipe, name), kinds):
            raise Problem(f"{name} must be an object such as {example.__name__}(...), got {getattr(recipe, name)!r}")
    named(type(recipe.method), type(recipe.method).__qualname__)
    if not isinstance(recipe.budget, Budget | None):
        raise Problem(f"budget must be an object such as Budget(...), got {recipe.budget!r}")
    method, partition = f"method {recipe.method.name!r}", f"partition {type(recipe.partition).__name__}"
    for owner, part in (("the recipe", recipe), ("training", recipe.training), ("server", recipe.server), (method, recipe.method), (partition, recipe.partition), *[("budget", recipe.budget)] * (recipe.budget is not None)):
        for option in fields(part):
            _check_type(owner, option, getattr(part, option.name))


def _check_type(owner: str, option: Any, value: Any) -> None:
    kind = _kind(option)
    wanted = {"int": int, "float": (int, float), "bool": bool, "str": str}.get(kind.removesuffix(" | None"))
    if value is None and kind.endswith(" | None"):
        return
    if wanted and (not isinstance(value, wanted) or isinstance(value, bool) and wanted is not bool):
        raise Problem(f"{option.name} of {owner} must be {kind}, got {value!r}")
    if isinstance(value, float) and not isfinite(value):
        raise Problem(f"{option.name} of {owner} must be finite, got {value}")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Problem(f"{option.name} of {owner} must be text, got {value!r}: rename what it names")


def _kind(option: Any) -> str:
    """The type of a field in words, such as "int | None"."""
    return option.type if isinstance(option.type, str) else str(getattr(option.type, "__name__", option.type))


def load(path: str | Path) -> Recipe:
    """A recipe from a TOML file."""
    try:
        return compose(read(path))
    except Problem as problem:
        raise Problem(f"recipe {path}: {problem}") from problem


def read(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file; the file of a method is looked for beside it first."""
    try:
        return _beside(Path(path), tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Problem(f"{path} is not TOML: {error}") from error


def _beside(path: Path, tables: dict[str, Any]) -> dict[str, Any]:
    method = tables.get("method")
    file, colon, title = str(method.get("name", "")).rpartition(":") if isinstance(method, dict) else ("", "", "")
    if file.endswith(".py") and (path.parent / file).is_file():
        method["name"] = f"{path.parent / file}{colon}{title}"
    return tables


def dump(recipe: Recipe, file: str | None = None) -> str:
    """The recipe as TOML; `load` gives it back."""
    return "\n".join(f"[{title}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in table.items()) for title, table in tabulate(recipe, file).items())


def _toml(value: Any) -> str:
    """Numbers, truth values and strings are written as in JSON, but letters stay letters."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# As run: the settings of the paper's own runs, as its companion code and numbers show them (docs/paper.md).
# As printed: what the text says. Both are tables laid under the user's own.
_PAPER = {"clients": 100, "active": 10, "rounds": 400}
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "as-run": {
        "run": {**_PAPER, "mean": "equal"},
        "training": {"augment": True},
        "partition": {"name": "isolation-overlap"},
        "method": {"sensitivity": "as-run", "kappa": 0.01, "delta": 0.02, "state": "all", "bound": 1e-12, "floor": 1e-12, "importance": 0.0},
    },
    "as-printed": {
        "run": {**_PAPER, "mean": "size"},
        "training": {"augment": False},
        "partition": {"name": "isolation"},
        "method": {"sensitivity": "theorem", "delta": 0.02, "state": "trainable"},
    },
}


def underlay(preset: str, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The user's tables over those of a preset."""
    return overlay(tables, PRESETS[choose("preset", preset, PRESETS)])


def overlay(tables: Mapping[str, Mapping[str, Any]], base: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Tables over those of a base; the base's options for another partition, or that the chosen method does not have, are left out."""
    merged = {title: {**base.get(title, {}), **tables.get(title, {})} for title in {**base, **tables}}
    own, method = tables.get("method", {}), merged.get("method", {})
    if "name" in own and "source" not in own:
        method.pop("source", None)  # that of the base's method
    known = {*foreign.RESERVED, *(option.name for option in fields(_kind_of(method)))}
    merged["method"] = {k: v for k, v in method.items() if k in known or k in own}
    other = base.get("partition", {}).get("name", "isolation")
    if tables.get("partition", {}).get("name", other) != other:
        merged["partition"] = dict(tables["partition"])
    return merged
