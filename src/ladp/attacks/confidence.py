"""How sure models are of the labels of records: what membership is inferred from."""

from collections.abc import Callable, Generator, Sequence
from time import monotonic

import torch
from torch import Tensor, nn

from ladp.attacks.attack import Step
from ladp.attacks.scene import Scene
from ladp.federation import Round
from ladp.keys import one_thread

BATCH, SECONDS = 500, 5.0
Look = Callable[[Round], Tensor]


@torch.no_grad()
def confidence(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """phi = log(p_y / (1 - p_y)) = z_y - log sum_{c != y} e^{z_c} of each record: [n], float64 (Carlini et al. 2022). Where the model has overflowed, 0: it says nothing."""
    with one_thread():
        logits = torch.cat([model(part) for part in images.split(BATCH)]).double()
    own = labels.unsqueeze(1)
    phi = logits.gather(1, own).squeeze(1) - logits.scatter(1, own, -torch.inf).logsumexp(1)
    return phi.nan_to_num(0.0, 1e30, -1e30).cpu()


def loss(phi: Tensor) -> Tensor:
    """The cross-entropy, -log p_y = log(1 + e^-phi)."""
    return torch.nn.functional.softplus(-phi)


def spread(rounds: Sequence[int], count: int) -> list[int]:
    """So many of the rounds, evenly spread, the last among them; 0 takes all."""
    count = min(count or len(rounds), len(rounds))
    return [rounds[-1 - len(rounds) * k // count] for k in reversed(range(count))]


def models(scene: Scene, numbers: Sequence[int], images: Tensor, labels: Tensor) -> Generator[Step, None, Tensor]:
    """phi under the global models after these rounds: [rounds, n]. The last one is read, all others need the run to be played again."""
    sure = lambda state: confidence(scene.model(state.current, state.counts), images, labels).unsqueeze(0)  # noqa: E731
    if list(numbers) == [(final := scene.final()).round]:
        return sure(final)
    return (yield from watch(scene, numbers, lambda event: sure(event.state)))


def uploads(scene: Scene, numbers: Sequence[int], client: int, images: Tensor, labels: Tensor) -> Generator[Step, None, Tensor]:
    """phi under what a client was sent and under what it sent back, in these rounds: [2 rounds, n]."""

    def look(event: Round) -> Tensor:
        rows = event.state.previous, event.uploads[event.cohort.index(client)]
        return torch.stack([confidence(scene.model(row, event.state.counts), images, labels) for row in rows])

    return (yield from watch(scene, numbers, look))


def watch(scene: Scene, numbers: Sequence[int], look: Look) -> Generator[Step, None, Tensor]:
    """What is seen in these rounds, one below the other, while the run is played again; kept every few seconds."""
    state, own = scene.recall()
    seen, due = [own["phi"].cpu() if own else torch.empty(0, dtype=torch.float64)], monotonic() + SECONDS
    for event in scene.rounds(state, numbers[-1]):
        number = event.state.round
        if number in numbers:
            seen.append(look(event))
        if monotonic() > due or number == numbers[-1]:
            scene.save(event.state, {"phi": torch.cat(seen)})
            due = monotonic() + SECONDS
        yield Step(number, numbers[-1], "the run is played again")
    return torch.cat(seen)
