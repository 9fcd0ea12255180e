"""The CPU engine: one client a worker process, everything in shared memory, a few bytes of message a client and nothing pickled."""

import ctypes
import gc
import os
import signal
import struct
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from multiprocessing.connection import Connection, wait
from threading import Thread
from time import sleep

import torch
import torch.multiprocessing as processes
from torch import Tensor

from ladp.errors import Problem
from ladp.privacy.mechanism import Allowance, Seen
from ladp.privacy.release import Receipt
from ladp.training.sequential import Sequential
from ladp.training.work import Uploads, Work

JOB = struct.Struct("<cqqqq")  # what to do; slot and client, or first and last test record; round and rounds
DONE = struct.Struct("<d q")  # a loss; how many were right
CHUNK = 500  # test records a job
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of glibc's mallopt


class Board:
    """What the server and the workers share: models in, uploads out."""

    def __init__(self, work: Work):
        layout, K = work.layout, work.active
        row = lambda *lead: torch.zeros(*lead, layout.size, dtype=work.dtype)  # noqa: E731
        self.current, self.previous, self.rows = row(), row(), row(K)
        self.counts = torch.zeros_like(layout.count(work.model))
        self.tallies = self.counts.repeat(K, 1)
        self.turns = torch.zeros(K, dtype=torch.int64)
        self.shared = torch.zeros(work.mechanism.announces(layout), dtype=torch.float64)
        self.multiplier, self.coming = torch.zeros(K, dtype=torch.float64), torch.zeros(K, dtype=torch.int64)
        self.memory = torch.zeros(K, work.mechanism.remembers(layout), dtype=work.dtype)
        layers = len(layout.layers(work.mechanism.layers, work.mechanism.state))
        self.receipt = torch.zeros(len(fields(Receipt)), K, layers, dtype=torch.float64)
        _share(*vars(self).values())

    def see(self, work: Work, slot: int, client: int, round: int, rounds: int) -> Seen:
        """What one client of the cohort is shown."""
        one = slice(slot, slot + 1)
        granted = Allowance(self.multiplier[one], work.budget.clip, self.coming[one]) if work.budget else None
        previous = self.previous if round > 1 else None
        return work.see(round, rounds, self.current, previous, (client,), self.turns[one], self.shared, granted)

    def show(self, seen: Seen, counts: Tensor, memory: Tensor | None) -> None:
        """Put up what the clients of a round may see."""
        self.current.copy_(seen.current)
        if seen.previous is not None:
            self.previous.copy_(seen.previous)
        self.counts.copy_(counts)
        K = len(seen.cohort)  # fewer than usual where some could not pay
        self.turns[:K].copy_(seen.turns)
        self.shared.copy_(seen.shared)
        if seen.allowance:
            self.multiplier[:K].copy_(seen.allowance.multiplier)
            self.coming[:K].copy_(seen.allowance.coming)
        if memory is not None:
            self.memory[:K].copy_(memory)


class Parallel:
    """Clients go to whichever worker is free; every worker computes with one thread, so the result does not depend on how many there are."""

    def __init__(self, work: Work):
        _share(work.images, work.labels, work.test_images, work.test_labels)
        self.work, self.board = work, Board(work)
        count = min(work.workers or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, work.active)
        context = processes.get_context("fork" if "fork" in processes.get_all_start_methods() and os.name == "posix" else "spawn")
        self.workers = [_hire(context, work, self.board) for _ in range(count)]

    def round(self, seen: Seen, cohort: list[int], counts: Tensor, memory: Tensor | None = None) -> Uploads:
        board, K = self.board, len(cohort)
        board.show(seen, counts, memory)
        jobs = [JOB.pack(b"T", k, client, seen.round, seen.rounds) for k, client in enumerate(cohort)]
        losses = [loss for loss, _ in self._hand_out(jobs)]
        if memory is not None:
            memory.copy_(board.memory[:K])
        receipt = Receipt(*(part[:K].clone() for part in board.receipt))
        return Uploads(board.rows[:K], board.tallies[:K], torch.tensor(losses, dtype=torch.float64), receipt)

    def evaluate(self, row: Tensor, counts: Tensor) -> tuple[float, float]:
        """Test accuracy and mean test loss of a global model, the test records shared among the workers."""
        self.board.current.copy_(row)
        self.board.counts.copy_(counts)
        total = len(self.work.test_labels)
        sums = self._hand_out([JOB.pack(b"E", at, min(at + CHUNK, total), 0, 0) for at in range(0, total, CHUNK)])
        return sum(right for _, right in sums) / total, sum(loss for loss, _ in sums) / total

    def _hand_out(self, jobs: list[bytes]) -> list[tuple[float, int]]:
        """Hand the jobs out, the next to whoever is done; answers in the order of the jobs."""
        answers: list[tuple[float, int] | None] = [None] * len(jobs)
        waiting, busy = list(range(len(jobs)))[::-1], {}
        for worker, pipe in self.workers[: len(jobs)]:
            busy[pipe] = (worker, waiting.pop())
            _ask(worker, pipe, jobs[busy[pipe][1]])
        while busy:
            for pipe in wait(list(busy)):
                worker, job = busy.pop(pipe)
                answers[job] = _answer(worker, pipe)
                if waiting:
                    busy[pipe] = (worker, waiting.pop())
                    _ask(worker, pipe, jobs[busy[pipe][1]])
        return answers

    def close(self) -> None:
        """Send the workers home, at once: what they hold is either on the board or not wanted any more."""
        for worker, pipe in self.workers:
            worker.terminate()
            pipe.close()
        for worker, _ in self.workers:
            worker.join()
        self.workers = []


