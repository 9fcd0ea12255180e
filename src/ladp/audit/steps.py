"""Unit record: canaries are gradients, or records, in the steps of a client."""

import torch
from torch import Tensor

from ladp.audit.canaries import Shape
from ladp.audit.watch import Heard, Watched, precise
from ladp.keys import Key
from ladp.privacy.mechanism import Plan, Seen
from ladp.privacy.release import Receipt
from ladp.training.local import normalise
from ladp.training.records import clipped_sums
from ladp.training.records.sampling import sample
from ladp.training.recordwise import draw


class RecordWatch(Watched):
    """A canary is a gradient of full length along a direction of its own, or (`first`, the number of the first one) a record among the client's own."""

    def __init__(self, *parts, first: int | None = None):
        super().__init__(*parts)
        self.first, self.at = first, 0

    def step(self, seen: Seen, client: int, row: Tensor, memory: Tensor | None) -> tuple[float, Receipt]:
        self.at = 0
        return super().step(seen, client, row, memory)

    def send_step(self, plan: Plan, seen: Seen, rows: Tensor, sums: Tensor, scale: Tensor, keys: list[Key]) -> Receipt:
        client, layers = seen.cohort[0], self.layers()
        mine, shape = self.canaries.of(client), Shape.of(self.work.layout, layers, plan.clip[0].expand(len(layers)).cpu())
        vectors = self.vectors(plan, shape, rows, mine)
        present = self.drawn(seen, client, mine) @ vectors
        if self.first is None:
            sums += present.to(sums)
        whole, before = precise(sums[0]), rows.clone()
        charged = (plan.multiplier[0] * plan.clip[0].expand(len(layers))).cpu()
        receipt = super().send_step(plan, seen, rows, sums, scale, keys)
        noisy = precise((before - rows)[0]) / scale.item()
        self.noise.note(noisy - whole, charged.tolist(), layers)
        self.listen(client, Heard(noisy - (whole - present), charged, shape, vectors), last := self.at + 1 == self.work.budget.steps)
        self.at = 0 if last else self.at + 1
        return receipt

    def vectors(self, plan: Plan, shape: Shape, rows: Tensor, mine: list[int]) -> Tensor:
        """What each canary adds to a step that takes it, which whoever knows the weights can work out: [n, size]."""
        size = self.work.layout.size
        if not mine:
            return torch.zeros(0, size, dtype=torch.float64)
        if self.first is None:
            return shape.vectors(self.canaries.signs(mine, size))
        self.work.layout.write(rows[0], self.model)
        places = torch.tensor([self.first + i for i in mine], device=self.images.device)
        x = normalise(self.images[places], self.work.dtype)
        parts = (torch.arange(len(mine)), len(mine), self.work.layout, plan.layers, plan.clip.expand(len(mine), -1))
        found = precise(clipped_sums(self.model, x, self.labels[places], *parts)[0])
        self.noise.longest = max(self.noise.longest, shape.norms(found).max().item())
        return found

    def drawn(self, seen: Seen, client: int, mine: list[int]) -> Tensor:
        """Which canaries are in the federation and taken by this step, each with probability q: [n] of 0 and 1."""
        if self.first is not None:
            taken = set(draw(self.work, seen.round, client, self.at).tolist())
            return torch.tensor([float(self.first + i in taken) for i in mine], dtype=torch.float64)
        key = self.canaries.key.at("taken", seen.round, client, self.at)
        taken = torch.zeros(len(mine), dtype=torch.float64)
        taken[sample(key, len(mine), self.work.budget.rate)] = 1.0
        return taken * self.canaries.coins[mine, 0]
