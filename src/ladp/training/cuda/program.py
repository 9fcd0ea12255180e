"""A model as a list of layers over stacked clients, and the step that runs it forward, backward and downhill.

The list is traced from the model. A model with anything in it that has no stacked layer gets no program: the plain engine trains it instead.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ladp.params import Layout
from ladp.training.cuda import layers
from ladp.training.cuda.arrangement import Arrangement
from ladp.training.cuda.layers import LAYERS, Add, Flatten, Layer, Pass, Rectify
from ladp.training.cuda.state import State, unpack
from ladp.training.local import augment, normalise

ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")
RELUS = (F.relu, torch.relu, "relu")
FLATTENS = (torch.flatten, "flatten")


@dataclass(frozen=True)
class Node:
    """A layer and the nodes it reads; node 0 is the images."""

    layer: Layer
    sources: tuple[int, ...]


class Unstackable(Exception):
    """The model has a part without a stacked layer."""


class Program:
    """Trains a cohort with one launch for all clients. The last node is the logits."""

    def __init__(self, nodes: list[Node], arrangement: Arrangement, images: Tensor, labels: Tensor, lr: float, clip: float):
        self.nodes, self.arrangement, self.images, self.labels, self.lr, self.clip = nodes, arrangement, images, labels, lr, clip
        self.counters = {f"{n.layer.name}.num_batches_tracked" for n in nodes if isinstance(n.layer, layers.BatchNorm)}

    def step(self, state: State, batch: int) -> None:
        """One mini-batch of `batch` records for every client of `state`."""
        views = self.arrangement.views
        work = Pass(state, views(state.working), views(state.slopes), views(state.weights))
        x, labels = self.fetch(state, batch)
        slope = self.judge(self.forward(work, x), labels, state.losses)
        self.backward(work, slope)
        self.descend(state)
        state.cursor.add_(batch)

    def forward(self, work: Pass, x: Tensor) -> Tensor:
        values = [x]
        for node in self.nodes:
            values.append(node.layer.forward(work, *(values[s] for s in node.sources)))
        return values[-1]

    def backward(self, work: Pass, gradient: Tensor) -> None:
        """Gradients flow from the last node to the first; where several reach a node they are added, in the layer's own kernel if it can."""
        reached: dict[int, Tensor] = {len(self.nodes): gradient}
        for at in range(len(self.nodes), 0, -1):
            node, gradient = self.nodes[at - 1], reached.pop(at, None)
            if gradient is None:
                continue
            single = len(node.sources) == 1
            found = node.layer.backward(work, gradient, reached.pop(node.sources[0], None) if single else None)
            for source, part in zip(node.sources, found):
                if source and part is not None:
                    reached[source] = reached[source] + part if source in reached else part

    def fetch(self, state: State, batch: int) -> tuple[Tensor, Tensor]:
        """The next records of every client, [K, B, H, W, C], and their labels [K, B]."""
        index, shift, mirror = unpack(state.order.gather(1, state.cursor.unsqueeze(1) + torch.arange(batch, device=state.order.device)))
        images = normalise(self.images[index.flatten()], state.weights.dtype)
        images = augment(images, shift.flatten(0, 1), mirror.flatten())
        return images.permute(0, 2, 3, 1).unflatten(0, index.shape), self.labels[index]

    def judge(self, logits: Tensor, labels: Tensor, losses: Tensor) -> Tensor:
        """The gradient of each client's mean cross-entropy, which is added to `losses`."""
        logits = logits.detach().requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape).mean(1)
        losses += loss.detach()
        return torch.autograd.grad(loss.sum(), logits)[0]

    def descend(self, state: State) -> None:
        """w -= lr g / max(1, ||g|| / clip) for each client."""
        norm = torch.linalg.vector_norm(state.slopes, dim=1, keepdim=True)
        state.working.sub_(state.slopes / (norm / self.clip).clamp_min(1.0), alpha=self.lr)


def trace(model: nn.Module, layout: Layout, table: dict[type, type[Layer]] | None = None) -> list[Node] | None:
    """The model's layers in order, or None if some part of it has no stacked layer in `table`."""
    try:
        check_parameters(model, layout)
        return _nodes(model, fx.symbolic_trace(model.train()), table or LAYERS)
    except Exception:  # tracing runs the model's own code, which may fail in any way; training without a program always works
        return None


def arrange(layout: Layout, nodes: list[Node]) -> Arrangement:
    """The columns that suit a program."""
    return Arrangement(layout, [f"{n.layer.name}.weight" for n in nodes if isinstance(n.layer, layers.Convolution)])


def check_parameters(model: nn.Module, layout: Layout) -> None:
    """Every parameter is trained, belongs to one module and is in the layout."""
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    if sorted(names) != sorted(e.name for e in layout.entries if e.trainable):
        raise Unstackable("tied or frozen parameters")


def _nodes(model: nn.Module, graph: fx.GraphModule, table: dict[type, type[Layer]]) -> list[Node]:
    nodes, place, used = [], {}, set()
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            place[node] = 0
        elif node.op == "output":
            return nodes if place[node.args[0]] == len(nodes) and nodes else _refuse("output")
        elif node.op == "call_module" and isinstance(model.get_submodule(node.target), nn.Identity):
            place[node] = place[node.args[0]]
        else:
            layer = _layer(model, node, table, len(nodes))
            sources = tuple(place[a] for a in node.args if isinstance(a, fx.Node))
            layer.first = 0 in sources
            if layer.weights and layer.name in used:
                _refuse(f"{layer.name} is used twice")
            used.add(layer.name)
            nodes.append(Node(layer, sources))
            place[node] = len(nodes)
    return _refuse("no output")


def _layer(model: nn.Module, node: fx.Node, table: dict[type, type[Layer]], number: int) -> Layer:
    if node.op == "call_module":
        module = model.get_submodule(node.target)
        kind = table[type(module)]
        if not SUITS.get(type(module), lambda m: True)(module) or getattr(module, "inplace", False) and len(node.args[0].users) > 1:
            _refuse(node.target)
        return kind(str(node.target), module, number)
    if node.target in ADDS and all(isinstance(a, fx.Node) for a in node.args) and not node.kwargs and (node.target not in ("add_", operator.iadd) or len(node.args[0].users) == 1):
        return table.get(Add, Add)("", nn.Identity(), number)
    if node.target in RELUS and not node.kwargs.get("inplace"):
        return table.get(Rectify, Rectify)("", nn.Identity(), number)
    if node.target in FLATTENS and (node.args[1:], dict(node.kwargs)) in (((1,), {}), ((), {"start_dim": 1})):
        return Flatten("", nn.Identity(), number)
    return _refuse(str(node.target))


def _refuse(what: str):
    raise Unstackable(what)


def _square(*values) -> bool:
    """Whether each value is a number or a pair of equal numbers."""
    return all(isinstance(v, int) or isinstance(v, tuple) and len(set(v)) == 1 for v in values)


SUITS: dict[type, Callable[[nn.Module], bool]] = {  # what a stacked layer can do of all that its module offers
    nn.Conv2d: lambda m: m.groups == 1 and m.padding_mode == "zeros" and m.dilation == (1, 1) and _square(m.kernel_size, m.stride, m.padding),
    nn.BatchNorm2d: lambda m: m.affine and m.track_running_stats and m.momentum is not None,
    nn.GroupNorm: lambda m: True,
    nn.MaxPool2d: lambda m: not m.return_indices,
    nn.Flatten: lambda m: (m.start_dim, m.end_dim) == (1, -1),
}
