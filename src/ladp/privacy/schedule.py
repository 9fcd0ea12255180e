"""Who takes part in a run how often, in what, and what must be so for its price to hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from ladp.errors import Problem, choose
from ladp.privacy.accounting import UNITS, Bound, Charge, expected, turn

FURTHEST = 10**6  # rounds
NEIGHBOURS = {
    "record": "one record of one client is added or removed; the gradient of every record is clipped, and what it is divided by does not depend on the data",
    "client": "one client's whole data set is replaced: its upload, clipped as a whole to C, moves by up to 2 C",
}
SAMPLING = "every step takes each record independently with probability {rate:g}, unseen by anyone"
LAST = "only the last local step counts on the others' noise; the {before} before it are paid at z"
ALWAYS = (
    "noise, clip bounds and choice of layers depend on nothing but what the view has been shown; cohorts are drawn without looking at data",
    "uploads that fail after their noise was drawn count as participations",
)


@dataclass(frozen=True)
class Schedule:
    """Who takes part how often, and in what: `active` of `clients` are drawn each round; or a client takes part in `participations` rounds at most."""

    unit: str = "record"
    clients: int = 100
    active: int = 100
    rounds: int = 400
    rate: float = 1.0
    steps: int = 1
    colluders: int = 1
    participations: int | None = None
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        choose("unit", self.unit, UNITS)
        if not 1 <= self.active <= self.clients:
            raise Problem(f"active clients must be between 1 and the {self.clients} clients there are, got {self.active}")
        if not 1 <= self.rounds <= FURTHEST:
            raise Problem(f"rounds must be between 1 and {FURTHEST:,}, got {self.rounds}")
        if not 0 < self.rate <= 1:
            raise Problem(f"the rate of records must be above 0 and at most 1, got {self.rate}")
        if self.participations is not None and not 1 <= self.participations <= self.rounds:
            raise Problem(f"participations must be between 1 and the {self.rounds} rounds there are, got {self.participations}")

    @property
    def draws(self) -> tuple[int, float]:
        """In how many rounds a client takes part, and with what chance in each."""
        return (self.rounds, self.active / self.clients) if self.participations is None else (self.participations, 1.0)

    @property
    def rule(self) -> str:
        """How participations are counted, in words."""
        if self.participations is not None:
            return f"a client takes part in at most {self.participations} of {self.rounds} rounds: whoever takes part more often is not covered"
        if self.active == self.clients:
            return f"every client takes part in all {self.rounds} rounds"
        drawn = f"{self.active} of {self.clients} clients are drawn each of {self.rounds} rounds, {self.rounds * self.active / self.clients:g} times a client on average"
        return f"{drawn}; delta is its mean over these draws, and a client drawn more often has spent more: no draw of clients amplifies"

    def turn(self, z: float, view: str) -> tuple[Charge, ...]:
        """What one participation costs."""
        weights, rate = self.weights, self.rate
        return turn(self.unit, view, z, rate=rate, steps=self.steps, active=self.active, colluders=self.colluders, weights=weights)

    def cost(self, z: float, view: str, delta: float) -> Bound:
        """What the whole schedule costs."""
        return expected(self.turn(z, view), *self.draws, delta)

    def assumptions(self, view: str) -> tuple[str, ...]:
        """What must be so for the figures to hold."""
        said = [NEIGHBOURS[self.unit]] + ([SAMPLING.format(rate=self.rate)] if self.unit == "record" and self.rate < 1 else [])
        if view == "peer":
            said += [f"the server is trusted; {self.colluders} of {self.active} active clients collude and know their own noise; the others' uploads all arrive"]
            said += [LAST.format(before=self.steps - 1)] if self.unit == "record" and self.steps > 1 else []
        return (*said, *ALWAYS)
