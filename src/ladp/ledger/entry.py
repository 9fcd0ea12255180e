"""One release as the ledger keeps it: events, never epsilons, each row sealed over the one before."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from secrets import token_hex
from types import MappingProxyType

from ladp.errors import Problem, choose
from ladp.privacy.accounting import Charge

UNITS, VIEWS = ("record", "client"), ("server", "peer")
UNBOUNDED = (Charge(0.0),)  # no noise at all: what is not known to be bounded costs that much
Costs = Mapping[str, Sequence[Charge]]  # what a release is charged in each view
Row = tuple[int, str, str, int, str, str, str | None, float, str]


@dataclass(frozen=True)
class Entry:
    """One charged release: its number in the file, whose, of which run and round, for which unit, and its charges by view.

    `replay` is the digest of what was let out, where the caller gave one; `time` (seconds, UTC) is for people alone; `seal` is the
    sha256 of the seal before and of all the rest.
    """

    sequence: int
    client: str
    run: str
    round: int
    unit: str
    charges: Mapping[str, tuple[Charge, ...]]
    replay: str | None
    time: float
    seal: str = ""

    @property
    def content(self) -> tuple:
        """As it is stored, but for the seal."""
        return (self.sequence, self.client, self.run, self.round, self.unit, encode(self.charges), self.replay, self.time)

    @staticmethod
    def of(row: Row) -> "Entry":
        """From what is stored."""
        return Entry(*row[:5], decode(row[5]), *row[6:])

    def borne(self, view: str) -> tuple[Charge, ...]:
        """What it costs in a view. Where the peers' view was not charged it is the server's, of which what peers see is a function; the server's unbounded."""
        return self.charges.get(view, self.charges.get("server", UNBOUNDED))


def seal(before: str, content: tuple) -> str:
    """sha256 over the seal before and a row's content as it is stored."""
    return sha256(json.dumps([before, *content]).encode()).hexdigest()


def encode(charges: Costs) -> str:
    """Charges as text: by view, a list of [multiplier, rate, times]."""
    return json.dumps({view: [[c.multiplier, c.rate, c.times] for c in charges[view]] for view in sorted(charges)}, allow_nan=False)


@lru_cache(maxsize=4096)
def decode(text: str) -> Mapping[str, tuple[Charge, ...]]:
    """The charges again, to the last bit."""
    return MappingProxyType({view: tuple(Charge(*charge) for charge in charges) for view, charges in json.loads(text).items()})


def checked(unit: str, charges: Costs) -> Mapping[str, tuple[Charge, ...]]:
    """Charges that can be kept: plain numbers of known views and units."""
    choose("unit", unit, UNITS)
    if not charges:
        raise Problem(f"a release without charges: give those of the views {' and '.join(VIEWS)}, an empty list for a view that is shown nothing")
    return {choose("view", view, VIEWS): tuple(map(_plain, several)) for view, several in charges.items()}


@lru_cache(maxsize=4096)
def _plain(charge: Charge) -> Charge:
    multiplier, rate, times = float(charge.multiplier), float(charge.rate), int(charge.times)
    if not (isfinite(multiplier) and multiplier >= 0 and 0 < rate <= 1 and times >= 1):
        raise Problem(f"a charge needs a finite multiplier of at least 0, a rate in (0, 1] and times of at least 1, got {charge}")
    return Charge(multiplier, rate, times)


def merge(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """The same charges in order, those of one multiplier and rate added up: what an epsilon depends on."""
    total: dict[tuple[float, float], int] = {}
    for charge in charges:
        total[charge.multiplier, charge.rate] = total.get((charge.multiplier, charge.rate), 0) + charge.times
    return tuple(Charge(*kind, times) for kind, times in sorted(total.items()))


def name_run(digest: str) -> str:
    """A name for a run that no other run has: its recipe's digest and a random part. It is kept with the run, so that a resumed one has the same."""
    return f"{digest}/{token_hex(8)}"
