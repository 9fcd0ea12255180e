"""What the server was sent by one client in one round, and what it knows beside: the run's own upload, or one that the client makes of fewer of its records."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ladp.attacks.scene import Scene
from ladp.data.split import Amended
from ladp.errors import Problem
from ladp.federation import Round, State, gather
from ladp.privacy.budget import matched
from ladp.privacy.mechanism import Seen
from ladp.training.records.sampling import sample
from ladp.training.sequential import Sequential
from ladp.training.work import Work


@dataclass(frozen=True)
class Sent:
    """One upload, less the global model before it: `update` [size]. `sigma` [J] is the noise that was planned for its layers and `noise` how long it came out;
    `records` are those it was made of, and `drawn`, under a budget of unit record, which of them each step took; `scales` [J] are then those of its layers."""

    client: int
    seen: Seen
    counts: Tensor
    work: Work
    update: Tensor
    sigma: Tensor
    noise: float
    records: np.ndarray
    drawn: tuple[np.ndarray, ...] | None = None
    scales: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Few(Amended):
    """A split of which each client trains on so many records, evenly spaced in its list; how many it holds stays what everybody was told."""

    records: int

    def indices(self, client: int) -> np.ndarray:
        """The records that are used of one client."""
        held = self.split.indices(client)
        return held[np.arange(self.records) * len(held) // self.records]

def send(scene: Scene, before: State, event: Round, k: int, records: int) -> Sent:
    """The upload of the k-th client of the cohort; with `records` its round is played with so many, by the run's own training, method, noise and key."""
    client, seen, memory = event.cohort[k], event.seen.of(k), gather(scene.work, before, event.cohort)
    memory = None if memory is None else memory[k : k + 1]
    work = fewer(scene.work, client, records) if records else scene.work
    used, drawn = _used(work, seen.round, client)
    scales = matched(work.mechanism, seen, memory=memory).clip[0] if work.recordwise else None
    if records:
        row, tally = torch.empty(1, work.layout.size, dtype=work.dtype, device=work.device), before.counts.clone()
        _, receipt = Sequential(work).serve(seen, client, row, tally, None if memory is None else memory.clone())
        row, sigma, noise = row[0], receipt.sigma[0], receipt.noise[0]
    else:
        row, sigma, noise = event.uploads[k].clone(), event.receipt.sigma[k], event.receipt.noise[k]
    return Sent(client, seen, before.counts, work, row - seen.current, sigma, float(noise.norm()), used, drawn, scales)


def fewer(work: Work, client: int, records: int) -> Work:
    """The same work on so many of each client's records. Under a budget of unit record every step takes all of them, with the noise and the divisor of the run:
    what a client is in for whose records happen to be drawn."""
    held = int(work.held[client])
    if records > held:
        raise Problem(f"client {client} holds {held} records, not {records}: attack at most {held}, or 0 for the upload as it was in the run")
    few = replace(work, split=Few(work.split, records))
    if not work.recordwise:
        return few
    return replace(few, budget=replace(work.budget, rate=1.0), training=replace(work.training, lr=work.training.lr / work.budget.rate))


def _used(work: Work, round: int, client: int) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
    """The records that the upload was made of and, where each step draws its own, the places among them of those that it drew."""
    held = work.split.indices(client)
    if not work.recordwise:
        return held, None
    drawn = [sample(work.key.at("records", round, client, step), len(held), work.budget.rate) for step in range(work.budget.steps)]
    used = np.unique(np.concatenate(drawn))
    if not len(used):
        raise Problem(f"client {client} drew none of its {len(held)} records in round {round}: its upload is noise alone; attack another round, or records=1")
    return held[used], tuple(np.searchsorted(used, part) for part in drawn)
