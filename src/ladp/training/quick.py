"""A model's parts as a CPU computes them fastest in float32: the same functions, the same state, other kernels. In other types they are torch's own."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def quicken(model: nn.Module) -> nn.Module:
    """Replace what has a faster twin, in place; names, shapes and numbers of the state stay as they are."""
    for part in model.modules():
        if type(part) is nn.Sequential:
            pool_first(part)
        elif type(part) in TWINS:
            part.__class__ = TWINS[type(part)]
    return model


def pool_first(parts: nn.Sequential) -> None:
    """Max-pooling goes before the ReLU it follows: the same values and gradients to the last bit, and ReLU meets a fraction of the numbers."""
    for i in range(len(parts) - 1):
        if type(parts[i]) is nn.ReLU and type(parts[i + 1]) is nn.MaxPool2d and not parts[i + 1].return_indices:
            parts[i], parts[i + 1] = parts[i + 1], parts[i]


class Dropout(nn.Dropout):
    """Each number is dropped where a uniform one is below p; torch's own draw of the mask takes three times as long."""

    def forward(self, x: Tensor) -> Tensor:
        if not _ours(x) or self.inplace or not self.training or not 0 < self.p < 1:
            return super().forward(x)
        return x * torch.rand_like(x).ge_(self.p).div_(1 - self.p)


class Linear(nn.Linear):
    """The three products by oneDNN, which knows the vector units of every processor; torch's own choice is half as fast on some."""

    def forward(self, x: Tensor) -> Tensor:
        ours = _ours(x) and x.dim() == 2 and _product is not None and not torch.is_autocast_enabled("cpu")
        return _Affine.apply(x, self.weight, self.bias) if ours else super().forward(x)


TWINS: dict[type[nn.Module], type[nn.Module]] = {nn.Dropout: Dropout, nn.Linear: Linear}


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """x y' for matrices, by whatever is fastest here."""
    return _product(x, y) if _product is not None and _ours(x) else x @ y.t()


def _ours(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu" and not _transformed()


_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)  # torch.func takes torch's own operations apart, not ours


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = zip(ctx.needs_input_grad, (lambda: _product(g, weight.t()), lambda: _product(g.t(), x.t()), lambda: g.sum(0)))
        return tuple(make() if needed else None for needed, make in wanted)


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight' + bias; of a bias it reads one number after the other, whatever its strides."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias if bias is None else bias.contiguous(), "none", [], "")


def _product_here():
    """oneDNN's product where this build of torch has it and it gives what torch gives."""
    x, weight = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3)
    try:
        return _onednn if torch.equal(_onednn(x, weight, weight[:, 0]), F.linear(x, weight, weight[:, 0])) else None
    except (AttributeError, RuntimeError, TypeError):
        return None


_product = _product_here()
