"""What a module's input and the slope of its output say about the gradient of each record: one rule a type of module."""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp.training import quick
from ladp.training.records.parts import Dense, Part, Product, wide

GHOST = 16  # writing a number of a gradient out and reading it back costs about as much as so many products and sums
Rule = Callable[[nn.Module, Tensor, Tensor, int], dict[str, Part]]


def linear(module: nn.Linear, given: Tensor, slope: Tensor, n: int) -> dict[str, Part]:
    """W: sum over whatever lies between the record and the features."""
    given, slope = given.reshape(n, -1, given.shape[-1]), slope.reshape(n, -1, slope.shape[-1])
    return {"weight": _cheapest(Product(given, slope, tuple(module.weight.shape))), "bias": Dense(slope.sum(1, dtype=wide(slope.dtype)))}


def convolution(module: nn.Conv2d, given: Tensor, slope: Tensor, n: int) -> dict[str, Part]:
    """W: a linear map of the patches, one after the other; the gradient comes as out x height x width x in."""
    height, width = module.kernel_size
    slope = slope.permute(0, 2, 3, 1)
    patches = _patches(module, given.permute(0, 2, 3, 1), slope.shape[1:3]).reshape(n, -1, height * width * module.in_channels)
    slope = slope.reshape(n, -1, module.out_channels)
    axes = module.out_channels, height, width, module.in_channels
    return {"weight": _cheapest(Product(patches, slope, axes, (0, 3, 1, 2))), "bias": Dense(slope.sum(1, dtype=wide(slope.dtype)))}


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


def _cheapest(product: Product) -> Part:
    """Written out, unless the ghost norm takes less: T^2 (D + O) against D O times what a number costs."""
    places, wide = product.given.shape[1:]
    out = product.slope.shape[2]
    return product if places**2 * (wide + out) <= GHOST * wide * out else product.written()


def _patches(module: nn.Conv2d, image: Tensor, out: tuple[int, int]) -> Tensor:
    """What each number of the output sees: [n, height, width, kernel height, kernel width, channels] of [n, height, width, channels]."""
    (down, right), (below, beside), (far, wide) = module.stride, module.dilation, module.kernel_size
    top, left = _padding(module)
    frame = F.pad(image, (0, 0, left, left, top, top)).contiguous() if top or left else image.contiguous()
    line, whole, channels = frame.shape[2] * frame.shape[3], prod(frame.shape[1:]), frame.shape[3]
    return frame.as_strided((len(frame), *out, far, wide, channels), (whole, down * line, right * channels, below * line, beside * channels, 1))


def _padding(module: nn.Conv2d) -> tuple[int, int]:
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        return tuple(d * (k - 1) // 2 for d, k in zip(module.dilation, module.kernel_size))
    return module.padding
