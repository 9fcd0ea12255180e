"""How long training took."""

from collections.abc import Iterable, Mapping
from typing import Any


def training_seconds(records: Iterable[Mapping[str, Any]]) -> float:
    """The seconds of all rounds, evaluation left out."""
    return sum(record["seconds"] for record in records)
