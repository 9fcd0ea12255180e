"""The ends of a step, one launch each: images in, dropout, the loss, and clipped descent."""

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 16384


@triton.jit
def _fetch(images, labels, order, cursor, x, y, row, height, width, C: tl.constexpr, PAD: tl.constexpr, BLOCK: tl.constexpr):
    client, record = tl.program_id(1).to(tl.int64), tl.program_id(0)
    packed = tl.load(order + client * row + tl.load(cursor + client) + record)
    index, code = packed >> 8, (packed & 255).to(tl.int32)
    down, right, mirror = code // (4 * PAD + 2), code // 2 % (2 * PAD + 1), code % 2
    place = client * tl.num_programs(0) + record
    tl.store(y + place, tl.load(labels + index))
    size = height * width * C
    for at in range(0, size, BLOCK):
        n = at + tl.arange(0, BLOCK)
        c, column, line = n % C, n // C % width, n // (C * width)
        column = tl.where(mirror == 1, width - 1 - column, column) + right - PAD
        line = line + down - PAD
        inside = (n < size) & (column >= 0) & (column < width) & (line >= 0) & (line < height)
        pixel = tl.load(images + index * size + (c * height + line) * width + column, mask=inside, other=0).to(tl.float32)
        tl.store(x + place * size + n, (pixel / 127.5 - 1.0).to(x.dtype.element_ty), mask=n < size)


@triton.jit
def _drop(x, out, seeds, cursor, number, width, size, rate, BLOCK: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(cursor + client) * width + n
    kept = tl.rand(tl.load(seeds + client) + number, place.to(tl.int32)) >= rate
    value = tl.load(x + client * size + n, mask=n < size, other=0.0).to(tl.float32)
    tl.store(out + client * size + n, tl.where(kept, value / (1 - rate), 0.0).to(out.dtype.element_ty), mask=n < size)


@triton.jit
def _loss(logits, labels, slope, losses, batch, classes, BB: tl.constexpr, BN: tl.constexpr):
    client = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BN)
    total = tl.zeros((BB,), tl.float32)
    for at in range(0, batch, BB):
        b = at + tl.arange(0, BB)
        inside = (b < batch)[:, None] & (n < classes)[None, :]
        place = (client * batch + b)[:, None] * classes + n[None, :]
        z = tl.load(logits + place, mask=inside, other=-float("inf")).to(tl.float32)
        z = tl.where((b < batch)[:, None], z, 0.0)
        z -= tl.max(z, 1)[:, None]
        exp = tl.exp(z)
        mass = tl.sum(exp, 1)
        right = tl.load(labels + client * batch + b, mask=b < batch, other=0)[:, None] == n[None, :]
        total += tl.where(b < batch, tl.log(mass) - tl.sum(tl.where(right, z, 0.0), 1), 0.0)
        g = (exp / mass[:, None] - tl.where(right, 1.0, 0.0)) / batch
        tl.store(slope + place, g.to(slope.dtype.element_ty), mask=inside)
    tl.store(losses + client, tl.load(losses + client) + (tl.sum(total, 0) / batch).to(tl.float64))


@triton.jit
def _squares(slopes, sums, row, width, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    client = tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, CHUNK, BLOCK):
        n = tl.program_id(0) * CHUNK + at + tl.arange(0, BLOCK)
        g = tl.load(slopes + client * row + n, mask=n < width, other=0.0).to(tl.float32)
        total += g * g
    tl.store(sums + client * tl.num_programs(0) + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _descend(weights, slopes, working, sums, row, slope_row, working_row, width, lr, bound, CHUNK: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    client, chunks = tl.program_id(1).to(tl.int64), tl.num_programs(0)
    part = tl.arange(0, PARTS)
    norm = tl.sqrt(tl.sum(tl.load(sums + client * chunks + part, mask=part < chunks, other=0.0), 0))
    step = tl.where(norm > bound, lr * bound / norm, lr)
    for at in range(0, CHUNK, BLOCK):
        n = tl.program_id(0) * CHUNK + at + tl.arange(0, BLOCK)
        g = tl.load(slopes + client * slope_row + n, mask=n < width, other=0.0).to(tl.float32)
        w = tl.load(weights + client * row + n, mask=n < width, other=0.0) - step * g
        tl.store(weights + client * row + n, w, mask=n < width)
        tl.store(working + client * working_row + n, w.to(working.dtype.element_ty), mask=n < width)


def fetch(images: Tensor, labels: Tensor, order: Tensor, cursor: Tensor, batch: int, pad: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The next `batch` records of every client from bytes [N, C, H, W]: cropped, mirrored and normalised [K, B, H, W, C], with labels [K, B]."""
    K, (_, C, height, width) = len(cursor), images.shape
    x = torch.empty(K, batch, height, width, C, dtype=dtype, device=images.device)
    y = torch.empty(K, batch, dtype=torch.int64, device=images.device)
    _fetch[batch, K](images, labels, order, cursor, x, y, order.stride(0), height, width, C=C, PAD=pad, BLOCK=1024)
    return x, y


def drop(x: Tensor, rate: float, seeds: Tensor, cursor: Tensor, number: int) -> Tensor:
    """Dropout by counter: whether an element of a record is kept follows from the client's seed, its place in the round and the layer's number alone."""
    out, size = torch.empty_like(x), x[0].numel()
    _drop[triton.cdiv(size, 1024), len(x)](x, out, seeds, cursor, number, size // x.shape[1], size, rate, BLOCK=1024)
    return out


def cross_entropy(logits: Tensor, labels: Tensor, losses: Tensor) -> Tensor:
    """The gradient of each client's mean loss [K, B, classes]; the loss itself is added to `losses` [K]."""
    (K, batch, classes), slope = logits.shape, torch.empty_like(logits)
    _loss[(K,)](logits, labels, slope, losses, batch, classes, BB=16, BN=triton.next_power_of_2(classes))
    return slope


def descend(weights: Tensor, slopes: Tensor, working: Tensor, lr: float, clip: float) -> None:
    """w -= lr g / max(1, ||g|| / clip) for each client, and the working copy of w in the precision of the arithmetic."""
    K, width = slopes.shape
    chunks = triton.cdiv(width, CHUNK)
    sums = torch.empty(K, chunks, device=weights.device)
    _squares[chunks, K](slopes, sums, slopes.stride(0), width, CHUNK=CHUNK, BLOCK=4096)
    _descend[chunks, K](weights, slopes, working, sums, weights.stride(0), slopes.stride(0), working.stride(0), width, lr, clip, CHUNK=CHUNK, PARTS=triton.next_power_of_2(chunks), BLOCK=4096)
