"""A model's state as one row of numbers, and a cohort's as a matrix: every entry and every layer is a range of columns."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from ladp.errors import Problem, choose

LAYERS = ("tensor", "module")
STATES = ("trainable", "all")


@dataclass(frozen=True)
class Entry:
    """One named float tensor of the state: a parameter, or a float buffer such as a BatchNorm statistic."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    trainable: bool

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Layer:
    """What the paper calls layer j: a contiguous range of columns that shares one sigma."""

    name: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Layout:
    """The order of a model's float state in a row, and the names of its integer buffers, which are counted and never noised."""

    entries: tuple[Entry, ...]
    counters: tuple[str, ...]

    @property
    def size(self) -> int:
        return self.entries[-1].stop

    @staticmethod
    def of(model: nn.Module) -> "Layout":
        """Walk the modules in order; a tied tensor is listed once, buffers that the state leaves out are left out."""
        entries, counters, met, at = [], [], set(), 0
        for name, tensor, trainable in _state(model):
            if id(tensor) in met:
                continue
            met.add(id(tensor))
            if not tensor.is_floating_point():
                counters.append(name)
                continue
            entries.append(Entry(name, tuple(tensor.shape), at, at + tensor.numel(), trainable))
            at += tensor.numel()
        if not any(e.trainable for e in entries):
            raise Problem(f"{type(model).__name__} has no trainable parameters: there is nothing to learn")
        return Layout(tuple(entries), tuple(counters))

    def layers(self, by: str = "tensor", state: str = "trainable") -> tuple[Layer, ...]:
        """The layers j = 1..J of the paper: one a tensor or one a module, of the trainable state or of all of it."""
        return _layers(self, choose("layer rule", by, LAYERS), choose("state", state, STATES))

    def views(self, row: Tensor) -> dict[str, Tensor]:
        """The entries of a row (or, stacked, of rows) by name, without copying."""
        self.check(row)
        return {e.name: row[..., e.start : e.stop].view(*row.shape[:-1], *e.shape) for e in self.entries}

    def read(self, model: nn.Module, out: Tensor | None = None) -> Tensor:
        """The model's float state as a row."""
        state = _tensors(model)
        row = torch.empty(self.size, dtype=state[self.entries[0].name].dtype, device=state[self.entries[0].name].device) if out is None else out
        for e in self.entries:
            row[e.start : e.stop].view(e.shape).copy_(state[e.name].detach())
        return row

    def write(self, row: Tensor, model: nn.Module) -> None:
        """Put a row into the model."""
        self.check(row)
        state = _tensors(model)
        with torch.no_grad():
            for e in self.entries:
                state[e.name].copy_(row[e.start : e.stop].view(e.shape))

    def count(self, model: nn.Module) -> Tensor:
        """The model's integer buffers, one after the other."""
        state = _tensors(model)
        parts = [state[name].reshape(-1).to(torch.int64).cpu() for name in self.counters]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    def recount(self, counts: Tensor, model: nn.Module) -> None:
        """Put integer buffers back into the model."""
        state, at = _tensors(model), 0
        for name in self.counters:
            buffer = state[name]
            buffer.copy_(counts[at : at + buffer.numel()].view(buffer.shape))
            at += buffer.numel()

    def check(self, row: Tensor) -> None:
        """A row of another model is refused here and nowhere later."""
        if row.shape[-1] != self.size:
            raise Problem(f"the state has {row.shape[-1]:,} numbers but the model has {self.size:,}: they are of different models")

    def culprit(self, row: Tensor) -> str:
        """The first entry of a row that holds a number which is not finite."""
        return next((e.name for e in self.entries if not row[e.start : e.stop].isfinite().all()), "none")


def _state(model: nn.Module):
    """(name, tensor, trainable) for all that `state_dict` holds, in module order."""
    for prefix, module in model.named_modules():
        dot = prefix + "." if prefix else ""
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield dot + name, parameter, parameter.requires_grad
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield dot + name, buffer, False


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor for name, tensor, _ in _state(model)}


@lru_cache(maxsize=64)
def _layers(layout: Layout, by: str, state: str) -> tuple[Layer, ...]:
    found: list[Layer] = []
    for e in layout.entries:
        if state == "trainable" and not e.trainable:
            continue
        name = e.name if by == "tensor" else e.name.rpartition(".")[0] or e.name
        if found and by == "module" and found[-1].name == name and found[-1].stop == e.start:
            found[-1] = Layer(name, found[-1].start, e.stop)
        else:
            found.append(Layer(name, e.start, e.stop))
    return tuple(found)
