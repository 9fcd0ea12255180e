"""The types of an attack: what it is given, what it yields while it works, what it finds."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from json import dumps
from typing import Any, ClassVar

from ladp.attacks.scene import Scene
from ladp.errors import Problem


@dataclass(frozen=True)
class Step:
    """How far an attack has come."""

    done: int
    total: int
    news: str = ""


@dataclass(frozen=True)
class Findings:
    """What an attack found: `scores` as JSON, the ones that tell most first; `pictures`, SVG by name; `notes`, what must be known to read the scores."""

    scores: Mapping[str, Any]
    pictures: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack(ABC):
    """One attack: a frozen dataclass whose fields are its options. `view` says who attacks: `peer`, who is shown global models, or `server`, who is sent every upload."""

    name: ClassVar[str]
    view: ClassVar[str]

    @abstractmethod
    def carry_out(self, scene: Scene) -> Iterator[Step | Findings]:
        """Attack the run of `scene`, saying how far it is; the last thing yielded is the findings. It must leave the run as it was."""

    def digest(self, recipe: str) -> str:
        """What an attack on a recipe is found by: the same options, the same findings."""
        return sha256(dumps([self.name, asdict(self), recipe], sort_keys=True).encode()).hexdigest()


def option(default: Any, help: str) -> Any:
    """A field of an attack with what the command line says of it."""
    return field(default=default, metadata={"help": help})


def refuse_unless(holds: bool, attack: Attack, name: str, wanted: str) -> None:
    """An option that cannot be: its name, what it must be, and what it is."""
    if not holds:
        raise Problem(f"{name} of attack {attack.name!r} must be {wanted}, got {getattr(attack, name)!r}")
