"""Every method, one file and one line each; others by the path of their class."""

from ladp.errors import choose
from ladp.mechanisms import foreign
from ladp.mechanisms.adapldp import AdapLDP
from ladp.mechanisms.certified import Certified
from ladp.mechanisms.dpa import DPA
from ladp.mechanisms.full import Full
from ladp.mechanisms.ladp import LaDP
from ladp.mechanisms.none import NoNoise
from ladp.mechanisms.sensitive import Sensitive
from ladp.mechanisms.time_varying import TimeVarying
from ladp.privacy.mechanism import Mechanism

METHODS: dict[str, type[Mechanism]] = {method.name: method for method in (NoNoise, Full, TimeVarying, Sensitive, DPA, AdapLDP, LaDP, Certified)}


def find(name: str, source: str | None = None) -> type[Mechanism]:
    """The class of a method by its name in the table, or by file.py:Class or package.module:Class."""
    if name in METHODS or not foreign.is_path(name):
        return METHODS[choose("method", name, METHODS)]
    return named(foreign.load(name, source), name)


def named(kind: type[Mechanism], place: str) -> type[Mechanism]:
    """A class whose name is its own: runs of two methods must not look alike."""
    foreign.check(kind, place)
    return foreign.refuse_name(kind, place) if METHODS.get(kind.name, kind) is not kind else kind


def address(kind: type[Mechanism], file: str | None = None) -> dict[str, str]:
    """What a recipe says of a class so that `find` gives it back: its name, or where it is and what its file said."""
    return {"name": kind.name} if METHODS.get(kind.name) is kind else foreign.address(kind, file)
