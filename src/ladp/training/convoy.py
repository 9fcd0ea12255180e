"""Runs that differ in records, seed and method only, trained as one computation: each in its own thread, and all wait for each other once a round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from threading import Condition
from time import monotonic

import torch
from torch import Tensor

from ladp.errors import Problem
from ladp.privacy.mechanism import Seen
from ladp.training import start
from ladp.training.stacked import HELD, Cohort, Stacked
from ladp.training.work import Engine, Work

Trained = tuple[Tensor, Tensor] | None


class Member(Stacked):
    """The engine of one run of a convoy: its clients are trained with everybody's, and their noise is its own affair."""

    def __init__(self, convoy: "Convoy", number: int, work: Work):
        self.convoy, self.number = convoy, number
        super().__init__(work)

    def gather(self) -> None:
        """Its cohort is everybody's, and is made when all have come."""

    def train(self, seen: Seen) -> Trained:
        """Its share of what the convoy trains next."""
        return self.convoy.train(self, seen)

    def close(self) -> None:
        """Let the others go on."""
        self.cohort = None
        self.convoy.leave(self.number)

    @cached_property
    def kind(self) -> tuple:
        """What runs must have in common to be trained as one."""
        work, model = self.work, self.work.model
        return work.device, work.precision, work.training, work.layout, type(model), repr(model), id(work.images), id(work.labels)


class Convoy:
    """A place for each of `seats` runs. A round begins when every run that has not ended asks for it; `until` (monotonic) none begins any more."""

    def __init__(self, seats: int, until: float = inf):
        self.until, self.changed, self.aboard = until, Condition(), set(range(seats))
        self.asked: dict[int, tuple[Member, Seen]] = {}
        self.answers: dict[int, Trained | Exception] = {}
        self.cohorts: dict[tuple, Cohort | None] = {}
        self.copies: dict[tuple[Tensor, str], Tensor] = {}
        self.stream = torch.cuda.Stream() if torch.cuda.is_available() else None

    @contextmanager
    def seat(self, number: int) -> Iterator[Callable[[Work, str], Engine]]:
        """What starts the engine of a run, in the run's own thread; the place is given up however the run ends."""
        try:
            with torch.cuda.stream(self.stream):  # one for all: what members and training do is then in order
                yield partial(self.join, number)
        finally:
            self.leave(number)

    def join(self, number: int, work: Work, engine: str) -> Engine:
        """The engine of a run; one that does not stack clients goes its own way."""
        if engine != "stacked":
            self.leave(number)
            return start(work, engine)
        return Member(self, number, replace(work, **{name: self._copy(getattr(work, name), work.device) for name in HELD}))

    def leave(self, number: int) -> None:
        """Nobody waits for this run any more."""
        with self.changed:
            self.aboard.discard(number)
            self.asked.pop(number, None)
            self.changed.notify_all()

    def halt(self) -> None:
        """No round begins any more."""
        with self.changed:
            self.until = -inf
            self.changed.notify_all()

    def train(self, member: Member, seen: Seen) -> Trained:
        """Wait for all; the thread that finds everybody there trains for everybody."""
        with self.changed:
            self.asked[member.number] = member, seen
            while member.number not in self.answers:
                self._refuse_late(seen)
                if len(self.asked) == len(self.aboard):
                    self._depart()
                else:
                    self.changed.wait()
            answer = self.answers.pop(member.number)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _refuse_late(self, seen: Seen) -> None:
        if monotonic() > self.until:
            raise Problem(f"round {seen.round} was not begun, the time was up: the run folder keeps all rounds before this one, and `ladp resume` goes on")

    def _depart(self) -> None:
        """Train what was asked for, each kind as one computation; whatever fails is told to those whom it concerns."""
        asked, self.asked = [self.asked[number] for number in sorted(self.asked)], {}
        for kind in dict.fromkeys(member.kind for member, _ in asked):
            group = [(member, seen) for member, seen in asked if member.kind == kind]
            try:
                answers = self._train(kind, group)
            except Exception as error:
                answers = [error] * len(group)
            self.answers |= {member.number: answer for (member, _), answer in zip(group, answers)}
        self.changed.notify_all()

    def _train(self, kind: tuple, group: list[tuple[Member, Seen]]) -> list[Trained]:
        if kind not in self.cohorts:
            self.cohorts[kind] = Cohort.of([member.work for member, _ in group])
        cohort = self.cohorts[kind]
        for member, _ in group:
            member.cohort = cohort
        answers = [None] * len(group) if cohort is None else cohort.train([(member.crew, seen) for member, seen in group])
        if self.stream is not None:
            self.stream.synchronize()  # here one thread waits; released at once, all would
        return answers

    def _copy(self, tensor: Tensor, device: str) -> Tensor:
        """On the device, once for all who hold the same."""
        with self.changed:
            if (tensor, device) not in self.copies:
                self.copies[tensor, device] = tensor.to(device)
            return self.copies[tensor, device]
