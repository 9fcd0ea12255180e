"""Layers over stacked clients in plain torch: images [K, B, H, W, C], features [K, B, F], and one set of weights for each client.

This is what the kernels of `fused` have to equal, and what runs where there are none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp.training.cuda.state import State


@dataclass
class Pass:
    """One step of the clients of `state`: weights as the arithmetic takes them, where their gradients go, all entries exactly, and what layers keep."""

    state: State
    weights: dict[str, Tensor]
    slopes: dict[str, Tensor]
    exact: dict[str, Tensor]
    saved: dict["Layer", tuple] = field(default_factory=dict)


class Layer:
    """One layer of the program. `name` is its module's, `number` its place, `first` if it reads the images, which need no gradient."""

    weights: tuple[str, ...] = ()
    precise = False  # reads its weights exactly, whatever the arithmetic

    def __init__(self, name: str, module: nn.Module, number: int):
        self.name, self.module, self.number, self.first = name, module, number, False

    def apply(self, work: Pass, *inputs: Tensor) -> Tensor:
        """The output, from inputs and then weights."""
        raise NotImplementedError

    def forward(self, work: Pass, *inputs: Tensor) -> Tensor:
        """The output, remembered for `backward`."""
        weights = work.exact if self.precise else work.weights  # .data: running statistics change in the same matrix before `backward`
        leaves = [t.data.requires_grad_() for t in (*inputs, *(weights[w] for w in self.held()))]
        with torch.enable_grad():
            out = self.apply(work, *leaves)
        work.saved[self] = out, leaves, len(inputs)
        return out.detach()

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the inputs (`into`, what has reached the only input elsewhere, is added); those of the weights are written in place."""
        out, leaves, inputs = work.saved.pop(self)
        found = torch.autograd.grad(out, leaves, gradient)
        for name, slope in zip(self.held(), found[inputs:]):
            work.slopes[name].copy_(slope)
        return found[:inputs] if into is None else (found[0] + into,)

    def held(self) -> list[str]:
        """The names of its weights."""
        return [f"{self.name}.{w}" for w in self.weights if getattr(self.module, w) is not None]


class Convolution(Layer):
    weights = ("weight", "bias")

    def apply(self, work: Pass, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        K, B = x.shape[:2]
        images = x.permute(1, 0, 4, 2, 3).flatten(1, 2)  # the clients' channels side by side are groups of one convolution
        kernel = weight.movedim(-1, 2).flatten(0, 1)
        out = F.conv2d(images, kernel, None if bias is None else bias.flatten(), self.module.stride, self.module.padding, groups=K)
        return out.unflatten(1, (K, -1)).permute(1, 0, 3, 4, 2).contiguous()


class Linear(Layer):
    weights = ("weight", "bias")

    def apply(self, work: Pass, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        out = torch.bmm(x, weight.transpose(1, 2))
        return out if bias is None else out + bias.unsqueeze(1)


class BatchNorm(Layer):
    weights = ("weight", "bias")

    def apply(self, work: Pass, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        places, m = tuple(range(1, x.dim() - 1)), self.module
        variance, mean = torch.var_mean(x, places, correction=0)
        self.follow(work, mean.detach(), variance.detach() * (x[0, ..., 0].numel() / max(1, x[0, ..., 0].numel() - 1)))
        wide = lambda t: t.view(len(x), *(1 for _ in places), -1)
        return (x - wide(mean)) * wide(weight * (variance + m.eps).rsqrt()) + wide(bias)

    def follow(self, work: Pass, mean: Tensor, variance: Tensor) -> None:
        """Running statistics of each client move towards its batch's (unbiased) ones."""
        work.exact[f"{self.name}.running_mean"].lerp_(mean, self.module.momentum)
        work.exact[f"{self.name}.running_var"].lerp_(variance, self.module.momentum)


class GroupNorm(Layer):
    weights = ("weight", "bias")
    precise = True

    def apply(self, work: Pass, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        groups = x.to(torch.promote_types(x.dtype, torch.float32)).unflatten(-1, (self.module.num_groups, -1))
        places = (*range(2, x.dim() - 1), x.dim())
        variance, mean = torch.var_mean(groups, places, correction=0, keepdim=True)
        out = ((groups - mean) * (variance + self.module.eps).rsqrt()).flatten(-2)
        wide = lambda t: t.view(len(x), *(1 for _ in x.shape[1:-1]), -1)
        return (out if weight is None else out * wide(weight) + wide(bias)).to(x.dtype)


class Rectify(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        return F.relu(x)


class Tanh(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        return torch.tanh(x)


class Add(Layer):
    def forward(self, work: Pass, *inputs: Tensor) -> Tensor:
        return inputs[0] + inputs[1]

    def backward(self, work: Pass, gradient: Tensor, into: Tensor | None) -> tuple[Tensor | None, ...]:
        return gradient, gradient


class MaxPool(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        m = self.module
        return _images(x, lambda images: F.max_pool2d(images, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode))


class AveragePool(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        m = self.module
        return _images(x, lambda images: F.avg_pool2d(images, m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad, m.divisor_override))


class AdaptivePool(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        if self.module.output_size in (1, (1, 1)):
            return x.mean((2, 3), keepdim=True)
        return _images(x, lambda images: F.adaptive_avg_pool2d(images, self.module.output_size))


class Flatten(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        return x.movedim(-1, 2).flatten(2) if x.dim() == 5 else x.flatten(2)


class Dropout(Layer):
    def apply(self, work: Pass, x: Tensor) -> Tensor:
        kept = [torch.empty_like(client, device="cpu").bernoulli_(1 - self.module.p, generator=source) for client, source in zip(x, work.state.sources)]
        return x * torch.stack(kept).to(x.device).div_(1 - self.module.p)


def _images(x: Tensor, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """A pooling of plain torch on all clients' images at once."""
    return pool(x.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).unflatten(0, x.shape[:2])


LAYERS: dict[type, type[Layer]] = {
    nn.Conv2d: Convolution,
    nn.Linear: Linear,
    nn.BatchNorm2d: BatchNorm,
    nn.GroupNorm: GroupNorm,
    nn.ReLU: Rectify,
    nn.Tanh: Tanh,
    nn.MaxPool2d: MaxPool,
    nn.AvgPool2d: AveragePool,
    nn.AdaptiveAvgPool2d: AdaptivePool,
    nn.Flatten: Flatten,
    nn.Dropout: Dropout,
}
