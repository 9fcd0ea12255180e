"""ReLU and max-pooling over windows that do not overlap, in one pass, for [N, H, W, C]."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _pool(x, out, choice, count, high, wide, height, width, C: tl.constexpr, P: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    c, at = n % C, n // C
    column, row, image = at % wide, at // wide % high, at // (wide * high)
    corner = ((image * height + row * P) * width + column * P) * C + c
    best = tl.load(x + corner, mask=n < count, other=0.0).to(tl.float32)
    winner = tl.zeros((BLOCK,), tl.int32)
    for place in tl.static_range(1, P * P):
        value = tl.load(x + corner + (place // P * width + place % P) * C, mask=n < count, other=0.0).to(tl.float32)
        better = (value > best) | (value != value)
        best, winner = tl.where(better, value, best), tl.where(better, place, winner)
    if RELU:
        winner = tl.where(best <= 0, P * P, winner)
        best = tl.where(best <= 0, 0.0, best)
    tl.store(out + n, best.to(out.dtype.element_ty), mask=n < count)
    tl.store(choice + n, winner.to(tl.int8), mask=n < count)


@triton.jit
def _unpool(gradient, choice, out, count, high, wide, height, width, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    c, at = n % C, n // C
    x, y, image = at % width, at // width % height, at // (width * height)
    inside = (n < count) & (y // P < high) & (x // P < wide)
    pooled = ((image * high + y // P) * wide + x // P) * C + c
    chosen = tl.load(choice + pooled, mask=inside, other=127).to(tl.int32) == y % P * P + x % P
    g = tl.load(gradient + pooled, mask=inside & chosen, other=0.0)
    tl.store(out + n, g, mask=n < count)


def pool(x: Tensor, size: int, relu: bool) -> tuple[Tensor, Tensor]:
    """The largest of each size x size window [..., H, W, C], and which one it was (size^2 where ReLU stops the gradient)."""
    *lead, height, width, C = x.shape
    high, wide = height // size, width // size
    out, choice = x.new_empty(*lead, high, wide, C), x.new_empty(*lead, high, wide, C, dtype=torch.int8)
    _pool[(triton.cdiv(out.numel(), BLOCK),)](x, out, choice, out.numel(), high, wide, height, width, C=C, P=size, RELU=relu, BLOCK=BLOCK)
    return out, choice


def unpool(gradient: Tensor, choice: Tensor, shape: torch.Size, size: int) -> Tensor:
    """The gradient with respect to what was pooled."""
    *_, height, width, C = shape
    out = gradient.new_empty(shape)
    _unpool[(triton.cdiv(out.numel(), BLOCK),)](gradient, choice, out, out.numel(), *gradient.shape[-3:-1], height, width, C=C, P=size, BLOCK=BLOCK)
    return out
