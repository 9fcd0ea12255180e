"""Algorithm 1: the server's round loop, as a generator. It trains nothing itself and writes nothing."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from ladp.columns import mean
from ladp.errors import Problem
from ladp.privacy.mechanism import Allowance, Seen
from ladp.privacy.release import Receipt, broadcast
from ladp.server import AVERAGED
from ladp.training.work import Engine, Work

MEANS = ("size", "equal")
Gate = Callable[[int, list[int], float], tuple[list[int], list[int]]]  # round, cohort, z -> who has paid, and who cannot
VARIANCE_FLOOR = 1e-3


@dataclass(frozen=True)
class State:
    """All that the next round depends on: the last two global models, the integer buffers, what clients remember and the server announces and keeps."""

    round: int
    current: Tensor
    previous: Tensor | None
    counts: Tensor
    memory: dict[int, Tensor]
    shared: Tensor
    moments: dict[str, Tensor] = field(default_factory=dict)

    @property
    def tested(self) -> Tensor:
        """The model that is tested and kept in the end: the current one, or the server's mean over rounds."""
        return self.moments.get(AVERAGED, self.current)


@dataclass(frozen=True)
class Round:
    """What happened in a round: who took part, what they sent, and the state after it. `uploads` [K, size] is what the server was sent; it is valid until the next round begins. `seen` is what
    everyone had been shown before it."""

    state: State
    cohort: list[int]
    losses: Tensor
    receipt: Receipt
    examples: int
    seconds: float
    downlink: float
    refused: Sequence[int] = ()
    uploads: Tensor | None = None
    seen: Seen | None = None


def begin(work: Work) -> State:
    """The state before the first round: the fresh model (Algorithm 1, lines 1 and 2)."""
    layout = work.layout
    shared = torch.zeros(work.mechanism.announces(layout), dtype=torch.float64)
    return State(0, layout.read(work.model).to(work.device, work.dtype), None, layout.count(work.model), {}, shared)


def federate(work: Work, engine: Engine, state: State, rounds: int, weighting: str = "size", gate: Gate | None = None, past: Counter[int] | None = None) -> Iterator[Round]:
    """Rounds state.round + 1 to `rounds`, one at a time. `gate` charges a cohort before it begins; whoever cannot pay takes no part, as `past`, how often
    each client took part before, tells of earlier rounds (by default all whom they drew)."""
    active = work.active
    if not 1 <= active <= len(work.split):
        raise Problem(f"{active} active clients asked for, but there are {len(work.split)}: active must be between 1 and the number of clients")
    calendar = Calendar.of(work, state.round, rounds, past)
    while state.round < rounds:
        began = perf_counter()
        number = state.round + 1
        cohort, refused = calendar.admit(number, work.cohort(number), gate)  # line 4
        seen = work.see(number, rounds, state.current, state.previous, cohort, calendar.turns(cohort), state.shared, calendar.allowance(number, cohort))
        memory = gather(work, state, cohort)
        uploads = engine.round(seen, cohort, state.counts, memory)  # line 5
        refuse_uneven(work, seen, uploads.receipt)
        weights = seen.sizes.double() if weighting == "size" else torch.ones(len(cohort), dtype=torch.float64)
        weights /= weights.sum()
        current = mean(uploads.rows, weights)  # line 6, equation 3
        current, moments = work.server.step(work.layout, number, state.current, current, state.moments)
        refuse_overflow(work, seen, uploads.rows, current)
        downlink = broadcast(work.mechanism, seen, current, work.key.at("noise", number, "server"))
        floor_variances(work, current)
        counts = (weights @ uploads.counts.double()).round().long()
        shared = work.mechanism.exchange(seen, memory)
        kept = state.memory if memory is None else {**state.memory, **{c: memory[k].clone() for k, c in enumerate(cohort)}}
        state = State(number, current, state.current, counts, kept, shared, moments)
        calendar.past.update(cohort)
        examples = round(work.passes * int(seen.sizes.sum()))
        yield Round(state, cohort, uploads.losses, uploads.receipt, examples, perf_counter() - began, downlink, refused, uploads.rows, seen)


