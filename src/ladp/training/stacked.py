"""The CUDA engine: the whole cohort trains as one computation, captured as a graph and replayed for every step."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.privacy.mechanism import Seen
from ladp.privacy.release import release
from ladp.training.cuda import kernels
from ladp.training.cuda.program import Program, arrange, trace
from ladp.training.cuda.state import State, pack
from ladp.training.local import Schedule
from ladp.training.sequential import Sequential
from ladp.training.work import Uploads, Work, refuse_nan

GRAPHS = 64  # a step is captured once for each group of clients and batch size; what goes beyond runs uncaptured
REMEMBERED = 1024  # clients whose records are not drawn again
CAPTURING = Lock()  # runs in several threads take turns


class Stacked:
    """Trains, noises and averages K clients as rows of one matrix; a model that cannot be stacked is trained by the plain engine instead."""

    def __init__(self, work: Work):
        on_device = {name: getattr(work, name).to(work.device) for name in ("images", "labels", "test_images", "test_labels")}
        self.work = replace(work, **on_device)
        self.plain = Sequential(self.work)
        self.cohort = Cohort.of(self.work)

    def round(self, seen: Seen, cohort: list[int], counts: Tensor, memory: Tensor | None = None) -> Uploads:
        if self.cohort is None:
            return self.plain.round(seen, cohort, counts, memory)
        try:
            rows, losses = self.cohort.train(seen, cohort)
        except torch.OutOfMemoryError as error:
            raise Problem(f"{len(cohort)} clients with batches of {self.work.training.batch} do not fit into the memory of {self.work.device}: take fewer active clients or a smaller batch") from error
        tallies = counts + seen.steps.unsqueeze(1) * self.cohort.counted
        keys = [self.work.key.at("noise", seen.round, client) for client in cohort]
        try:
            receipt = release(self.work.mechanism, seen, rows, keys, memory)
        finally:  # the device is asked only now, when all is under way; a loss that is not finite explains whatever a method says of it
            losses = losses.cpu()
            self._refuse_nan(seen, cohort, rows, losses)
        return Uploads(rows, tallies, losses, receipt)

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


class Cohort:
    """The clients of a round on the device, the largest first, so that those still at work are always the first ones."""

    def __init__(self, work: Work, program: Program, working: torch.dtype, captures: bool):
        self.work, self.program, self.captures = work, program, captures
        longest = work.training.epochs * int(work.split.sizes().max())
        self.state = State.create(work.active, longest, program.arrangement, work.dtype, working, work.device)
        self.graphs: dict[tuple[int, int, int], torch.cuda.CUDAGraph] = {}
        self.prepared: dict[tuple[int, ...], tuple] = {}
        self.records = lru_cache(REMEMBERED)(work.split.indices)
        buffers = {name: work.model.get_buffer(name).reshape(-1) for name in work.layout.counters}
        self.counted = torch.cat([torch.empty(0, dtype=torch.int64), *(torch.full_like(b, name in program.counters, device="cpu") for name, b in buffers.items())])

    @staticmethod
    def of(work: Work) -> "Cohort | None":
        """With kernels where the device and the precision have them, in plain torch elsewhere; None if the model cannot be stacked."""
        if kernels(work.device) and work.precision != "float64":
            from ladp.training.cuda.fused import FUSED, FusedProgram, fuse

            table, kind, finish = FUSED, FusedProgram, fuse
        else:
            table, kind, finish = None, Program, list
        if (nodes := trace(work.model, work.layout, table)) is None:
            return None
        program = kind(finish(nodes), arrange(work.layout, nodes), work.images, work.labels, work.training.lr, work.training.clip)
        return Cohort(work, program, torch.bfloat16 if work.precision == "bf16" else work.dtype, kind is not Program)

    def train(self, seen: Seen, cohort: list[int]) -> tuple[Tensor, Tensor]:
        """Algorithm 2, lines 1 to 9, for all clients: their trained weights [K, size] and mean losses [K], both still on their way."""
        place, orders, path = self.prepared.pop((seen.round, *cohort), None) or self._prepare(seen.round, cohort)
        self._capture(path)
        keys = [self.work.key.at("dropout", seen.round, cohort[k]) for k in place]
        self.state.begin(seen.current, self.program.arrangement, orders, keys)
        for step in path:
            self.graphs[step].replay() if step in self.graphs else self._step(*step)
        back = torch.tensor(place).argsort().to(self.work.device)
        rows, losses = self.program.arrangement.collect(self.state.weights), self.state.losses[back] / seen.steps.to(self.work.device)
        if seen.round < seen.rounds:  # while the device is at work
            coming = self.work.cohort(seen.round + 1)
            self.prepared = {(seen.round + 1, *coming): self._prepare(seen.round + 1, coming)}
        return rows if place == sorted(place) else rows[back], losses

    def _prepare(self, round: int, cohort: list[int]) -> tuple[list[int], list[np.ndarray], list[tuple[int, int, int]]]:
        """Which client of the cohort takes which place, the records it meets there, and the steps of the round."""
        held, training = [self.records(client) for client in cohort], self.work.training
        place = sorted(range(len(cohort)), key=lambda k: -len(held[k]))
        orders = [pack(Schedule.draw(self.work.key, round, cohort[k], len(held[k]), training), held[k]) for k in place]
        return place, orders, list(steps([len(held[k]) for k in place], training.epochs, training.batch))

    def _step(self, first: int, last: int, batch: int) -> None:
        self.program.step(self.state.of(first, last), batch)

    def _capture(self, path: list[tuple[int, int, int]]) -> None:
        """A graph for each kind of step that comes more than once; compiling and capturing leave the state changed, so this is done before `begin`."""
        for step, times in Counter(path).items() if self.captures else ():
            if times > 1 and step not in self.graphs and len(self.graphs) < GRAPHS:
                with CAPTURING:
                    self.graphs[step] = self._graph(step)

    def _graph(self, step: tuple[int, int, int]) -> torch.cuda.CUDAGraph:
        side, graph = torch.cuda.Stream(self.work.device), torch.cuda.CUDAGraph()
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
