"""The types of an attack: what it is given, what it yields while it works, what it finds."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ladp.attacks.scene import Scene


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