@dataclass
class Calendar:
    """How often each client has taken part and, under a budget, how often it will yet and what each round may spend: cohorts are known beforehand."""

    past: Counter[int]
    whole: Counter[int]
    multipliers: list[float]
    clip: float

    @staticmethod
    def of(work: Work, done: int, rounds: int, past: Counter[int] | None = None) -> "Calendar":
        """With `done` of the rounds already played."""
        past = Counter(client for number in range(1, done + 1) for client in work.cohort(number)) if past is None else Counter(past)
        if work.budget is None:
            return Calendar(past, Counter(), [], 0.0)
        cohorts = [work.cohort(number) for number in range(1, rounds + 1)]
        multipliers = work.budget.allot(work.mechanism.schedule(rounds), cohorts)
        return Calendar(past, Counter(client for cohort in cohorts for client in cohort), multipliers, work.budget.clip)

    def admit(self, number: int, cohort: list[int], gate: Gate | None) -> tuple[list[int], list[int]]:
        """Who takes part, having paid, and who was drawn and could not pay."""
        if gate is None or not self.multipliers:
            return cohort, []
        admitted, refused = gate(number, cohort, self.multipliers[number - 1])
        if not admitted:
            raise Problem(f"round {number}: none of its {len(cohort)} clients can pay for it; the run folder keeps all rounds before this one, and the ledger all that was spent")
        return admitted, refused

    def turns(self, cohort: list[int]) -> Tensor:
        """How often each client of the cohort took part before."""
        return torch.tensor([self.past[client] for client in cohort])

    def allowance(self, number: int, cohort: list[int]) -> Allowance | None:
        """What the budget grants the cohort in a round."""
        if not self.multipliers:
            return None
        z = torch.full((len(cohort),), self.multipliers[number - 1], dtype=torch.float64)
        return Allowance(z, self.clip, torch.tensor([self.whole[client] - 1 for client in cohort]) - self.turns(cohort))


def gather(work: Work, state: State, cohort: list[int]) -> Tensor | None:
    """What the clients of the cohort remember, [K, M]; None for a method that remembers nothing."""
    width = work.mechanism.remembers(work.layout)
    if not width:
        return None
    blank = torch.zeros(width, dtype=work.dtype, device=work.device)
    return torch.stack([state.memory.get(client, blank) for client in cohort])


def refuse_uneven(work: Work, seen: Seen, receipt: Receipt) -> None:
    """Under a budget clients hide each other in the mean only if all add the same noise; a method that looks at nothing private has no reason to differ."""
    if work.budget is None or work.mechanism.peeks:
        return
    for part in (receipt.sigma, receipt.multiplier):
        if not torch.equal(part, part[:1].expand_as(part)):
            k = int((part != part[0]).any(1).int().argmax())
            raise Problem(
                f"round {seen.round}: method {work.mechanism.name!r} gives client {seen.cohort[k]} other noise than client {seen.cohort[0]}, and the budget counts on "
                "everybody's being alike: let its shares depend on the global models alone; nothing of this round is shown to anybody"
            )


def refuse_overflow(work: Work, seen: Seen, rows: Tensor, current: Tensor) -> None:
    """Noise too large for the numbers of the model ends the run before it enters the global model."""
    if bool(current.isfinite().all()):
        return
    client = seen.cohort[int((~rows.isfinite().all(1)).int().argmax())]
    raise Problem(
        f"client {client}, round {seen.round}: with its noise, layer {work.layout.culprit(current)!r} of the upload is beyond what {current.dtype} holds; "
        "take a larger epsilon or a smaller sensitivity; the run folder keeps all rounds before this one"
    )


def floor_variances(work: Work, row: Tensor) -> None:
    """A BatchNorm variance that noise has pushed under VARIANCE_FLOOR is put back there; only methods that noise all state need it."""
    if work.mechanism.state == "all":
        for e in work.layout.entries:
            if e.name.endswith("running_var"):
                row[e.start : e.stop].clamp_min_(VARIANCE_FLOOR)
