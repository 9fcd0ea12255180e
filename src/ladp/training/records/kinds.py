"""What a module's input and the slope of its output say about the gradient of each record: one rule a type of module."""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp.training import quick
from ladp.training.records.parts import Dense, Part, Product, times, wide

GHOST = 16  # writing a number of a gradient out and reading it back costs about as much as so many products and sums
Rule = Callable[[nn.Module, Tensor, Tensor, int], dict[str, Part]]


def linear(module: nn.Linear, given: Tensor, slope: Tensor, n: int) -> dict[str, Part]:
    """W: sum over whatever lies between the record and the features."""
    given, slope = given.reshape(n, -1, given.shape[-1]), slope.reshape(n, -1, slope.shape[-1])
    return {"weight": _cheapest(Product(given, slope, tuple(module.weight.shape))), "bias": Dense(slope.sum(1, dtype=wide(slope.dtype)))}


def convolution(module: nn.Conv2d, given: Tensor, slope: Tensor, n: int) -> dict[str, Part]:
    """W: a linear map of the patches that each number of the output sees."""
    slope, (top, left) = slope.permute(0, 2, 3, 1), _padding(module)
    frame = F.pad(given.permute(0, 2, 3, 1), (0, 0, left, left, top, top)).contiguous()
    places, size = len(slope) // n * prod(slope.shape[1:3]), module.weight.shape[1:].numel()
    read = _by_patches if module.stride[0] > 1 or module.kernel_size[0] == 1 or _ghostly(places, size, module.out_channels) else _by_lines
    return {"weight": read(module, frame, slope, n), "bias": Dense(slope.reshape(n, places, -1).sum(1, dtype=wide(slope.dtype)))}


def group_norm(module: nn.GroupNorm, given: Tensor, slope: Tensor, n: int) -> dict[str, Part]:
    """gamma: the slope times the normalised input, summed over all places; beta: the slope summed."""
    normal = F.group_norm(given, module.num_groups, None, None, module.eps)
    add = lambda x: x.reshape(n, len(x) // n, x.shape[1], -1).sum((1, 3))  # noqa: E731
    return {"weight": Dense(add(slope * normal)), "bias": Dense(add(slope))}


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    quick.Linear: linear,
    nn.Conv2d: convolution,
    nn.GroupNorm: group_norm,
}


def parts(modules: dict[str, nn.Module], caught: dict[str, tuple[Tensor, Tensor | None]], names: Sequence[str], n: int) -> dict[str, Part]:
    """The gradients of n records by tensor, from what went into each module and the slope of what came out; zero for a module that had no say in the loss."""
    found: dict[str, Part] = {}
    for at, (given, slope) in caught.items():
        if slope is not None:
            with torch.autocast(slope.device.type, enabled=False):
                each = RULES[type(modules[at])](modules[at], given.to(slope.dtype), slope, n)
            found |= {f"{at}.{part}" if at else part: gradients for part, gradients in each.items()}
    return {name: found.get(name) or _nothing(modules, name, n) for name in names}


def _nothing(modules: dict[str, nn.Module], name: str, n: int) -> Dense:
    at, _, part = name.rpartition(".")
    tensor = getattr(modules[at], part)
    return Dense(torch.zeros_like(tensor).expand(n, *tensor.shape))


def known(module: nn.Module) -> bool:
    """Whether a rule says all about a module: its type is the very one, nothing is hooked to it, and a convolution is a plain one."""
    hooked = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks or "forward" in vars(module)
    odd = isinstance(module, nn.Conv2d) and (module.groups != 1 or module.padding_mode != "zeros" or module.padding == "same" and not _odd(module))
    return type(module) in RULES and not hooked and not odd and set(module._parameters) <= {"weight", "bias"}


def _odd(module: nn.Conv2d) -> bool:
    return all(size % 2 for size in module.kernel_size)


def _ghostly(places: int, wide: int, out: int) -> bool:
    """Whether the ghost norm takes less than gradients written out: T^2 (D + O) against D O times what a number costs."""
    return places**2 * (wide + out) <= GHOST * wide * out


def _cheapest(product: Product) -> Part:
    return product if _ghostly(*product.given.shape[1:], product.slope.shape[2]) else product.written()


def _by_patches(module: nn.Conv2d, frame: Tensor, slope: Tensor, n: int) -> Part:
    """Patches [n height width, kernel height x kernel width x in]; the gradient comes as out x kernel height x kernel width x in."""
    (down, right), (below, beside), (far, across) = module.stride, module.dilation, module.kernel_size
    line, whole, channels = frame.shape[2] * frame.shape[3], prod(frame.shape[1:]), frame.shape[3]
    patches = frame.as_strided((len(frame), *slope.shape[1:3], far, across, channels), (whole, down * line, right * channels, below * line, beside * channels, 1))
    patches, slope = patches.reshape(n, -1, far * across * channels), slope.reshape(n, -1, slope.shape[3])
    return _cheapest(Product(patches, slope, (slope.shape[2], far, across, channels), (0, 3, 1, 2)))


def _by_lines(module: nn.Conv2d, frame: Tensor, slope: Tensor, n: int) -> Dense:
    """The same for a stride of 1 downwards, a line of the kernel at a time: what it sees then lies together, and is copied once for each column of the kernel only."""
    right, (below, beside), (far, across) = module.stride[1], module.dilation, module.kernel_size
    (_, high, breadth, channels), copies = frame.shape, len(frame) // n
    line = breadth * channels
    strides = copies * high * line, line, high * line, right * channels, beside * channels, 1
    lines = frame.as_strided((n, high, copies, slope.shape[2], across, channels), strides).reshape(n, -1, across * channels)
    slope, step = slope.unflatten(0, (n, copies)).transpose(1, 2), copies * slope.shape[2]
    slope = slope.reshape(n, -1, slope.shape[4])
    found = lines.new_empty(n, far, across * channels, slope.shape[2], dtype=wide(lines.dtype))
    for i in range(far):
        found[:, i] = times(lines[:, i * below * step : i * below * step + slope.shape[1]].mT, slope)
    return Dense(found.unflatten(2, (across, channels)), (3, 2, 0, 1))


def _padding(module: nn.Conv2d) -> tuple[int, int]:
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        return tuple(d * (k - 1) // 2 for d, k in zip(module.dilation, module.kernel_size))
    return module.padding
