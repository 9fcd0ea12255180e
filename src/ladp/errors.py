"""Refusals: one line that names the value and the remedy."""

from collections.abc import Iterable
from difflib import get_close_matches


class Problem(Exception):
    """Something the user can mend; the command line prints it as one line and exits with 2."""


def choose(kind: str, name: str, names: Iterable[str]) -> str:
    """`name` if it is one of `names`; otherwise a Problem that suggests the nearest."""
    names = list(names)
    if name in names:
        return name
    near = get_close_matches(str(name), names, 1, 0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise Problem(f"unknown {kind} {name!r}: {hint}known: {', '.join(names)}")
