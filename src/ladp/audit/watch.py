"""Engines that put canaries in where a client's own data would act, let them out through the same doors as all else, and listen as the adversary of a view does."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ladp.audit.canaries import Canaries, Shape, pick
from ladp.audit.evidence import Evidence
from ladp.audit.laws import Noise
from ladp.columns import shorten
from ladp.params import Layer
from ladp.privacy.mechanism import Plan, Seen
from ladp.privacy.release import Receipt, planned
from ladp.training.local import normalise
from ladp.training.records import clipped_sums
from ladp.training.records.sampling import sample
from ladp.training.recordwise import draw
from ladp.training.sequential import Sequential
from ladp.training.work import Uploads, Work


@dataclass(frozen=True)
class Heard:
    """A client's release without what the adversary knows of it, under noise of so much in each layer, and the canaries that may be in it."""

    rest: Tensor
    sigma: Tensor
    shape: Shape
    vectors: Tensor


class Watched(Sequential):
    """The plain engine with canaries. A server hears each release by itself; peers hear, of the last step, the mean of all but `colluders`, whose releases they know. These are the same for all canaries, as one
    adversary must guess all coins."""

    def __init__(self, work: Work, canaries: Canaries, view: str, weights: str, colluders: frozenset[int]):
        super().__init__(work)
        self.canaries, self.view, self.weights, self.colluders = canaries, view, weights, colluders
        self.evidence, self.noise = Evidence(canaries, work.budget.rate if work.recordwise else None), Noise(work.layout.size)
        self.heard: dict[int, Heard] = {}

    def round(self, seen: Seen, cohort: list[int], counts: Tensor, memory: Tensor | None = None) -> Uploads:
        self.heard = {}
        uploads = super().round(seen, cohort, counts, memory)
        if self.view == "peer":
            self._mix(seen)
        self.noise.turn()
        return uploads

    def layers(self) -> Sequence[Layer]:
        """Where canaries lie: whatever is trained."""
        return self.work.layout.layers(self.work.mechanism.layers, "trainable")

    def listen(self, client: int, heard: Heard, last: bool = True) -> None:
        """To the server every release is one of its own, and so are to peers, as the proof has it, the steps before a client's last."""
        if self.view == "peer" and last:
            self.heard[client] = heard
        elif mine := self.canaries.of(client):
            self.evidence.hear(mine, heard.vectors, heard.shape, heard.rest, heard.sigma)

    def _mix(self, seen: Seen) -> None:
        """What the mean shows once the colluders' part is taken out, and in it each client's canaries."""
        sizes = seen.sizes.double()
        share = dict(zip(seen.cohort, sizes / sizes.sum() if self.weights == "size" else torch.full_like(sizes, 1 / len(sizes))))
        honest = [client for client in seen.cohort if client not in self.colluders]
        rest = sum(share[client] * self.heard[client].rest for client in honest)
        sigma = sum((share[client] * self.heard[client].sigma).square() for client in honest).sqrt()
        for client in honest:
            if mine := self.canaries.of(client):
                own = self.heard[client]
                self.evidence.hear(mine, own.vectors, own.shape, rest / share[client], sigma / share[client])


class ClientWatch(Watched):
    """Unit client: whoever carries a canary sends its message in place of what it would have trained, as long as clipping (or, where nothing is clipped, training) allows."""

    def __init__(self, *parts, reach: float):
        super().__init__(*parts)
        self.reach = reach

    def fit(self, seen: Seen, client: int, row: Tensor, tally: Tensor) -> float:
        mine = self.canaries.of(client)
        if not mine:
            return super().fit(seen, client, row, tally)
        shape = self.shape(seen)
        sent = shape.vectors(self.canaries.signs(mine, self.work.layout.size))[0] * shape.message(self.canaries.coins[mine[0]])
        row.copy_(seen.current + (self.reach * sent).to(row))
        return 0.0

    def send(self, seen: Seen, client: int, row: Tensor, memory: Tensor | None) -> Receipt:
        plan = planned(self.work.mechanism, seen, row, memory)
        clean = row.clone()
        if plan.clip is not None:
            shorten(clean, plan.layers, plan.clip, seen.current if plan.clips == "update" else None)
        receipt = super().send(seen, client, row, memory)
        mine, shape = self.canaries.of(client), self.shape(seen)
        charged = receipt.sigma[0] if plan.clip is None or not seen.allowance else receipt.multiplier[0] * plan.clip[0].expand(len(plan.layers)).cpu()
        self.noise.note(_cpu(row[0] - clean[0]), charged.tolist(), plan.layers)
        rest = _cpu(row[0] - (seen.current if mine else clean[0]))
        own = shape.vectors(self.canaries.signs(mine, self.work.layout.size)) if mine else torch.empty(0)
        self.listen(client, Heard(rest, self.announced(shape, plan, charged, rest), shape, own if seen.allowance else self.reach * own))
        return receipt

    def shape(self, seen: Seen) -> Shape:
        """In the scales of the clip where the adversary knows them; else in none."""
        layers = self.layers()
        if seen.allowance and not self.work.mechanism.peeks:
            plan = planned(self.work.mechanism, seen, seen.current.unsqueeze(0))
            scale = pick(dict(zip((layer.name for layer in plan.layers), plan.clip[0].expand(len(plan.layers)).tolist())), layers)
        else:
            scale = torch.ones(len(layers), dtype=torch.float64)
        return Shape.of(self.work.layout, layers, scale, self.canaries.coins.shape[1])

    def announced(self, shape: Shape, plan: Plan, charged: Tensor, rest: Tensor) -> Tensor:
        """How much noise the adversary reckons with; where that depends on private weights it goes by what it sees."""
        if self.work.mechanism.peeks:
            return (shape.layerwise(rest) / torch.tensor([len(layer) for layer in shape.layers])).sqrt()
        return pick(dict(zip((layer.name for layer in plan.layers), charged.tolist())), shape.layers)


class RecordWatch(Watched):
    """Unit record: a canary is a gradient of full length along a direction of its own, or (`first`, the number of the first one) a record among the client's own."""

    def __init__(self, *parts, first: int | None = None):
        super().__init__(*parts)
        self.first, self.at = first, 0

    def step(self, seen: Seen, client: int, row: Tensor, memory: Tensor | None) -> tuple[float, Receipt]:
        self.at = 0
        return super().step(seen, client, row, memory)

    def send_step(self, plan: Plan, seen: Seen, rows: Tensor, sums: Tensor, scale: Tensor, keys: list) -> Receipt:
        client, layers = seen.cohort[0], self.layers()
        mine, shape = self.canaries.of(client), Shape.of(self.work.layout, layers, plan.clip[0].expand(len(layers)).cpu())
        vectors = self.vectors(plan, shape, rows, mine)
        present = self.drawn(seen, client, mine) @ vectors
        if self.first is None:
            sums += present.to(sums)
        whole, before, charged = _cpu(sums[0]), rows.clone(), (plan.multiplier[0] * plan.clip[0].expand(len(layers))).cpu()
        receipt = super().send_step(plan, seen, rows, sums, scale, keys)
        noisy = _cpu((before - rows)[0]) / scale.item()
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
        found = _cpu(clipped_sums(self.model, x, self.labels[places], *parts)[0])
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


def _cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float64)
