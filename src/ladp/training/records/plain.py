"""The gradient of each record by itself, for any model: the specification of the fast way."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional as F

from ladp.errors import Problem
from ladp.training.records.parts import Dense, Part

Read = tuple[Tensor, dict[str, Part]]  # the loss of each record, and its gradient by tensor


def read(model: nn.Module, images: Tensor, labels: Tensor, names: Sequence[str], copies: int) -> Read:
    """Every record is a batch of its own (of its copies), so nothing of another can enter its gradient; each has its own dropout."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: tensor.detach() for name, tensor in state.items()}
    slopes = vmap(grad_and_value(one(model, copies)), in_dims=(None, None, 0, 0), randomness="different")
    wanted = {name: state.pop(name) for name in names}
    try:
        gradients, losses = slopes(wanted, state, images.unflatten(0, (-1, copies)), labels)
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise Problem(f"torch cannot take the gradient of {type(model).__name__} record by record ({str(error).splitlines()[0]}): use modules that torch.func can transform") from error
    return losses, {name: Dense(gradient) for name, gradient in gradients.items()}


def one(model: nn.Module, copies: int):
    """The loss of one record as a function of some tensors of the state, the others, its images and its label."""

    def loss(wanted: dict[str, Tensor], rest: dict[str, Tensor], images: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, {**rest, **wanted}, (images,)), label.expand(copies))

    return loss
