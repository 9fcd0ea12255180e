"""Batch normalisation of every client by its own batch, with what follows it (adding the shortcut, ReLU) in the same pass.

Images are [K, M, C] with M = B H W pixels. Sums go by blocks of pixels and are added in a fixed order, so that a run repeats bit by bit;
variances are taken around the client's first pixel, which is near enough to the mean for float32.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCKS = 64  # of pixels, per client


@dataclass
class Moments:
    """Mean and 1/deviation of each client and channel, [K, C]."""

    mean: Tensor
    rate: Tensor


@triton.jit
def _moments(x, sums, rows, share, C: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    client, part, parts = tl.program_id(2).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    x += client * rows * C
    pivot = tl.load(x + c, mask=c < C, other=0.0).to(tl.float32)
    first, second = tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.float32)
    last = tl.minimum(part * share + share, rows)
    for at in range(part * share, last, BM):
        m = at + tl.arange(0, BM)
        inside = (m < last)[:, None] & (c < C)[None, :]
        apart = tl.load(x + m[:, None] * C + c[None, :], mask=inside, other=0.0).to(tl.float32) - pivot[None, :]
        apart = tl.where(inside, apart, 0.0)
        first += apart
        second += apart * apart
    place = sums + ((client * parts + part) * 2) * C + c
    tl.store(place, tl.sum(first, 0), mask=c < C)
    tl.store(place + C, tl.sum(second, 0), mask=c < C)


@triton.jit
def _settle(x, sums, mean, rate, running_mean, running_var, row, rows, parts, momentum, eps, C: tl.constexpr, BC: tl.constexpr, PARTS: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    part = tl.arange(0, PARTS)
    inside = (part < parts)[:, None] & (c < C)[None, :]
    place = sums + ((client * parts + part[:, None]) * 2) * C + c[None, :]
    first = tl.sum(tl.load(place, mask=inside, other=0.0), 0) / rows
    second = tl.sum(tl.load(place + C, mask=inside, other=0.0), 0) / rows
    middle = first + tl.load(x + client * rows * C + c, mask=c < C, other=0.0).to(tl.float32)
    variance = tl.where(second - first * first <= 0, 0.0, second - first * first)
    tl.store(mean + client * C + c, middle, mask=c < C)
    tl.store(rate + client * C + c, 1 / tl.sqrt(variance + eps), mask=c < C)
    old_mean = tl.load(running_mean + client * row + c, mask=c < C)
    old_var = tl.load(running_var + client * row + c, mask=c < C)
    tl.store(running_mean + client * row + c, old_mean + momentum * (middle - old_mean), mask=c < C)
    tl.store(running_var + client * row + c, old_var + momentum * (variance * (rows / (rows - 1.0)) - old_var), mask=c < C)


@triton.jit
def _apply(x, added, out, mean, rate, gamma, beta, row, rows, C: tl.constexpr, ADD: tl.constexpr, RELU: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    client = tl.program_id(2).to(tl.int64)
    c, m = tl.program_id(1) * BC + tl.arange(0, BC), tl.program_id(0) * BM + tl.arange(0, BM)
    inside = (m < rows)[:, None] & (c < C)[None, :]
    at = client * rows * C + m[:, None] * C + c[None, :]
    scale = tl.load(rate + client * C + c, mask=c < C, other=0.0) * tl.load(gamma + client * row + c, mask=c < C, other=0.0)
    shift = tl.load(beta + client * row + c, mask=c < C, other=0.0) - tl.load(mean + client * C + c, mask=c < C, other=0.0) * scale
    y = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
    if ADD:
        y += tl.load(added + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        y = tl.where(y <= 0, 0.0, y)  # a maximum would swallow NaN
    tl.store(out + at, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _slopes(gradient, x, y, passed, sums, mean, rate, gamma, beta, row, rows, share, C: tl.constexpr, ADD: tl.constexpr, RELU: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    # Per channel, the sums of g and of g xhat, with g the gradient behind the ReLU; where a shortcut was added, g is also its gradient: `passed`.
    client, part, parts = tl.program_id(2).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    middle = tl.load(mean + client * C + c, mask=c < C, other=0.0)
    speed = tl.load(rate + client * C + c, mask=c < C, other=0.0)
    scale = speed * tl.load(gamma + client * row + c, mask=c < C, other=0.0)
    shift = tl.load(beta + client * row + c, mask=c < C, other=0.0) - middle * scale
    first, second = tl.zeros((BM, BC), tl.float32), tl.zeros((BM, BC), tl.float32)
    last = tl.minimum(part * share + share, rows)
    for start in range(part * share, last, BM):
        m = start + tl.arange(0, BM)
        inside = (m < last)[:, None] & (c < C)[None, :]
        at = client * rows * C + m[:, None] * C + c[None, :]
        g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            if ADD:
                g = tl.where(tl.load(y + at, mask=inside, other=0.0).to(tl.float32) <= 0, 0.0, g)
            else:
                g = tl.where(value * scale[None, :] + shift[None, :] <= 0, 0.0, g)
        if ADD:
            tl.store(passed + at, g.to(passed.dtype.element_ty), mask=inside)
        first += g
        second += g * (value - middle[None, :]) * speed[None, :]
    place = sums + ((client * parts + part) * 2) * C + c
    tl.store(place, tl.sum(first, 0), mask=c < C)
    tl.store(place + C, tl.sum(second, 0), mask=c < C)


@triton.jit
def _gather(sums, totals, gamma_slope, beta_slope, row, parts, C: tl.constexpr, BC: tl.constexpr, PARTS: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    part = tl.arange(0, PARTS)
    inside = (part < parts)[:, None] & (c < C)[None, :]
    place = sums + ((client * parts + part[:, None]) * 2) * C + c[None, :]
    first = tl.sum(tl.load(place, mask=inside, other=0.0), 0)
    second = tl.sum(tl.load(place + C, mask=inside, other=0.0), 0)
    tl.store(totals + client * 2 * C + c, first, mask=c < C)
    tl.store(totals + client * 2 * C + C + c, second, mask=c < C)
    tl.store(beta_slope + client * row + c, first.to(beta_slope.dtype.element_ty), mask=c < C)
    tl.store(gamma_slope + client * row + c, second.to(gamma_slope.dtype.element_ty), mask=c < C)


@triton.jit
def _back(gradient, x, out, totals, mean, rate, gamma, beta, row, rows, C: tl.constexpr, MASK: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr):
    # dx = gamma / deviation (g - mean(g) - xhat mean(g xhat)).
    client = tl.program_id(2).to(tl.int64)
    c, m = tl.program_id(1) * BC + tl.arange(0, BC), tl.program_id(0) * BM + tl.arange(0, BM)
    inside = (m < rows)[:, None] & (c < C)[None, :]
    at = client * rows * C + m[:, None] * C + c[None, :]
    middle = tl.load(mean + client * C + c, mask=c < C, other=0.0)
    speed = tl.load(rate + client * C + c, mask=c < C, other=0.0)
    scale = speed * tl.load(gamma + client * row + c, mask=c < C, other=0.0)
    first = tl.load(totals + client * 2 * C + c, mask=c < C, other=0.0) / rows
    second = tl.load(totals + client * 2 * C + C + c, mask=c < C, other=0.0) / rows * speed
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if MASK:
        shift = tl.load(beta + client * row + c, mask=c < C, other=0.0) - middle * scale
        g = tl.where(value * scale[None, :] + shift[None, :] <= 0, 0.0, g)
    g = scale[None, :] * (g - first[None, :] - (value - middle[None, :]) * second[None, :])
    tl.store(out + at, g.to(out.dtype.element_ty), mask=inside)


def normalise(x: Tensor, added: Tensor | None, gamma: Tensor, beta: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float, relu: bool) -> tuple[Tensor, Moments]:
    """relu(gamma (x - mean)/deviation + beta + added) for [K, ..., C], and the running statistics moved along; all weights are [K, C] of one matrix."""
    x, added = x.contiguous(), added if added is None else added.contiguous()
    K, rows, C = _extent(x)
    blocks, share, BM, BC = _cut(rows, C)
    sums = torch.empty(K, blocks, 2, C, device=x.device)
    moments, out = Moments(torch.empty(K, C, device=x.device), torch.empty(K, C, device=x.device)), torch.empty_like(x)
    _moments[triton.cdiv(C, BC), blocks, K](x, sums, rows, share, C=C, BM=BM, BC=BC)
    _settle[triton.cdiv(C, 16), K](x, sums, moments.mean, moments.rate, running_mean, running_var, running_mean.stride(0), rows, blocks, momentum, eps, C=C, BC=16, PARTS=BLOCKS)
    _apply[triton.cdiv(rows, BM), triton.cdiv(C, BC), K](x, added, out, moments.mean, moments.rate, gamma, beta, gamma.stride(0), rows, C=C, ADD=added is not None, RELU=relu, BM=BM, BC=BC)
    return out, moments


def normalise_back(gradient: Tensor, x: Tensor, y: Tensor, moments: Moments, gamma: Tensor, beta: Tensor, gamma_slope: Tensor, beta_slope: Tensor, added: bool, relu: bool) -> tuple[Tensor, Tensor | None]:
    """The gradients with respect to x and to what was added; those of gamma and beta are written in place."""
    gradient, x = gradient.contiguous(), x.contiguous()
    K, rows, C = _extent(x)
    blocks, share, BM, BC = _cut(rows, C)
    sums, totals = torch.empty(K, blocks, 2, C, device=x.device), torch.empty(K, 2, C, device=x.device)
    passed, out = torch.empty_like(x) if added else None, torch.empty_like(x)
    _slopes[triton.cdiv(C, BC), blocks, K](gradient, x, y, passed, sums, moments.mean, moments.rate, gamma, beta, gamma.stride(0), rows, share, C=C, ADD=added, RELU=relu, BM=BM, BC=BC)
    _gather[triton.cdiv(C, 16), K](sums, totals, gamma_slope, beta_slope, gamma_slope.stride(0), blocks, C=C, BC=16, PARTS=BLOCKS)
    _back[triton.cdiv(rows, BM), triton.cdiv(C, BC), K](passed if added else gradient, x, out, totals, moments.mean, moments.rate, gamma, beta, gamma.stride(0), rows, C=C, MASK=relu and not added, BM=BM, BC=BC)
    return out, passed


def _extent(x: Tensor) -> tuple[int, int, int]:
    return x.shape[0], x[0].numel() // x.shape[-1], x.shape[-1]


def _cut(rows: int, channels: int) -> tuple[int, int, int, int]:
    """How many blocks of pixels, how many pixels in each, and the tile in which a program takes them."""
    BC = min(128, max(16, triton.next_power_of_2(channels)))
    BM = 4096 // BC
    share = triton.cdiv(triton.cdiv(rows, BLOCKS), BM) * BM
    return triton.cdiv(rows, share), share, BM, BC
