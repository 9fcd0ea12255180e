"""The CUDA engine: the whole cohort trains as one computation, captured as a graph and replayed for every step."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.keys import Key
from ladp.privacy.mechanism import Seen
from ladp.privacy.release import release
from ladp.training.cuda import kernels
from ladp.training.cuda.program import Program, arrange, trace
from ladp.training.cuda.state import State, lay, pack
from ladp.training.local import Schedule
from ladp.training.recordwise import recordwise
from ladp.training.sequential import Sequential
from ladp.training.work import Uploads, Work, refuse_nan

GRAPHS = 64  # a step is captured once for each group of clients and batch size; what goes beyond runs uncaptured
REMEMBERED = 1024  # clients whose records are not drawn again
HELD = ("images", "labels", "test_images", "test_labels")  # what a work holds that the device needs
CAPTURING = Lock()  # runs in several threads take turns


class Stacked:
    """Trains, noises and averages K clients as rows of one matrix; a model that cannot be stacked is trained by the plain engine instead."""

    def __init__(self, work: Work):
        on_device = {name: getattr(work, name).to(work.device) for name in HELD}
        self.work = replace(work, **on_device)
        self.plain = Sequential(self.work)
        self.crew = Crew.of(self.work)
        self.cohort = self.gather()

    def gather(self) -> "Cohort | None":
        """What trains its clients."""
        return None if self.work.recordwise else Cohort.of([self.work])

    def train(self, seen: Seen) -> tuple[Tensor, Tensor] | None:
        """The cohort's trained weights [K, size] and mean losses [K]; None if the model cannot be stacked."""
        return self.cohort and self.cohort.train([(self.crew, seen)])[0]

    def round(self, seen: Seen, cohort: list[int], counts: Tensor, memory: Tensor | None = None) -> Uploads:
        if self.work.recordwise:
            return self._step(seen, counts, memory)
        if (trained := self.train(seen)) is None:
            return self.plain.round(seen, cohort, counts, memory)
        rows, losses = trained
        tallies = counts + seen.steps.unsqueeze(1) * self.cohort.counted
        keys = [self.work.key.at("noise", seen.round, client) for client in cohort]
        try:
            receipt = release(self.work.mechanism, seen, rows, keys, memory)
        finally:  # the device is asked only now, when all is under way; a loss that is not finite explains whatever a method says of it
            losses = losses.cpu()
            self._refuse_nan(seen, cohort, rows, losses)
        return Uploads(rows, tallies, losses, receipt)

    def _step(self, seen: Seen, counts: Tensor, memory: Tensor | None) -> Uploads:
        """A round where every local step is noised: all clients' records together (unit record)."""
        with fitting(self.work, len(seen.cohort), 1), self.work.key.at("dropout", seen.round).reign():
            rows, losses, receipt = recordwise(self.work, self.plain.model, self.work.images, self.work.labels, seen, memory)
        self._refuse_nan(seen, list(seen.cohort), rows, losses)
        return Uploads(rows, counts.repeat(len(rows), 1), losses, receipt)

    def _refuse_nan(self, seen: Seen, cohort: list[int], rows: Tensor, losses: Tensor) -> None:
        fine = losses.isfinite() & rows.sum(1).isfinite().cpu()
        for k in (~fine).nonzero().flatten().tolist():
            refuse_nan(self.work, seen, cohort[k], losses[k].item(), rows[k])

    def evaluate(self, row: Tensor, counts: Tensor) -> tuple[float, float]:
        """Test accuracy and mean test loss of a global model."""
        return self.plain.evaluate(row, counts)

    def close(self) -> None:
        """Give the device's memory back."""
        self.cohort = None


@contextmanager
def fitting(work: Work, clients: int, runs: int) -> Iterator[None]:
    """Too little memory on the device is one clear line."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        fewer = "fewer runs at once, " if runs > 1 else ""
        raise Problem(f"{clients} clients with batches of {work.training.batch} do not fit into the memory of {work.device}: take {fewer}fewer active clients or a smaller batch") from error


@dataclass(frozen=True, eq=False)
class Crew:
    """The clients of one run: what they work on, and the records of those who took part lately."""

    work: Work
    records: Callable[[int], np.ndarray]

    @staticmethod
    def of(work: Work) -> "Crew":
        return Crew(work, lru_cache(REMEMBERED)(work.split.indices))

    def orders(self, round: int, cohort: Sequence[int]) -> list[np.ndarray]:
        """The records that each client of a cohort meets in a round, one after the other, packed."""
        held, key, training = [self.records(client) for client in cohort], self.work.key, self.work.training
        return [pack(Schedule.draw(key, round, client, len(own), training), own) for client, own in zip(cohort, held)]

    def keys(self, seen: Seen) -> list[Key]:
        """Where each client's dropout comes from."""
        return [self.work.key.at("dropout", seen.round, client) for client in seen.cohort]


Call = tuple[Crew, int, tuple[int, ...]]  # a run's round, and the clients it sends into it


