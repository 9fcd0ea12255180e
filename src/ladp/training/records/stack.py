"""The same for clients that have weights of their own: one computation for all, by torch.func over clients."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, vmap

from ladp.training.records import plain
from ladp.training.records.kinds import parts
from ladp.training.records.parts import Dense
from ladp.training.records.plain import Read
from ladp.training.records.watch import holders, losses_of

Outs = dict[str, tuple[torch.Size, torch.dtype]]


def read_plain(model: nn.Module, state: dict[str, Tensor], images: Tensor, labels: Tensor, names: Sequence[str], copies: int) -> Read:
    """Every record of every client by itself: images [K, b copies, ...], labels [K, b]; the gradients of all records, client by client."""
    held = _rest(model, state)
    wanted = {name: state[name] for name in names}
    others = {name: tensor for name, tensor in state.items() if name not in wanted}
    loss = plain.one(model, copies)
    record = grad_and_value(lambda wanted, others, images, label: loss(wanted, {**held, **others}, images, label))
    client = vmap(record, in_dims=(None, None, 0, 0), randomness="different")
    gradients, losses = vmap(client, randomness="different")(wanted, others, images.unflatten(1, (-1, copies)), labels)
    return losses.flatten(), {name: Dense(gradient.flatten(0, 1)) for name, gradient in gradients.items()}


def read_watched(model: nn.Module, state: dict[str, Tensor], images: Tensor, labels: Tensor, names: Sequence[str], copies: int, outs: Outs) -> Read:
    """From one forward and one backward pass for all clients: the slope of what a module gives out is the gradient of something added to it."""
    modules, (count, each) = holders(model, names), labels.shape
    held, added = _rest(model, state), {name: images.new_zeros(images.shape[1], *shape, dtype=dtype) for name, (shape, dtype) in outs.items() if name in modules}
    client = grad(partial(_client, model, modules, held, copies), argnums=1, has_aux=True)
    slopes, (losses, given) = vmap(client, in_dims=(0, None, 0, 0), randomness="different")(state, added, images, labels)
    caught = {name: (given[name].flatten(0, 1), slopes[name].flatten(0, 1)) for name in given}
    return losses.flatten(), parts(modules, caught, names, count * each)


def _client(model: nn.Module, modules: dict[str, nn.Module], held: dict, copies: int, state: dict, added: dict, images: Tensor, labels: Tensor):
    given: dict[str, Tensor] = {}
    with ExitStack() as back:
        for name, module in modules.items():
            back.callback(module.register_forward_hook(partial(_shift, given, added, name)).remove)
        losses = losses_of(functional_call(model, {**held, **state}, (images,)), labels, copies)
    return losses.sum(), (losses.detach(), given)


def _shift(given: dict[str, Tensor], added: dict[str, Tensor], name: str, module: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> Tensor:
    given[name] = inputs[0].detach()
    return out + added[name]


@torch.no_grad()
def outputs(model: nn.Module, names: Sequence[str], image: Tensor) -> Outs:
    """What the modules that hold these tensors give out for an image: shape and type."""
    outs: Outs = {}
    with ExitStack() as back:
        for name, module in holders(model, names).items():
            back.callback(module.register_forward_hook(lambda _, given, out, name=name: outs.update({name: (out.shape[1:], out.dtype)})).remove)
        model(image)
    return outs


def _rest(model: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a row does not hold: counters, and buffers that are no part of the state."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers()) if name not in state}
