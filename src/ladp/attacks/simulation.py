"""The server plays a client's round with images of its own, and says how much the update that comes out differs from the one it was sent."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from ladp.attacks.scene import Scene
from ladp.attacks.sent import Sent
from ladp.columns import norms
from ladp.params import Layer, Layout
from ladp.training.local import Schedule

SPREAD = 1000.0  # the layer with least noise counts at most so many times as much as the one with most


@dataclass(frozen=True, eq=False)
class Simulation:
    """A client's round as the server knows it: everything but its records, and the order in which it meets them. Dropout, whose masks it cannot know, is left out."""

    model: nn.Module
    buffers: dict[str, Tensor]
    sent: Sent
    labels: Tensor
    weights: Tensor
    inverse: Tensor | None

    @staticmethod
    def of(scene: Scene, sent: Sent, labels: Tensor) -> "Simulation":
        """Of one upload, with the labels that its records are taken to have; a layer that did not move was frozen, and does not count."""
        model = scene.model(sent.seen.current, sent.counts).train()
        for module in model.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.eval()
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        mechanism = scene.work.mechanism
        layers = scene.work.layout.layers(mechanism.layers, mechanism.state)
        spread = lambda values: spread_over(scene.work.layout, layers, values).to(sent.update)  # noqa: E731
        moved = norms(sent.update.unsqueeze(0), layers)[0].cpu() > 0
        inverse = None if sent.scales is None else spread(torch.where(sent.scales > 0, 1 / sent.scales, 0.0))
        return Simulation(model, buffers, sent, labels, spread(weigh(sent.sigma) * moved) * trainable(scene.work.layout).to(sent.update), inverse)

    def misfit(self, images: Tensor, schedule: Schedule | None) -> Tensor:
        """1 - cos(simulated update, update that was sent), each layer by its weight (Geiping et al. 2020)."""
        return 1 - F.cosine_similarity(self.update(images, schedule) * self.weights, self.sent.update * self.weights, 0)

    def update(self, images: Tensor, schedule: Schedule | None) -> Tensor:
        """What training on these images would have made of the global model, less that model: [size], and differentiable."""
        origin = self.sent.seen.current.detach().clone().requires_grad_()
        row, velocity, training = origin, 0.0, self.sent.work.training
        for number, picked in enumerate(self._steps(schedule, images.device)):
            x, y = images[picked], self.labels[picked]
            if self.inverse is not None:
                row = row - self._reach * self._shortened(row, x, y)
                continue
            slope = self._slope(row, x, y) + training.prox * (row - origin)
            velocity = training.momentum * velocity + slope / (slope.norm() / training.clip).clamp_min(1.0)
            row = row - self._rate(number) * velocity
        return row - origin

    def _steps(self, schedule: Schedule | None, device: torch.device) -> list[Tensor]:
        """Which images each step takes."""
        if self.sent.drawn is not None:
            return [torch.from_numpy(part).to(device) for part in self.sent.drawn]
        return [torch.from_numpy(schedule.order[epoch, part]).to(device) for epoch, part in schedule.batches(self.sent.work.training.batch)]

    def _slope(self, row: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the mean loss, [size]."""
        state = {**{name: buffer.clone() for name, buffer in self.buffers.items()}, **self._parameters(row)}
        return torch.autograd.grad(F.cross_entropy(functional_call(self.model, state, x), y), row, create_graph=True)[0]

    def _parameters(self, row: Tensor) -> dict[str, Tensor]:
        views = self.sent.work.layout.views(row)
        return {name: views[name] for name, _ in self.model.named_parameters()}

    def _shortened(self, row: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """sum_r g_r / max(1, ||g_r||_s), as under a budget of unit record; a layer whose scale is 0 is frozen."""
        slopes = (self._slope(row, one, label) for one, label in zip(x.split(1), y.split(1)))
        return sum((slope / (slope * self.inverse).norm().clamp_min(1.0) for slope in slopes), torch.zeros_like(row)) * (self.inverse > 0)

    @property
    def _reach(self) -> float:
        work = self.sent.work
        return work.training.lr / (work.budget.rate * work.population.average)

    def _rate(self, number: int) -> float:
        """eta of one of the client's steps, the earlier rounds' counted."""
        training, seen = self.sent.work.training, self.sent.seen
        return training.lr * training.decay ** (int(seen.turns[0] * seen.steps[0]) + number)


def weigh(sigma: Tensor) -> Tensor:
    """How much each layer counts: 1/sqrt(sigma_j^2 + (max sigma/SPREAD)^2), the more the less noise is on it; all alike where there is none. [J]"""
    most = sigma.max()
    return 1 / (sigma.square() + (most / SPREAD).square()).sqrt() * most if most > 0 else torch.ones_like(sigma)


def spread_over(layout: Layout, layers: Sequence[Layer], values: Tensor) -> Tensor:
    """A number for each layer as one for each entry of the row; 0 where no layer is."""
    row = torch.zeros(layout.size, dtype=torch.float64)
    for layer, value in zip(layers, values.tolist(), strict=True):
        row[layer.start : layer.stop] = value
    return row


def trainable(layout: Layout) -> Tensor:
    """1 for what is trained, 0 for statistics."""
    return torch.cat([torch.full((len(e),), float(e.trainable)) for e in layout.entries])
