"""Engines with canaries: what goes for both units, and how an adversary of a view listens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ladp.audit.canaries import Canaries, Shape
from ladp.audit.evidence import Evidence
from ladp.audit.laws import Noise
from ladp.params import Layer
from ladp.privacy.mechanism import Seen
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
    """The plain engine with canaries: put in where a client's own data would act, and let out through the same doors as all else.

    A server hears each release by itself; peers hear, of the last step, the mean of all but `colluders`, whose releases they know. These are the same for all
    canaries, as one adversary must guess all coins.
    """

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


def precise(tensor: Tensor) -> Tensor:
    """In float64 on the CPU, where all evidence is weighed."""
    return tensor.detach().to("cpu", torch.float64)
