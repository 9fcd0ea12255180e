"""Record-level training: every local step takes each record by chance, clips its gradient by itself, and is noised before the next (unit record)."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ladp.keys import Key
from ladp.privacy.budget import matched
from ladp.privacy.mechanism import Plan, Seen
from ladp.privacy.release import Receipt, release_step
from ladp.training.local import PAD, augment, normalise
from ladp.training.records import clipped_sums, stacked_sums
from ladp.training.records.sampling import sample
from ladp.training.work import Work


def recordwise(work: Work, model: nn.Module, images: Tensor, labels: Tensor, seen: Seen, memory: Tensor | None = None, send: Callable[..., Receipt] = release_step) -> tuple[Tensor, Tensor, Receipt]:
    """The uploads [K, size] of a cohort that steps m times, w <- w - eta/(q n) (sum of clipped gradients + noise), their mean losses [K] and receipt.

    n is how many records a client holds on average: a public number, and the same for all, so that in the mean every client's noise hides every record alike. All clients stand at the global model before the first step, which is one computation over all their records; later ones are stacked.
    `send` lets a step out; whatever stands in for `release_step` must itself go through it.
    """
    plan, budget = matched(work.mechanism, seen, memory=memory), work.budget
    rows, scale = seen.current.repeat(len(seen.cohort), 1), torch.full((len(seen.cohort),), work.training.lr / (budget.rate * work.population.average), dtype=torch.float64)
    facts, receipts = torch.zeros(len(seen.cohort), 3, dtype=torch.float64), []
    work.layout.write(seen.current, model)
    for step in range(budget.steps):
        drawn = [draw(work, seen.round, client, step) for client in seen.cohort]
        with torch.autocast(rows.device.type, torch.bfloat16, enabled=work.precision == "bf16"):
            sums, found = (_first if step == 0 else _later)(work, model, images, labels, plan, rows, drawn, [_place(work, seen, client, step) for client in seen.cohort])
        facts += torch.cat([found.cpu(), torch.tensor([[float(len(part))] for part in drawn], dtype=torch.float64)], 1)
        receipts.append(send(plan, seen, rows, sums, scale, [key_of(work, seen, client, step) for client in seen.cohort]))
    work.mechanism.finish(seen, rows, memory)
    if memory is not None and plan.memory is not None:
        memory.copy_(plan.memory)
    return rows, facts[:, 0] / facts[:, 2].clamp_min(1.0), Receipt.follow(receipts)


def key_of(work: Work, seen: Seen, client: int, step: int) -> Key:
    """Where the noise of a client's step comes from."""
    return work.key.at("noise", seen.round, client, step)


def _place(work: Work, seen: Seen, client: int, step: int) -> Key:
    return work.key.at("augment", seen.round, client, step)


def draw(work: Work, round: int, client: int, step: int) -> np.ndarray:
    """The records that a client's step takes, each with probability q."""
    held = work.split.indices(client)
    return held[sample(work.key.at("records", round, client, step), len(held), work.budget.rate)]


def _first(work: Work, model: nn.Module, images: Tensor, labels: Tensor, plan: Plan, rows: Tensor, drawn: Sequence[np.ndarray], keys: Sequence[Key]) -> tuple[Tensor, Tensor]:
    """Everybody's records at once, at the weights that all share."""
    owners = torch.arange(len(drawn)).repeat_interleave(torch.tensor([len(part) for part in drawn]))
    x, y = _take(work, images, labels, drawn, keys)
    return clipped_sums(model, x, y, owners, len(drawn), work.layout, plan.layers, plan.clip, work.budget.copies)


def _later(work: Work, model: nn.Module, images: Tensor, labels: Tensor, plan: Plan, rows: Tensor, drawn: Sequence[np.ndarray], keys: Sequence[Key]) -> tuple[Tensor, Tensor]:
    """Clients with weights of their own: one after the other on a CPU, stacked elsewhere, short batches filled up with what counts for nothing."""
    if not rows.is_cuda:
        return _in_turn(work, model, images, labels, plan, rows, drawn, keys)
    most = max(1, max(len(part) for part in drawn))
    mask = torch.tensor([[1.0] * len(part) + [0.0] * (most - len(part)) for part in drawn], dtype=torch.float64)
    filled = [np.concatenate([part, np.zeros(most - len(part), part.dtype)]) for part in drawn]
    x, y = _take(work, images, labels, filled, keys)
    x, y = x.unflatten(0, (len(drawn), -1)), y.unflatten(0, (len(drawn), -1))
    return stacked_sums(model, rows, x, y, mask.to(rows.device), work.layout, plan.layers, plan.clip, work.budget.copies)


def _in_turn(work: Work, model: nn.Module, images: Tensor, labels: Tensor, plan: Plan, rows: Tensor, drawn: Sequence[np.ndarray], keys: Sequence[Key]) -> tuple[Tensor, Tensor]:
    sums, facts = [], []
    for k, (part, key) in enumerate(zip(drawn, keys)):
        work.layout.write(rows[k], model)
        x, y = _take(work, images, labels, [part], [key])
        one = clipped_sums(model, x, y, torch.zeros(len(part), dtype=torch.int64), 1, work.layout, plan.layers, plan.clip[k : k + 1], work.budget.copies)
        sums.append(one[0]), facts.append(one[1])
    return torch.cat(sums), torch.cat(facts)


def _take(work: Work, images: Tensor, labels: Tensor, drawn: Sequence[np.ndarray], keys: Sequence[Key]) -> tuple[Tensor, Tensor]:
    """The normalised images, each `copies` times and each copy augmented by itself, and their labels."""
    copies, training = work.budget.copies, work.training
    picked = torch.from_numpy(np.concatenate(drawn).astype(np.int64)).to(images.device)
    x = normalise(images.index_select(0, picked), work.dtype)
    if copies > 1:
        x = x.repeat_interleave(copies, 0)
    if training.augment:
        random = [key.numpy() for key in keys]
        shift = np.concatenate([r.integers(0, 2 * PAD + 1, (len(part) * copies, 2)) for r, part in zip(random, drawn)])
        mirror = np.concatenate([r.integers(0, 2, len(part) * copies) for r, part in zip(random, drawn)])
        x = augment(x, torch.from_numpy(shift).to(x.device), torch.from_numpy(mirror).to(x.device))
    return x, labels[picked]
