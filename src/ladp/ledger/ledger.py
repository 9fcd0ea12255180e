"""The ledger itself: charge, ask, check."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Self

from ladp.errors import Problem, choose
from ladp.ledger import head as heads
from ladp.ledger.entry import UNITS, VIEWS, Costs, Entry, checked, merge, seal
from ladp.ledger.head import Head
from ladp.ledger.spending import Exhausted, Gauge, Limit, Refusal, compose, refusal
from ladp.ledger.store import Store, corrupt
from ladp.ledger.totals import Totals
from ladp.privacy.accounting import Bound


@dataclass(frozen=True)
class Report:
    """What a ledger that was checked from the first row to the last holds."""

    path: str
    releases: int
    clients: int
    runs: int
    seal: str
    heads: tuple[str, ...]


class Ledger:
    """The ledger in one file, of one client or of many. Threads and processes may share it; whoever writes waits for the others.

    `anchor` is a file elsewhere that keeps the head too; `adopt` accepts that head files are missing although there are releases; `clock` gives
    the time to write down; a file that is locked for `timeout` seconds is a Problem.
    """

    def __init__(self, path: str | PathLike[str], anchor: str | PathLike[str] | None = None, *, adopt: bool = False,
                 clock: Callable[[], float] = time.time, timeout: float = 30.0):  # fmt: skip
        self.path, self.clock, self._turn = Path(path), clock, RLock()
        beside = self.path.with_name(self.path.name + ".head")
        self._heads = {beside: False} | ({Path(anchor): True} if anchor is not None else {})  # whether to wait for the disk
        self._gauges: dict[tuple[float, float], Gauge] = {}
        self._missed()
        self._store = Store(self.path, timeout)
        try:
            self.verify(adopt)
        except BaseException:
            self._store.close()
            raise

    def charge(self, client: str, run: str, round: int, unit: str, charges: Costs, limit: Limit | None = None, *, replay: str | None = None) -> Entry:
        """Charge one release, before it leaves; Exhausted, and nothing written, if it would exceed the limit."""
        return self.charge_all(run, round, unit, {client: charges}, limit, {client: replay} if replay else {})[0]

    def charge_all(self, run: str, round: int, unit: str, charges: Mapping[str, Costs], limit: Limit | None = None,
                   replays: Mapping[str, str] = {}) -> list[Entry]:  # fmt: skip
        """Charge the releases of a round's clients together: all of them, or with Exhausted none."""
        asked = [self._asked(client, run, round, unit, costs, replays.get(client)) for client, costs in charges.items()]
        with self._turn:
            if limit:
                self._sift(asked, limit)  # once before: composing may take seconds, for which nobody else need wait
            with self._store.alone():
                known, new = self._sift(asked, limit)
                known |= {entry.client: entry for entry in self._append(new)}
            self._keep()
        return [known[entry.client] for entry in asked]

    def _asked(self, client: str, run: str, round: int, unit: str, costs: Costs, replay: str | None) -> Entry:
        """A release that has no number yet."""
        return Entry(0, str(client), str(run), int(round), unit, checked(unit, costs), replay, float(self.clock()))

    def admit(self, run: str, round: int, unit: str, cohort: Sequence[str], cost: Callable[[Sequence[str]], Mapping[str, Costs]], limit: Limit | None = None,
              replays: Mapping[str, str] = {}) -> tuple[list[Entry], list[Refusal]]:  # fmt: skip
        """Charge whoever of the cohort can pay, and say who cannot and so takes no part.

        `cost` says what a cohort pays, and is asked again whenever somebody drops out: fewer uploads hide each other less.
        """
        refused: list[Refusal] = []
        while cohort:
            try:
                return self.charge_all(run, round, unit, cost(cohort), limit, replays), refused
            except Exhausted as exhausted:
                refused += exhausted.refusals
                cohort = [client for client in cohort if client not in exhausted.clients]
        return [], refused

    def spent(self, client: str, view: str, delta: float, unit: str = "record") -> Bound:
        """What all releases of a client, in all runs, add up to in a view."""
        choose("view", view, VIEWS)
        choose("unit", unit, UNITS)
        with self._turn:
            return compose(self._follow().tally(client, unit, view), delta)

    def accounts(self) -> dict[tuple[str, str], int]:
        """How many releases there are by client and unit."""
        with self._turn:
            return dict(self._follow().releases)

    def entries(self, client: str | None = None, run: str | None = None) -> list[Entry]:
        """The releases in the order in which they were charged."""
        with self._turn:
            rows = self._store.read(0)[1]
        return [Entry.of(row) for row in rows if client in (None, row[1]) and run in (None, row[2])]

    def verify(self, adopt: bool = False) -> Report:
        """Everything once more from the first row: pages, seals, heads; the first that does not fit is a Problem."""
        with self._turn, self._store.alone():
            self._store.found()
            self._store.check()
            self._totals = Totals(self.path, self._store.origin())
            totals = self._follow()
            for path, lasting in self._heads.items():
                self._compare(path, lasting, adopt)
        clients = {client for client, _ in totals.releases}
        return Report(str(self.path), totals.head.sequence, len(clients), len(totals.runs), totals.head.seal, tuple(map(str, self._heads)))

    def close(self) -> None:
        """Give the file back."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> Totals:
        """Totals with all that has been written since, by whomever."""
        self._totals.follow(*self._store.read(self._totals.head.sequence))
        return self._totals

    def _missed(self) -> None:
        """A file that is gone or empty is not begun anew where a head file tells of releases."""
        for path in () if self.path.exists() and self.path.stat().st_size else self._heads:
            if (said := heads.read(path)) and said.sequence:
                raise corrupt(self.path, f"it is {'empty' if self.path.exists() else 'gone'}, but {path} stands at release {said.sequence}")

    def _compare(self, path: Path, lasting: bool, adopt: bool) -> None:
        """The chain must go through what a head file says; a file that is missing is begun with the ledger, or when it is adopted."""
        said, stands = heads.read(path), self._totals.head
        if said is None or said.sequence == stands.sequence == 0:
            if stands.sequence and not adopt:
                raise Problem(f"{path} is missing, so whether releases are missing too cannot be known: put it back, or, if you know, `ladp ledger verify --adopt`")
            return heads.write(path, stands, lasting)
        if said.sequence > stands.sequence:
            raise corrupt(self.path, f"it stands at release {stands.sequence}, but {path} at {said.sequence}, so it is an older copy")
        if said.seal != self._store.seal(said.sequence):
            raise corrupt(self.path, f"its release {said.sequence} is not the one that {path} knows")

    def _keep(self) -> None:
        """Tell the head files where the ledger stands, in turn, so that they never go back."""
        with self._store.alone():
            stands = self._follow().head
            for path, lasting in self._heads.items():
                heads.write(path, stands, lasting)

    def _sift(self, asked: Sequence[Entry], limit: Limit | None) -> tuple[dict[str, Entry], list[Entry]]:
        """What has been charged before, by client, and what is new; Exhausted if that exceeds the limit."""
        self._follow()
        known = {entry.client: found for entry in asked if (found := self._replayed(entry))}
        new = [entry for entry in asked if entry.client not in known]
        if limit:
            self._refuse(new, limit)
        return known, new

    def _replayed(self, asked: Entry) -> Entry | None:
        """The row that this release has already, if it is the same one again."""
        number = self._totals.replays.get((asked.client, asked.run, asked.round, asked.unit, asked.replay))
        found = number and self._store.entry(number)
        return found if found and found.charges == asked.charges else None

    def _refuse(self, asked: Sequence[Entry], limit: Limit) -> None:
        """Raise Exhausted if a release would exceed the limit."""
        gauge = self._gauges.setdefault((limit.epsilon, limit.delta), Gauge(limit.epsilon, limit.delta))
        refused = []
        for entry in asked:
            if entry.unit != limit.unit:
                raise Problem(f"a release of unit {entry.unit} cannot be held against a limit of unit {limit.unit}")
            spent, coming = self._totals.tally(entry.client, limit.unit, limit.view), merge(entry.borne(limit.view))
            if not gauge.fits(spent, coming):
                refused.append(refusal(entry.client, spent, coming, limit))
        if refused:
            raise Exhausted(tuple(refused))

    def _append(self, asked: Sequence[Entry]) -> list[Entry]:
        """Number and seal what is new, and write it."""
        head, rows = self._totals.head, []
        for entry in asked:
            content = (head.sequence + 1, *entry.content[1:])
            head = Head(content[0], seal(head.seal, content))
            rows.append((*content, head.seal))
        self._store.append(rows, head)
        return [Entry.of(row) for row in rows]
