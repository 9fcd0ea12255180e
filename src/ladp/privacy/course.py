"""What is charged, in one form for all ways to say the same: releases, and rounds in which they are made."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf, sqrt

from ladp.errors import Problem

MOST = 10**9  # releases
GROUPS = 12  # kinds of releases a distribution is worked out for; more are merged to the safe side
SAFE = 1 - 1e-12  # below rounding


@dataclass(frozen=True, order=True)
class Charge:
    """What Gaussian releases cost: `times` releases at noise multiplier z (noise over sensitivity), each of records taken independently at `rate` (1: all of them)."""

    multiplier: float
    rate: float = 1.0
    times: int = 1

    def __post_init__(self) -> None:
        if not self.multiplier >= 0:
            raise Problem(f"a noise multiplier must be positive, or 0 for no noise, got {self.multiplier}")
        if not 0 <= self.rate <= 1:
            raise Problem(f"the rate of records must lie between 0 and 1, got {self.rate}")
        if not (self.times >= 0 and self.times == int(self.times)):
            raise Problem(f"times must be a whole number, 0 or more, got {self.times}")


@dataclass(frozen=True)
class Course:
    """`rounds` rounds, in each of which `turn` is charged with probability `chance`; who takes part is public, and drawn without looking at data."""

    turn: tuple[Charge, ...]
    rounds: int = 1
    chance: float = 1.0

    @property
    def releases(self) -> tuple[tuple[float, float, int], ...]:
        return tuple((charge.multiplier, charge.rate, charge.times) for charge in self.turn)

    @property
    def sampled(self) -> bool:
        return any(charge.rate < 1 for charge in self.turn)

    @property
    def multiplier(self) -> float:
        """Of the one Gaussian that a turn is, or costs at most if records are sampled."""
        least = min(charge.multiplier for charge in self.turn)
        return least / sqrt(sum(charge.times * (least / charge.multiplier) ** 2 for charge in self.turn)) * SAFE


def canonical(turn: Iterable[Charge], rounds: int = 1, chance: float = 1.0) -> Course:
    """One form for all ways to say the same: rounds that are certain are charges."""
    if not (rounds >= 0 and rounds == int(rounds)):
        raise Problem(f"rounds must be a whole number, 0 or more, got {rounds}")
    repeated = rounds if chance == 1 else 1
    turn = tuple(turn)
    if any(charge.multiplier == 0 for charge in turn):
        raise Problem("a noise multiplier must be positive, got 0: without noise there is no finite epsilon")
    if (count := rounds * sum(charge.times for charge in turn)) > MOST:
        raise Problem(f"{count:,} releases are more than the {MOST:,} that can be accounted for: take fewer rounds or steps")
    charges = merged(replace(charge, times=charge.times * repeated) for charge in turn) if rounds * chance > 0 else ()
    return Course(charges, 1 if chance == 1 else rounds, chance)


def merged(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Charges of one kind added up, those that cost nothing left out, all Gaussians of unsampled records as one."""
    total: dict[tuple[float, float], int] = {}
    for charge in charges:
        if charge.times and charge.rate and charge.multiplier < inf:
            kind = (float(charge.multiplier), float(charge.rate))
            total[kind] = total.get(kind, 0) + int(charge.times)
    return tuple(sorted(Charge(*kind, times) for kind, times in total.items()))


def shown(course: Course) -> Course:
    """Unsampled Gaussians that tell at least as much: which releases hold the record is seen too, or, where these are not draws of one kind, all do."""
    (charge, *others), rounds = course.turn, course.rounds
    if others or (course.chance < 1 and charge.times > 1):
        return course
    return Course((Charge(charge.multiplier),), rounds * charge.times, course.chance * charge.rate)


def grouped(course: Course) -> Course:
    """At most GROUPS kinds: neighbouring kinds become one of the smallest multiplier and the largest rate, from which each follows by adding noise or leaving records out."""
    if len(course.turn) <= GROUPS:
        return course
    ordered = sorted(course.turn, key=lambda charge: (charge.rate, charge.multiplier))
    parts = [ordered[len(ordered) * i // GROUPS : len(ordered) * (i + 1) // GROUPS] for i in range(GROUPS)]
    return replace(course, turn=merged(Charge(min(c.multiplier for c in part), max(c.rate for c in part), sum(c.times for c in part)) for part in parts))