def _share(*tensors: Tensor) -> None:
    """Move tensors to where all processes see them; in a container there is often little room there."""
    try:
        for tensor in tensors:
            tensor.share_memory_()
    except RuntimeError as error:
        raise Problem(
            f"shared memory (/dev/shm) has no room for {sum(t.nbytes for t in tensors):,} bytes that the worker processes share: enlarge it, in Docker by --shm-size=2g, "
            "and `ladp resume`, or begin anew with --engine sequential"
        ) from error


def _hire(context, work: Work, board: Board):
    ours, theirs = context.Pipe()
    worker = context.Process(target=_labour, args=(theirs, work, board, os.getpid()), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: the workers use none of them
        worker.start()
    theirs.close()
    return worker, ours


@contextmanager
def _alive(worker) -> Iterator[None]:
    """A worker that is gone is one clear line."""
    try:
        yield
    except (EOFError, OSError) as error:
        worker.join(1.0)
        raise Problem(
            f"a worker process ended with exit code {worker.exitcode} (-9: killed, most often for want of memory); "
            "nothing of this round was kept: go on with `ladp resume`, with fewer --workers if memory is short"
        ) from error


def _ask(worker, pipe: Connection, job: bytes) -> None:
    with _alive(worker):
        pipe.send_bytes(job)


def _answer(worker, pipe: Connection) -> tuple[float, int]:
    with _alive(worker):
        reply = pipe.recv_bytes()
    if reply[:1] == b"P":
        raise Problem(reply[1:].decode())
    if reply[:1] == b"X":
        raise RuntimeError("in a worker process:\n" + reply[1:].decode())
    return DONE.unpack(reply[1:])


def _labour(pipe: Connection, work: Work, board: Board, server: int) -> None:
    """A worker's life: take a job, do it, answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    Thread(target=_follow, args=(server,), daemon=True).start()
    torch.set_num_threads(1)
    engine = Sequential(work)
    _settle()
    with suppress(EOFError, OSError):  # the server is gone
        while True:
            pipe.send_bytes(_reply(engine, board, pipe.recv_bytes()))


def _follow(server: int) -> None:
    """When the server is gone the worker goes too, whatever it is at."""
    while os.getppid() == server:
        sleep(0.2)
    os._exit(0)


def _reply(engine: Sequential, board: Board, job: bytes) -> bytes:
    try:
        return b"D" + DONE.pack(*_do(engine, board, *JOB.unpack(job)))
    except Problem as problem:
        return b"P" + str(problem).encode()
    except Exception:
        return b"X" + traceback.format_exc().encode()


def _settle() -> None:
    """What a worker has freed it keeps for the next step, instead of having it mapped and cleared anew; what it was born with is not searched for garbage."""
    with suppress(AttributeError, OSError):  # no glibc here
        for threshold in (MMAP_THRESHOLD, TRIM_THRESHOLD):
            ctypes.CDLL(None).mallopt(threshold, 1 << 30)
    gc.freeze()


def _do(engine: Sequential, board: Board, kind: bytes, first: int, second: int, round: int, rounds: int) -> tuple[float, int]:
    if kind == b"E":
        right, loss = engine.tested(board.current, board.counts, slice(first, second))
        return loss, right
    seen = board.see(engine.work, first, second, round, rounds)
    tally = board.tallies[first].copy_(board.counts)
    memory = board.memory[first : first + 1] if board.memory.shape[1] else None
    loss, receipt = engine.serve(seen, second, board.rows[first : first + 1], tally, memory)
    for part, field in zip(board.receipt, fields(Receipt)):
        part[first] = getattr(receipt, field.name)[0]
    return loss, 0
