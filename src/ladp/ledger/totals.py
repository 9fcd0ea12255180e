"""What the rows of a ledger add up to, taken in one by one, each only if its seal follows from all before."""

from collections import Counter
from pathlib import Path

from ladp.ledger.entry import VIEWS, Entry, Row, seal
from ladp.ledger.head import Head
from ladp.ledger.spending import Tally
from ladp.ledger.store import corrupt
from ladp.privacy.accounting import Charge

Address = tuple[str, str, int, str, str | None]  # client, run, round, unit, digest of what was let out


class Totals:
    """From the first row on: where the chain stands, charges by client, unit and view, and which releases may be played again."""

    def __init__(self, path: Path, origin: Head):
        self.path, self.head = path, origin
        self.charges: dict[tuple[str, str, str], Counter[tuple[float, float]]] = {}
        self.releases: Counter[tuple[str, str]] = Counter()
        self.runs: set[str] = set()
        self.replays: dict[Address, int] = {}

    def follow(self, stands: Head, rows: list[Row]) -> None:
        """Take in the rows after those known already; together they must lead to where the file says it stands."""
        if stands.sequence < self.head.sequence:
            raise corrupt(self.path, f"it stands at release {stands.sequence} and has stood at {self.head.sequence}, so it is an older copy")
        for row in rows:
            self._take(row)
        if self.head != stands:
            raise corrupt(self.path, f"its rows end at release {self.head.sequence} with another seal than its head, which says {stands.sequence}")

    def _take(self, row: Row) -> None:
        number = self.head.sequence + 1
        try:
            right = row[0] == number and row[-1] == seal(self.head.seal, row[:-1])
            entry = Entry.of(row)
        except (TypeError, ValueError, AttributeError):
            right = False
        if not right:
            raise corrupt(self.path, f"release {number} was changed or taken out")
        self.head = Head(number, entry.seal)
        self._count(entry)

    def _count(self, entry: Entry) -> None:
        self.releases[entry.client, entry.unit] += 1
        self.runs.add(entry.run)
        if entry.replay is not None:
            self.replays[entry.client, entry.run, entry.round, entry.unit, entry.replay] = entry.sequence
        for view in VIEWS:
            total = self.charges.setdefault((entry.client, entry.unit, view), Counter())
            for charge in entry.borne(view):
                total[charge.multiplier, charge.rate] += charge.times

    def tally(self, client: str, unit: str, view: str) -> Tally:
        """All charges of a client's releases, merged."""
        total = self.charges.get((client, unit, view), {})
        return tuple(Charge(*kind, times) for kind, times in sorted(total.items()))
