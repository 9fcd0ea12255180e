"""A run written down: frozen, with a digest, in Python or TOML."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from ladp.data import DATA
from ladp.data.isolation import Isolation
from ladp.data.partition import PARTITIONS
from ladp.errors import Problem, choose
from ladp.federation import MEANS
from ladp.mechanisms import METHODS, LaDP
from ladp.privacy.mechanism import Mechanism, Training

PLACES = ("root", "engine", "device", "workers")  # where and how fast, not what: they are left out of the digest


@dataclass(frozen=True)
class Recipe:
    """All that decides a run's result, and (PLACES) where it runs. The defaults are the paper's, on the embedded digits."""

    method: Mechanism = field(default_factory=LaDP)
    model: str = ""  # "" takes cnn-small for the digits and cnn otherwise
    norm: str | None = None
    dropout: float | None = None
    data: str = "digits"
    partition: Any = field(default_factory=Isolation)
    clients: int = 20
    active: int = 5
    rounds: int = 30
    training: Training = field(default_factory=Training)
    mean: str = "size"
    seed: int = 0
    precision: str = "auto"
    evaluate_every: int = 1
    root: str | None = None
    engine: str = "auto"
    device: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        choose("data set", self.data, DATA)
        choose("mean", self.mean, MEANS)
        for name, least in (("clients", 1), ("active", 1), ("rounds", 1), ("evaluate_every", 1), ("workers", 1)):
            if getattr(self, name) is not None and not getattr(self, name) >= least:
                raise Problem(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.active > self.clients:
            raise Problem(f"{self.active} active clients asked for, but there are {self.clients}: active must be at most the number of clients")
        if not self.model:
            object.__setattr__(self, "model", "cnn-small" if self.data == "digits" else "cnn")

    @property
    def digest(self) -> str:
        """sha256 of what decides the result."""
        tables = {name: {k: v for k, v in table.items() if k not in PLACES} for name, table in tabulate(self).items()}
        return sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def tabulate(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The recipe as tables: [run], [training], [method] and [partition], without what is not set."""
    run = {f.name: getattr(recipe, f.name) for f in fields(recipe) if f.name not in ("method", "partition", "training")}
    kind = next(name for name, kind in PARTITIONS.items() if type(recipe.partition) is kind)
    tables = {
        "run": run,
        "training": asdict(recipe.training),
        "method": {"name": recipe.method.name, **asdict(recipe.method)},
        "partition": {"name": kind, **asdict(recipe.partition)},
    }
    return {title: {k: v for k, v in table.items() if v is not None} for title, table in tables.items()}


def compose(tables: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """The recipe that tables describe; whatever they leave out has its default, whatever is unknown is refused."""
    for title in tables:
        choose("recipe table", title, ("run", "training", "method", "partition"))
    run = dict(tables.get("run", {}))
    for title in ("method", "partition", "training"):
        if title in run:
            raise Problem(f"{title!r} stands in [run]: give it a table of its own, [{title}]")
    method, partition = dict(tables.get("method", {})), dict(tables.get("partition", {}))
    parts = {}
    if method:
        kind = METHODS[choose("method", method.pop("name", "ladp"), METHODS)]
        parts["method"] = _make(kind, f"method {kind.name!r}", method)
    if partition:
        name = choose("partition", partition.pop("name", "isolation"), PARTITIONS)
        parts["partition"] = _make(PARTITIONS[name], f"partition {name!r}", partition)
    if "training" in tables:
        parts["training"] = _make(Training, "training", tables["training"])
    return _make(Recipe, "the recipe", {**run, **parts})


def _make(kind: type, owner: str, options: Mapping[str, Any]) -> Any:
    """An instance of a frozen dataclass from options, refusing unknown names and wrong types."""
    known = {f.name: f for f in fields(kind)}
    for name, value in options.items():
        choose(f"option of {owner}", name, known)
        _check_type(owner, known[name], value)
    return kind(**options)


def _check_type(owner: str, option: Any, value: Any) -> None:
    kind = option.type if isinstance(option.type, str) else str(getattr(option.type, "__name__", option.type))
    wanted = {"int": int, "float": (int, float), "bool": bool, "str": str}.get(kind.removesuffix(" | None"))
    wrong = isinstance(value, bool) and wanted is not bool
    if wanted and (wrong or not isinstance(value, wanted)):
        raise Problem(f"{option.name} of {owner} must be {kind}, got {value!r}")


def load(path: str | Path) -> Recipe:
    """A recipe from a TOML file."""
    try:
        return compose(tomllib.loads(Path(path).read_text()))
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"recipe {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"recipe {path} is not TOML: {error}") from error


def dump(recipe: Recipe) -> str:
    """The recipe as TOML; `compose(tomllib.loads(...))` gives it back."""
    return "\n".join(f"[{title}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items()) for title, table in tabulate(recipe).items())


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
    """The user's tables over those of a preset; method options that the chosen method does not have are left out of the preset."""
    base = PRESETS[choose("preset", preset, PRESETS)]
    merged = {title: {**base.get(title, {}), **tables.get(title, {})} for title in {**base, **tables}}
    kind = METHODS[choose("method", merged["method"].get("name", "ladp"), METHODS)]
    known, own = {"name", *(f.name for f in fields(kind))}, tables.get("method", {})
    merged["method"] = {k: v for k, v in merged["method"].items() if k in known or k in own}
    if "name" in tables.get("partition", {}):
        merged["partition"] = dict(tables["partition"])
    return merged
