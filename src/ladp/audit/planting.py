"""How many canaries, with whom, how much each tells, how far it reaches: all fixed before anything is trained."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ladp import accounts
from ladp.audit.canaries import Canaries
from ladp.data.split import Amended
from ladp.errors import Problem
from ladp.mechanisms.gaussian import GaussianMethod
from ladp.training.work import Work

MOST, SHARE = 1000, 0.2  # canaries, if nothing else is said: no more, and m delta no more than this part of the error
LEGIBLE, CROWDED = 4.5, 16  # a bit of a message is so many standard deviations long, and has so many columns at least
FULL = 10.0  # clips: an update is sent so long that clipping alone makes it 1


def delta_of(work: Work) -> float:
    """The delta at which epsilon is to be refuted: the budget's, or that of the method's claim; 0 where nothing is claimed."""
    claim = accounts.claimed(work)
    return (claim.delta or 0.0) if claim else 0.0


def colluding(work: Work, rounds: int) -> frozenset[int]:
    """Clients that the peers' adversary controls, so that no round has more than c of them: those that take part least, as they can carry no canary."""
    most, cohorts = (work.budget.colluders if work.budget else 1), [work.cohort(round) for round in range(1, rounds + 1)]
    found: set[int] = set()
    for client in reversed(ranked(cohorts)):
        if all(len(found.intersection(cohort)) < most for cohort in cohorts if client in cohort):
            found.add(client)
    return frozenset(found)


def ranked(cohorts: Sequence[Sequence[int]]) -> list[int]:
    """The clients that take part, those that do so most first."""
    drawn = Counter(client for cohort in cohorts for client in cohort)
    return sorted(drawn, key=lambda client: (-drawn[client], client))


def hosts(work: Work, rounds: int, wanted: int | None, error: float, colluders: frozenset[int]) -> list[int]:
    """The honest clients that carry canaries, those that take part most: one each (unit client), or as evenly as may be (unit record)."""
    cohorts = [work.cohort(round) for round in range(1, rounds + 1)]
    drawn, honest = Counter(client for cohort in cohorts for client in cohort), [client for client in ranked(cohorts) if client not in colluders]
    number, delta = wanted or MOST, delta_of(work)
    if not wanted and delta:
        number = max(1, min(MOST, int(SHARE * error / delta)))
    if not work.recordwise:
        if wanted and wanted > len(honest):
            found = f"only {len(honest)} that do not collude take part in {rounds} rounds"
            raise Problem(f"{wanted} canary clients asked for, but {found}: take fewer --canaries, more --rounds, or a recipe with more clients")
        return honest[:number]
    most = [client for client in honest if drawn[client] == drawn[honest[0]]]
    return [most[i % len(most)] for i in range(number)]


def legible(work: Work) -> int:
    """How many bits an upload without a budget can carry through the noise that is announced."""
    none = torch.zeros(0, dtype=torch.float64)
    seen = work.see(1, 1, torch.zeros(work.layout.size), None, work.cohort(1)[:1], torch.zeros(1, dtype=torch.int64), none)
    sigma = float(work.mechanism.sigma(seen).max()) if isinstance(work.mechanism, GaussianMethod) else 0.0
    most = max(1, sum(len(e) for e in work.layout.entries if e.trainable) // CROWDED)
    return max(1, min(most, int((reach(work) / (LEGIBLE * sigma)) ** 2))) if sigma else most


def reach(work: Work) -> float:
    """How long an update is sent: under a budget beyond its clip; else eta G_c for every step, as far as clipped gradients carry the client of fewest records."""
    return FULL if work.budget else work.training.lr * work.training.clip * work.training.steps(int(work.held.min()))


@dataclass(frozen=True, eq=False)
class Planted(Amended):
    """A split whose clients hold canaries beside their own records, as the coins say; how many records a client holds is public, and stays as it was."""

    canaries: Canaries
    first: int

    def indices(self, client: int) -> np.ndarray:
        """The client's own records, then its canaries that are in."""
        inside = [self.first + i for i in self.canaries.of(client) if self.canaries.coins[i, 0]]
        return np.concatenate([self.split.indices(client), np.array(inside, dtype=np.int64)])

def planted(work: Work, canaries: Canaries) -> Work:
    """With canary records behind the training records: test records under a wrong label, which nothing else teaches."""
    random, classes = canaries.key.at("record").numpy(), int(work.labels.max()) + 1
    picked = torch.from_numpy(random.integers(0, len(work.test_labels), len(canaries.hosts)))
    wrong = (work.test_labels[picked] + torch.from_numpy(random.integers(1, classes, len(picked)))) % classes
    images, labels = torch.cat([work.images, work.test_images[picked]]), torch.cat([work.labels, wrong.to(work.labels)])
    return replace(work, images=images, labels=labels, split=Planted(work.split, canaries, len(work.labels)))
