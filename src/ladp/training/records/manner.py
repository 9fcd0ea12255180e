"""Which way the records of a model are to be read: refused where they cannot be told apart, fast where that gives what one record at a time gives."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ladp.errors import Problem
from ladp.keys import Key
from ladp.training.records import plain, stack, watch
from ladp.training.records.kinds import known
from ladp.training.records.parts import Groups

MEMORY = 1 << 26  # bytes that one pass may take, roughly
SHARE = 8  # on a device: so many times less than it has
CLOSE = 1e-6  # how far the two ways may lie apart in float64, relatively
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


def choose(model: nn.Module, images: Tensor) -> Manner:
    """The way for this model, tried once on a copy with other weights and other images: it depends on the model's kind alone."""
    tried, kind = _TRIED.setdefault(model, {}), (images.shape[1:], images.dtype, images.device, torch.is_autocast_enabled(images.device.type))
    if kind not in tried:
        refuse(model)
        with torch.random.fork_rng():
            tried[kind] = _try(model, images[:1])
    return tried[kind]


def refuse(model: nn.Module) -> None:
    """BatchNorm, and whatever else keeps statistics of a batch, has no gradient of one record."""
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) or getattr(module, "track_running_stats", False):
            raise Problem(f"{name or 'the model'} is a {type(module).__name__}, which mixes the records of a batch: a guarantee for a record needs norm = 'group'")


def _try(model: nn.Module, image: Tensor) -> Manner:
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    with torch.autocast(image.device.type, enabled=False):
        other, images = _other(model, image)
        fits = _keeps_apart(other, images) and all(map(known, watch.holders(other, names).values()))
        numbers = _agrees(other, images, names) if fits else None
    if not numbers:
        return plainly(model, image)
    return Manner(watch.read, partial(stack.read_watched, outs=stack.outputs(model, names, image)), 4 * numbers * image.element_size())


def plainly(model: nn.Module, image: Tensor) -> Manner:
    """One record at a time, which is always right."""
    numbers = sum(parameter.numel() for parameter in model.parameters()) + 64 * image.numel()
    return Manner(plain.read, stack.read_plain, numbers * image.element_size())


def _other(model: nn.Module, image: Tensor) -> tuple[nn.Module, Tensor]:
    """A copy in float64 with weights of which none is special, and three images that are nothing alike."""
    other, generator = deepcopy(model).double(), Key(0).at("trial").generator()
    draw = lambda *shape: torch.rand(shape, dtype=torch.float64, generator=generator).to(image.device)  # noqa: E731
    with torch.no_grad():
        for parameter in other.parameters():
            fan = parameter[0].numel() if parameter.dim() > 1 else 0
            parameter.copy_((2 * draw(*parameter.shape) - 1) * (3 / fan) ** 0.5 if fan else draw(*parameter.shape) + 0.5)
    return other, 2 * draw(3, *image.shape[1:]) - 1


@torch.no_grad()
def _keeps_apart(model: nn.Module, images: Tensor) -> bool:
    """Whether an image's logits stay the same when the others of the batch change; a buffer that moves in training is refused."""
    before, found = {name: (buffer, buffer._version) for name, buffer in model.named_buffers()}, []
    for batch in (images, torch.cat([images[:1], 1 - images[1:]])):
        with torch.random.fork_rng():
            try:
                found.append(model(batch)[0])
            except RuntimeError:  # not in float64: the slow way will say what it is
                return False
    if moved := [name for name, buffer in model.named_buffers() if name not in before or before[name][0] is not buffer or before[name][1] != buffer._version]:
        raise Problem(f"{moved[0]} is changed in training, by records that no noise covers: a guarantee for a record needs a model without such statistics (norm = 'group')")
    return torch.allclose(*found, rtol=CLOSE, atol=CLOSE)


def _agrees(model: nn.Module, images: Tensor, names: Sequence[str]) -> int | None:
    """How many numbers an image takes if the fast way gives what each image gives by itself, in the norms and in the sum; None if it does not."""
    labels, groups = torch.tensor([0, 1, 1], device=images.device), Groups.even(1, 3, images.device)
    _, single = plain.read(model.eval(), images, labels, names, 1)  # without dropout
    try:
        _, parts = watch.read(model, images, labels, names, 1)
    except (watch.Unclear, RuntimeError):
        return None
    norms, ones = torch.stack([single[name].squares().sqrt() for name in names], 1), images.new_ones(3)
    near = partial(torch.allclose, rtol=CLOSE, atol=CLOSE**2 * float(norms.max()))
    alike = near(torch.stack([parts[name].squares().sqrt() for name in names], 1), norms)
    return sum(part.numbers() for part in parts.values()) if alike and all(near(parts[name].sums(ones, groups), single[name].sums(ones, groups)) for name in names) else None
