"""The layers of a program in bf16 with kernels of their own, and what is merged before it runs.

Weights are read from the working copy in bf16; sums, statistics, normalisations and the weights themselves are float32.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from ladp.training.cuda import layers
from ladp.training.cuda.convolution import Window, convolve, convolve_back, correlate
from ladp.training.cuda.elements import cross_entropy, descend, drop, fetch
from ladp.training.cuda.layers import LAYERS, Pass
from ladp.training.cuda.normalisation import normalise, normalise_back
from ladp.training.cuda.pooling import pool, unpool
from ladp.training.cuda.program import Node, Program
from ladp.training.cuda.state import State
from ladp.training.local import PAD


class FusedProgram(Program):
    """A program whose ends are kernels too."""

    def fetch(self, state: State, batch: int) -> tuple[Tensor, Tensor]:
        if self.images.is_floating_point():  # the kernel reads bytes
            x, y = super().fetch(state, batch)
            return x.to(state.working.dtype).contiguous(), y
        return fetch(self.images, self.labels, state.order, state.cursor, batch, PAD, state.working.dtype)

    def judge(self, logits: Tensor, labels: Tensor, losses: Tensor) -> Tensor:
        return cross_entropy(logits, labels, losses)

    def descend(self, state: State) -> None:
        descend(state.weights, state.slopes, state.working, self.lr, self.clip)


class Convolution(layers.Convolution):
    def __init__(self, name: str, module: nn.Conv2d, number: int):
        super().__init__(name, module, number)
        self.window = Window(module.kernel_size[0], module.stride[0], module.padding[0])

    def forward(self, work: Pass, x: Tensor) -> Tensor:
        work.saved[self] = (x,)
        return convolve(x, work.weights[f"{self.name}.weight"], work.exact.get(f"{self.name}.bias"), self.window)

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        (x,) = work.saved.pop(self)
        correlate(gradient, x, work.slopes[f"{self.name}.weight"], work.slopes.get(f"{self.name}.bias"), self.window)
        return (None,) if self.first else (convolve_back(gradient, work.weights[f"{self.name}.weight"], x.shape, self.window, into),)


class Linear(layers.Linear):
    def forward(self, work: Pass, x: Tensor) -> Tensor:
        work.saved[self] = (x,)
        weight, bias = (work.weights.get(f"{self.name}.{w}") for w in self.weights)
        return torch.bmm(x, weight.transpose(1, 2)) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        (x,) = work.saved.pop(self)
        torch.bmm(gradient.transpose(1, 2), x, out=work.slopes[f"{self.name}.weight"])
        if self.module.bias is not None:
            torch.sum(gradient, 1, out=work.slopes[f"{self.name}.bias"])
        if self.first:
            return (None,)
        weight = work.weights[f"{self.name}.weight"]
        return (torch.bmm(gradient, weight) if into is None else torch.baddbmm(into, gradient, weight),)


class BatchNorm(layers.BatchNorm):
    """gamma xhat + beta, and in the same pass the shortcut that is added (its second source) and the ReLU, if they follow."""

    relu = False

    def forward(self, work: Pass, x: Tensor, added: Tensor | None = None) -> Tensor:
        entries = (work.exact[f"{self.name}.{w}"] for w in ("weight", "bias", "running_mean", "running_var"))
        y, moments = normalise(x, added, *entries, self.module.momentum, self.module.eps, self.relu)
        work.saved[self] = x, y if added is not None else None, moments, added is not None
        return y

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        x, y, moments, added = work.saved.pop(self)
        gamma, beta, up, down = (d[f"{self.name}.{w}"] for d in (work.exact, work.slopes) for w in self.weights)
        dx, passed = normalise_back(gradient, x, y, moments, gamma, beta, up, down, added, self.relu)
        return (dx if into is None else dx + into, passed)[: 1 + added]


class Rectify(layers.Rectify):
    def forward(self, work: Pass, x: Tensor) -> Tensor:
        y = torch.relu(x)
        work.saved[self] = (y,)
        return y

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        (y,) = work.saved.pop(self)
        found = torch.ops.aten.threshold_backward(gradient, y, 0)
        return (found if into is None else found + into,)


class MaxPool(layers.MaxPool):
    """Max-pooling, and the ReLU before it if there is one; windows that overlap go the plain way."""

    relu = False

    def kernel(self) -> bool:
        m = self.module
        return isinstance(m.kernel_size, int) and m.stride == m.kernel_size and m.padding == 0 and m.dilation == 1 and not m.ceil_mode

    def forward(self, work: Pass, x: Tensor) -> Tensor:
        if not self.kernel():
            return super().forward(work, x)
        y, choice = pool(x.contiguous(), self.module.kernel_size, self.relu)
        work.saved[self] = choice, x.shape
        return y

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        if not self.kernel():
            return super().backward(work, gradient, into)
        choice, shape = work.saved.pop(self)
        found = unpool(gradient.contiguous(), choice, shape, self.module.kernel_size)
        return (found if into is None else found + into,)


class Dropout(layers.Dropout):
    def forward(self, work: Pass, x: Tensor) -> Tensor:
        return self.mask(work, x)

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        found = self.mask(work, gradient)  # the same numbers again: they follow from the counter
        return (found if into is None else found + into,)

    def mask(self, work: Pass, x: Tensor) -> Tensor:
        return drop(x.contiguous(), self.module.p, work.state.seeds, work.state.cursor, self.number) if self.module.p else x


FUSED = {**LAYERS, nn.Conv2d: Convolution, nn.Linear: Linear, nn.BatchNorm2d: BatchNorm, nn.ReLU: Rectify, layers.Rectify: Rectify, nn.MaxPool2d: MaxPool, nn.Dropout: Dropout}


def fuse(nodes: list[Node]) -> list[Node]:
    """Merge each ReLU into the normalisation (and addition) before it, or into the max-pooling after it."""
    nodes = list(nodes)
    for at in range(1, len(nodes) + 1):
        if nodes[at - 1] is not None and isinstance(nodes[at - 1].layer, Rectify):
            _merge(nodes, at)
    return _renumber(nodes)


def _merge(nodes: list[Node | None], at: int) -> None:
    (before,) = nodes[at - 1].sources
    users = [n for n in range(1, len(nodes) + 1) if nodes[n - 1] and at in nodes[n - 1].sources]
    if (norm := _alone(nodes, before, BatchNorm)) is not None:
        _take(nodes, at, before, norm.sources)
    elif (add := _alone(nodes, before, layers.Add)) is not None:
        for norm_at, other in (add.sources, add.sources[::-1]):
            if other != norm_at and (norm := _alone(nodes, norm_at, BatchNorm)) is not None and not norm.layer.relu:
                _take(nodes, at, norm_at, (*norm.sources, other))
                nodes[before - 1] = None
                return
    elif len(users) == 1 and isinstance((after := nodes[users[0] - 1]).layer, MaxPool) and after.layer.kernel():
        after.layer.relu = True
        nodes[users[0] - 1] = replace(after, sources=(before,))
        nodes[at - 1] = None


def _alone(nodes: list[Node | None], at: int, kind: type) -> Node | None:
    """Node `at` if it is of this kind and read by one node only."""
    readers = sum(node.sources.count(at) for node in nodes if node)
    return nodes[at - 1] if at and readers == 1 and nodes[at - 1] and isinstance(nodes[at - 1].layer, kind) else None


def _take(nodes: list[Node | None], at: int, norm_at: int, sources: tuple[int, ...]) -> None:
    """The normalisation moves to where the ReLU was."""
    nodes[norm_at - 1].layer.relu = True
    nodes[at - 1], nodes[norm_at - 1] = replace(nodes[norm_at - 1], sources=sources), None


def _renumber(nodes: list[Node | None]) -> list[Node]:
    kept = [at for at in range(1, len(nodes) + 1) if nodes[at - 1]]
    new = {0: 0, **{at: n + 1 for n, at in enumerate(kept)}}
    return [replace(nodes[at - 1], sources=tuple(new[s] for s in nodes[at - 1].sources)) for at in kept]
