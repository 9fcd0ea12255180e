"""What a client may spend, and whether a next release still fits, with as few compositions as possible."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from ladp.errors import Problem, choose
from ladp.ledger.entry import UNITS, VIEWS, merge
from ladp.privacy.accounting import Bound, Charge, epsilon

Tally = tuple[Charge, ...]  # merged charges


@dataclass(frozen=True)
class Limit:
    """epsilon at delta for all that a client ever releases, of one unit, against one view."""

    epsilon: float
    delta: float
    view: str = "peer"
    unit: str = "record"

    def __post_init__(self) -> None:
        choose("view", self.view, VIEWS)
        choose("unit", self.unit, UNITS)
        if not self.epsilon > 0:
            raise Problem(f"the limit epsilon must be positive, got {self.epsilon}")
        if not 0 < self.delta < 1:
            raise Problem(f"the limit's delta must lie strictly between 0 and 1, got {self.delta}")


@dataclass(frozen=True)
class Refusal:
    """A client whose next release would exceed its limit: what it has spent, and what it would have spent."""

    client: str
    spent: Bound
    next: Bound
    limit: Limit

    def __str__(self) -> str:
        terms = f"delta {self.limit.delta:g}, unit {self.limit.unit}, view {self.limit.view}, {self.next.accountant}"
        return f"client {self.client} has spent epsilon {self.spent.epsilon:.6g} of {self.limit.epsilon:g}, and its next release would make it {self.next.epsilon:.6g} ({terms})"


class Exhausted(Problem):
    """Releases that would exceed a limit; nothing was written for anybody."""

    def __init__(self, refusals: tuple[Refusal, ...]):
        more = f", and {len(refusals) - 1} more clients likewise" if len(refusals) > 1 else ""
        super().__init__(f"{refusals[0]}{more}: let the round go on without, or grant a larger limit")
        self.refusals, self.clients = refusals, tuple(refusal.client for refusal in refusals)
        self.client, self.spent, self.next, self.limit = self.clients[0], refusals[0].spent, refusals[0].next, refusals[0].limit


@lru_cache(maxsize=4096)
def compose(tally: Tally, delta: float) -> Bound:
    """Epsilon of merged charges at delta."""
    if any(charge.multiplier == 0 for charge in tally):
        return Bound(inf, delta, "none applies: a release without noise")
    return epsilon(tally, delta)


def within(some: Tally, more: Tally) -> bool:
    """Whether `more` holds at least all that `some` does."""
    held = {(c.multiplier, c.rate): c.times for c in more}
    return all(held.get((c.multiplier, c.rate), 0) >= c.times for c in some)


class Gauge:
    """Whether tallies fit under an epsilon at a delta.

    More releases never cost less, so a tally within one that fits does too, and one that holds one that does not does not. A question that
    these leave open is asked some releases ahead, farther every time that it still fits: T equal rounds take about 2 log2(T) compositions.
    """

    def __init__(self, epsilon: float, delta: float):
        self.epsilon, self.delta, self.stride = epsilon, delta, 1
        self.fitting: list[Tally] = []
        self.unfit: list[Tally] = []

    def fits(self, spent: Tally, coming: Tally) -> bool:
        """Whether `coming` may be spent after `spent`."""
        total = merge(spent + coming)
        if any(within(total, known) for known in self.fitting):
            return True
        return self._ask(spent, coming)

    def _ask(self, spent: Tally, coming: Tally) -> bool:
        """In strides that grow while they fit; what differs from all before is looked at for itself alone."""
        repeated = within(tuple(replace(charge, times=1) for charge in coming), spent)
        stride = self.stride if repeated else 1
        while not self._holds(merge(spent + tuple(replace(c, times=c.times * stride) for c in coming))):
            if stride == 1:
                return False
            stride //= 2
        self.stride = 2 * stride if repeated else self.stride
        return True

    def _holds(self, tally: Tally) -> bool:
        """As known, or composed and remembered in place of what that makes superfluous."""
        if any(within(known, tally) for known in self.unfit):
            return False
        if compose(tally, self.delta).epsilon <= self.epsilon:
            self.fitting = [tally, *(known for known in self.fitting if not within(known, tally))]
            return True
        self.unfit = [tally, *(known for known in self.unfit if not within(tally, known))]
        return False


def refusal(client: str, spent: Tally, coming: Iterable[Charge], limit: Limit) -> Refusal:
    """The numbers behind a no."""
    return Refusal(client, compose(spent, limit.delta), compose(merge((*spent, *coming)), limit.delta), limit)
