"""Unit client: canaries are whole updates."""

import torch
from torch import Tensor

from ladp.audit.canaries import Shape, pick
from ladp.audit.watch import Heard, Watched, precise
from ladp.columns import shorten
from ladp.privacy.mechanism import Plan, Seen
from ladp.privacy.release import Receipt, planned


class ClientWatch(Watched):
    """Whoever carries a canary sends its message in place of what it would have trained, `reach` long: beyond its clip or, without one, as far as training goes."""

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
        self.noise.note(precise(row[0] - clean[0]), charged.tolist(), plan.layers)
        rest = precise(row[0] - (seen.current if mine else clean[0]))  # the adversary knows what those without a canary trained
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
