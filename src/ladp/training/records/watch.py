"""The gradients of a batch's records from one forward and one backward pass, by what went into each module and the slope of what came out."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F

from ladp.training.records.kinds import parts
from ladp.training.records.plain import Read


class Unclear(Exception):
    """A module was used more than once, or in an unusual way: what went into it is not one thing."""


def read(model: nn.Module, images: Tensor, labels: Tensor, names: Sequence[str], copies: int) -> Read:
    """The loss of each record, and its gradient by tensor; the modules that hold `names` must be of a kind that has a rule."""
    modules = holders(model, names)
    with torch.enable_grad():
        caught, logits = _forward(model, modules, images)
        losses = losses_of(logits, labels, copies)
        slopes = torch.autograd.grad(losses.sum(), [edge for _, edge in caught.values()], allow_unused=True)
    caught = {name: (given, slope) for (name, (given, _)), slope in zip(caught.items(), slopes)}
    return losses.detach(), parts(modules, caught, names, len(labels))


def holders(model: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    """The modules that hold these tensors."""
    return {name: model.get_submodule(name) for name in dict.fromkeys(name.rpartition(".")[0] for name in names)}


def losses_of(logits: Tensor, labels: Tensor, copies: int) -> Tensor:
    """The loss of each record, the mean over its copies."""
    return F.cross_entropy(logits, labels.repeat_interleave(copies), reduction="none").view(-1, copies).mean(1)


def _forward(model: nn.Module, modules: dict[str, nn.Module], images: Tensor) -> tuple[dict[str, tuple[Tensor, GradientEdge]], Tensor]:
    """What goes into each module, and the place in the graph of what comes out, which stays what it is if that is changed in place later."""
    caught: dict[str, Caught] = {}
    with ExitStack() as back:
        for parameter in (p for p in model.parameters() if p.requires_grad):  # nobody asks for the sum of the gradients
            back.callback(parameter.requires_grad_(False).requires_grad_, True)
        for name, module in modules.items():
            back.callback(module.register_forward_hook(partial(_catch, caught, name)).remove)
        logits = model(images)
    if changed := [name for name, (given, version, _) in caught.items() if given._version != version]:
        raise Unclear(changed[0])
    return {name: (given, edge) for name, (given, _, edge) in caught.items()}, logits


Caught = tuple[Tensor, int, GradientEdge]


def _catch(caught: dict[str, Caught], name: str, module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
    if name in caught or len(given) != 1:
        raise Unclear(name)
    if not out.requires_grad:
        out = _Root.apply(out, torch.zeros((), requires_grad=True))
    caught[name] = given[0].detach(), given[0]._version, get_gradient_edge(out)
    return out


class _Root(torch.autograd.Function):
    """Where a graph begins: the slope is wanted of a tensor that depends on no other of which one is."""

    @staticmethod
    def forward(ctx, out: Tensor, anchor: Tensor) -> Tensor:
        ctx.mark_dirty(out)
        return out

    @staticmethod
    def backward(ctx, slope: Tensor) -> tuple[None, None]:
        return None, None
