"""Which way the records of a model are to be read: refused where they cannot be told apart, fast where that gives what one record at a time gives."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from ladp.errors import Problem
from ladp.training.records import plain, stack, watch
from ladp.training.records.kinds import known
from ladp.training.records.parts import Groups

MEMORY = 1 << 24  # bytes that the gradients read in one pass may take; what the pass itself needs is several times as much
SHARE = 32  # on a device: so many times less than its memory
CLOSE = 0.02  # how far the two ways may lie apart on the records they are tried on: rounding, and nothing else
_TRIED: WeakKeyDictionary[nn.Module, dict[tuple, "Manner"]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Manner:
    """How to read records, and the bytes that one image takes on the way."""

    read: Callable[..., plain.Read]
    stacked: Callable[..., plain.Read]
    bytes: int

    def chunk(self, device: torch.device, copies: int) -> int:
        """How many records to read at a time."""
        room = torch.cuda.get_device_properties(device).total_memory // SHARE if device.type == "cuda" else MEMORY
        return max(1, room // (self.bytes * copies))


def choose(model: nn.Module, images: Tensor, labels: Tensor, names: Sequence[str]) -> Manner:
    """The way for this model, tried once on three images and remembered for as long as the model lives."""
    tried, kind = _TRIED.setdefault(model, {}), (tuple(names), images.shape[1:], images.dtype, images.device, torch.is_autocast_enabled(images.device.type))
    if kind not in tried:
        refuse(model)
        with torch.random.fork_rng():
            tried[kind] = _try(model, *_trial(images, labels), names)
    return tried[kind]


def refuse(model: nn.Module) -> None:
    """BatchNorm, and whatever else keeps statistics of a batch, has no gradient of one record."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) or getattr(module, "track_running_stats", False):
            raise Problem(f"{name or 'the model'} is a {type(module).__name__}, which mixes the records of a batch: a guarantee for a record needs norm = 'group'")


def _trial(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Three images that are nothing alike, with labels of the batch."""
    first = images[:1]
    return torch.cat([first, 0.5 - first, (first * 3).cos()]), labels[torch.arange(3, device=labels.device) % len(labels)]


def _try(model: nn.Module, images: Tensor, labels: Tensor, names: Sequence[str]) -> Manner:
    fits = _keeps_apart(model, images) and all(map(known, watch.holders(model, names).values()))
    with _still(model), torch.autocast(images.device.type, enabled=False):
        cost = _agrees(model, images, labels, names) if fits else None
    if cost:
        return Manner(watch.read, partial(stack.read_watched, outs=stack.outputs(model, names, images[:1])), cost)
    weight = 4 * sum(model.get_parameter(name).numel() for name in names) + 64 * images[0].numel()
    return Manner(plain.read, stack.read_plain, weight * images.element_size())


@contextmanager
def _still(model: nn.Module) -> Iterator[None]:
    """Without dropout."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def _keeps_apart(model: nn.Module, images: Tensor) -> bool:
    """Whether an image's logits stay the same when the others of the batch change; a buffer that moves in training is refused."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    before = {name: buffer._version for name, buffer in buffers.items()}
    found = []
    for batch in (images, torch.cat([images[:1], 1 - images[1:]])):
        with torch.random.fork_rng():
            found.append(functional_call(model, buffers, (batch,))[0])
    if moved := [name for name, buffer in buffers.items() if buffer._version != before[name]]:
        raise Problem(f"{moved[0]} is changed in training, by records that no noise covers: a guarantee for a record needs a model without such statistics (norm = 'group')")
    return torch.allclose(*found, rtol=1e-4, atol=1e-5, equal_nan=True)


def _agrees(model: nn.Module, images: Tensor, labels: Tensor, names: Sequence[str]) -> int | None:
    """Bytes an image if the fast way gives what each image gives by itself, in the norms and in the sum; None if it does not."""
    try:
        _, parts = watch.read(model, images, labels, names, 1)
    except (watch.Unclear, RuntimeError, IndexError, TypeError):
        return None
    single, groups = _singly(model, images, labels, names), Groups.of(torch.zeros(3, dtype=torch.int64), images.device)
    ones, biggest = torch.ones(3, device=images.device, dtype=images.dtype), max(g.norm(dim=1).max() for g in single.values())
    for name, part in parts.items():
        close = dict(rtol=CLOSE, atol=float(biggest) * 1e-4, equal_nan=True)
        if not torch.allclose(part.squares().sqrt(), single[name].norm(dim=1), **close) or not torch.allclose(part.sums(ones, groups)[0], single[name].sum(0), **close):
            return None
    return sum(part.bytes() for part in parts.values())


def _singly(model: nn.Module, images: Tensor, labels: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """The gradients of three images, one after the other: [3, size]."""
    tensors, found = [model.get_parameter(name) for name in names], []
    with torch.enable_grad():
        for image, label in zip(images.split(1), labels.split(1)):
            gradients = torch.autograd.grad(F.cross_entropy(model(image), label), tensors, allow_unused=True, materialize_grads=True)
            found.append([gradient.flatten() for gradient in gradients])
    return {name: torch.stack(each) for name, each in zip(names, zip(*found))}