class Cohort:
    """The clients of a round, of one run or of several, on the device: the largest first, so that those still at work are always the first ones."""

    def __init__(self, works: Sequence[Work], program: Program, working: torch.dtype, captures: bool):
        self.work, self.program, self.captures = works[0], program, captures
        clients, longest = sum(work.active for work in works), max(work.training.epochs * int(work.split.sizes().max()) for work in works)
        self.state = State.create(clients, longest, program.arrangement, self.work.dtype, working, self.work.device)
        self.graphs: dict[tuple[int, int, int], torch.cuda.CUDAGraph] = {}
        self.prepared: dict[tuple[Call, ...], tuple] = {}
        buffers = {name: self.work.model.get_buffer(name).reshape(-1) for name in self.work.layout.counters}
        self.counted = torch.cat([torch.empty(0, dtype=torch.int64), *(torch.full_like(b, name in program.counters, device="cpu") for name, b in buffers.items())])

    @staticmethod
    def of(works: Sequence[Work]) -> "Cohort | None":
        """For runs that differ in their records, keys and methods only: with kernels where the device and the precision have them, in plain torch
        elsewhere; None if the model cannot be stacked."""
        work = works[0]
        if kernels(work.device) and work.precision != "float64":
            from ladp.training.cuda.fused import FUSED, FusedProgram, fuse

            table, kind, finish = FUSED, FusedProgram, fuse
        else:
            table, kind, finish = None, Program, list
        if not work.training.plain or (nodes := trace(work.model, work.layout, table)) is None:
            return None
        program = kind(finish(nodes), arrange(work.layout, nodes), work.images, work.labels, work.training.lr, work.training.clip)
        with fitting(work, sum(w.active for w in works), len(works)):
            return Cohort(works, program, torch.bfloat16 if work.precision == "bf16" else work.dtype, kind is not Program)

    def train(self, asked: Sequence[tuple[Crew, Seen]]) -> list[tuple[Tensor, Tensor]]:
        """Algorithm 2, lines 1 to 9, for all clients: trained weights [K, size] and mean losses [K] of each run, all still on their way."""
        with fitting(self.work, sum(len(seen.cohort) for _, seen in asked), len(asked)):
            return self._train(asked)

    def _train(self, asked: Sequence[tuple[Crew, Seen]]) -> list[tuple[Tensor, Tensor]]:
        calls = tuple((crew, seen.round, seen.cohort) for crew, seen in asked)
        place, order, path = self.prepared.pop(calls, None) or self._prepare(calls)
        self._capture(path)
        back, sent = torch.tensor(place).argsort(), torch.tensor([len(seen.cohort) for _, seen in asked])
        owners, keys = torch.arange(len(asked)).repeat_interleave(sent)[place], [key for crew, seen in asked for key in crew.keys(seen)]
        taken = torch.cat([seen.steps for _, seen in asked])
        back, owners, taken = (part.to(self.work.device) for part in (back, owners, taken))  # now: a copy to the device waits for all that is under way
        self.state.begin(torch.stack([seen.current for _, seen in asked]), owners, self.program.arrangement, order, [keys[k] for k in place])
        for step in path:
            self.graphs[step].replay() if step in self.graphs else self._step(*step)
        rows, losses = self.program.arrangement.collect(self.state.weights[: len(place)]), self.state.losses[back] / taken
        self._foresee(asked)
        return list(zip((rows if place == sorted(place) else rows[back]).split(sent.tolist()), losses.split(sent.tolist())))

    def _foresee(self, asked: Sequence[tuple[Crew, Seen]]) -> None:
        """Prepare the next round while the device is at work."""
        coming = tuple((crew, seen.round + 1, tuple(crew.work.cohort(seen.round + 1))) for crew, seen in asked if seen.round < seen.rounds)
        self.prepared = {coming: self._prepare(coming)} if coming else {}

    def _prepare(self, calls: Sequence[Call]) -> tuple[list[int], Tensor, list[tuple[int, int, int]]]:
        """Which of all clients takes which place, the records it meets there, and the steps of the round."""
        orders, training = [order for crew, round, cohort in calls for order in crew.orders(round, cohort)], self.work.training
        place = sorted(range(len(orders)), key=lambda k: -len(orders[k]))
        sizes = [len(orders[k]) // training.epochs for k in place]
        return place, lay([orders[k] for k in place], self.state.order.is_cuda), list(steps(sizes, training.epochs, training.batch))

    def _step(self, first: int, last: int, batch: int) -> None:
        self.program.step(self.state.of(first, last), batch)

    def _capture(self, path: list[tuple[int, int, int]]) -> None:
        """A graph for each kind of step that comes more than once; compiling and capturing leave the state changed, so this is done before `begin`."""
        for step, times in Counter(path).items() if self.captures else ():
            if times > 1 and step not in self.graphs and len(self.graphs) < GRAPHS:
                with CAPTURING:
                    self.graphs[step] = self._graph(step)

    @cached_property
    def side(self) -> torch.cuda.Stream:
        """Where steps are captured: always there, since graphs share only the memory of one stream."""
        return torch.cuda.Stream(self.work.device)

    def _graph(self, step: tuple[int, int, int]) -> torch.cuda.CUDAGraph:
        side, graph = self.side, torch.cuda.CUDAGraph()
        self.state.cursor.zero_()
        side.wait_stream(torch.cuda.current_stream(self.work.device))
        with torch.cuda.stream(side):
            self._step(*step)
        self.state.cursor.zero_()
        pool = next(iter(self.graphs.values())).pool() if self.graphs else None
        with torch.cuda.graph(graph, pool, side, capture_error_mode="thread_local"):
            self._step(*step)
        return graph


def steps(sizes: list[int], epochs: int, batch: int) -> Iterator[tuple[int, int, int]]:
    """(first, last, records): clients first..last-1 take their next `records` together, for clients of descending `sizes`.

    Every client takes its batches in its own order, a partial one at the end of each epoch: those who have full batches left take them
    together, and the partial ones come in between for clients of the same size.
    """
    full, groups, at = [size // batch for size in sizes], [], 0
    for size, same in groupby(sizes):
        groups.append((at, at := at + len(list(same)), size % batch))
    for number in range(1, epochs * full[0] + 1):
        yield 0, sum(epochs * n >= number for n in full), batch
        yield from ((a, b, rest) for a, b, rest in groups if rest and full[a] and number <= epochs * full[a] and number % full[a] == 0)
    for _ in range(epochs):
        yield from ((a, b, rest) for a, b, rest in groups if not full[a])
