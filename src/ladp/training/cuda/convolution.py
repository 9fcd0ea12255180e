"""Convolutions with other weights for every client, as one matrix product a launch: the client is an axis of the grid.

Images are [K, B, H, W, C] and weights [K, C_out, R, S, C_in], channels last; products are summed in float32. Nothing is unfolded in
memory: each tile of the product gathers its shifted pixels itself.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Window:
    """The geometry of a square convolution."""

    size: int
    stride: int
    padding: int

    def outputs(self, side: int) -> int:
        """How many places the window has along `side` pixels."""
        return (side + 2 * self.padding - self.size) // self.stride + 1


@dataclass(frozen=True)
class Tile:
    """The part of a product that one program computes, and how it is scheduled."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


@triton.jit
def _contract(source, weight, bias, into, out, weight_row, bias_row, rows, high, wide, height, width, out_height, out_width,
              C: tl.constexpr, N: tl.constexpr, R: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, BACK: tl.constexpr, FLAT: tl.constexpr,
              BIAS: tl.constexpr, INTO: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # out[m, n] = sum over taps and channels of source[m shifted by the tap, c] weight[n, tap, c]. Backwards the weights are read the other
    # way round, and with a stride each of its STRIDE^2 phases of pixels meets only the taps that reached it, so nothing is multiplied by zero.
    client = tl.program_id(2).to(tl.int64)
    tiles = tl.cdiv(N, BN)
    m = tl.program_id(0) // tiles * BM + tl.arange(0, BM)
    n = tl.program_id(0) % tiles * BN + tl.arange(0, BN)
    image, place = m // (high * wide), m % (high * wide)
    y, x = place // wide, place % wide
    phase_y, phase_x = tl.program_id(1) // STRIDE, tl.program_id(1) % STRIDE
    if BACK:
        first_y, first_x = (phase_y + PAD) % STRIDE, (phase_x + PAD) % STRIDE
        taps_y, taps_x = (R - first_y + STRIDE - 1) // STRIDE, (R - first_x + STRIDE - 1) // STRIDE
        top, left = y + (phase_y + PAD) // STRIDE, x + (phase_x + PAD) // STRIDE
        out_y, out_x = y * STRIDE + phase_y, x * STRIDE + phase_x
        SIGN: tl.constexpr = -1
    else:
        first_y, first_x, taps_y, taps_x = 0, 0, R, R
        top, left = y * STRIDE - PAD, x * STRIDE - PAD
        out_y, out_x = y, x
        SIGN: tl.constexpr = 1
    source += client * (rows // (high * wide)) * height * width * C
    weight += client * weight_row
    here = ((image * height + top) * width + left) * C
    exists = (m < rows) & (out_y < out_height) & (out_x < out_width)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    if FLAT:
        for at in range(0, taps_y * taps_x * C, BK):
            k = at + tl.arange(0, BK)
            tap, c = k // C, k % C
            i, j = tap // taps_x, tap % taps_x
            row, column = top[:, None] + SIGN * i[None, :], left[:, None] + SIGN * j[None, :]
            inside = exists[:, None] & (row >= 0) & (row < height) & (column >= 0) & (column < width) & (k < taps_y * taps_x * C)[None, :]
            a = tl.load(source + here[:, None] + (SIGN * (i * width + j) * C + c)[None, :], mask=inside, other=0.0)
            if BACK:
                where = c * (R * R * N) + ((first_y + STRIDE * i) * R + first_x + STRIDE * j) * N
                b = tl.load(weight + where[:, None] + n[None, :], mask=(k < taps_y * taps_x * C)[:, None] & (n < N)[None, :], other=0.0)
            else:
                b = tl.load(weight + k[:, None] + n[None, :] * (R * R * C), mask=(k < R * R * C)[:, None] & (n < N)[None, :], other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
    else:
        PARTS: tl.constexpr = C // BK
        for step in range(0, taps_y * taps_x * PARTS):
            tap, c = step // PARTS, step % PARTS * BK + tl.arange(0, BK)
            i, j = tap // taps_x, tap % taps_x
            row, column = top + SIGN * i, left + SIGN * j
            inside = exists & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            a = tl.load(source + here[:, None] + (SIGN * (i * width + j) * C + c)[None, :], mask=inside[:, None], other=0.0)
            if BACK:
                at_tap = ((first_y + STRIDE * i) * R + first_x + STRIDE * j) * N
                b = tl.load(weight + at_tap + c[:, None] * (R * R * N) + n[None, :], mask=(n < N)[None, :], other=0.0)
            else:
                b = tl.load(weight + tap * C + c[:, None] + n[None, :] * (R * R * C), mask=(n < N)[None, :], other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
    if BIAS:
        total += tl.load(bias + client * bias_row + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    target = ((client * (rows // (high * wide)) + image) * out_height + out_y) * out_width + out_x
    written = exists[:, None] & (n < N)[None, :]
    if INTO:
        total += tl.load(into + target[:, None] * N + n[None, :], mask=written, other=0.0).to(tl.float32)
    tl.store(out + target[:, None] * N + n[None, :], total.to(out.dtype.element_ty), mask=written)


@triton.jit
def _correlate(gradient, source, out, bias, out_row, bias_row, part_row, rows, share, height, width,
               HIGH: tl.constexpr, WIDE: tl.constexpr, C: tl.constexpr, N: tl.constexpr, R: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
               FLAT: tl.constexpr, BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # out[n, tap, c] = sum over pixels of gradient[pixel, n] source[pixel shifted by the tap, c], for one share of the pixels; bias[n] likewise without source.
    client, part = tl.program_id(2).to(tl.int64), tl.program_id(1)
    COLUMNS: tl.constexpr = R * R * C
    TILES: tl.constexpr = (COLUMNS + BN - 1) // BN
    n = tl.program_id(0) // TILES * BM + tl.arange(0, BM)
    column = tl.program_id(0) % TILES * BN
    if FLAT:
        k = column + tl.arange(0, BN)
        tap, c = k // C, k % C
        known = k < COLUMNS
    else:
        tap, c = column // C, tl.multiple_of(column % C, BN) + tl.arange(0, BN)
        k = column + tl.arange(0, BN)
    i, j = tap // R - PAD, tap % R - PAD
    gradient += client * rows * N
    source += client * (rows // (HIGH * WIDE)) * height * width * C
    total, plain = tl.zeros((BM, BN), dtype=tl.float32), tl.zeros((BM,), dtype=tl.float32)
    last = tl.minimum(part * share + share, rows)
    for at in range(part * share, last, BK):
        m = at + tl.arange(0, BK)
        image, place = m // (HIGH * WIDE), m % (HIGH * WIDE)
        y, x = place // WIDE * STRIDE, place % WIDE * STRIDE
        here = ((image * height + y) * width + x) * C
        a = tl.load(gradient + m[:, None] * N + n[None, :], mask=(m < last)[:, None] & (n < N)[None, :], other=0.0)
        if FLAT:
            row, col = y[:, None] + i[None, :], x[:, None] + j[None, :]
            inside = (m < last)[:, None] & (row >= 0) & (row < height) & (col >= 0) & (col < width) & known[None, :]
            b = tl.load(source + here[:, None] + ((i * width + j) * C + c)[None, :], mask=inside, other=0.0)
        else:
            row, col = y + i, x + j
            inside = (m < last) & (row >= 0) & (row < height) & (col >= 0) & (col < width)
            b = tl.load(source + here[:, None] + ((i * width + j) * C + c)[None, :], mask=inside[:, None], other=0.0)
        total = tl.dot(tl.trans(a), b, total, input_precision="ieee")
        if BIAS:
            plain += tl.sum(a.to(tl.float32), 0)
    if BIAS:
        tl.store(bias + client * bias_row + part.to(tl.int64) * part_row + n, plain.to(bias.dtype.element_ty), mask=(n < N) & (column == 0))
    target = out + client * out_row + part.to(tl.int64) * part_row + n[:, None] * COLUMNS + k[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=(n < N)[:, None] & (k < COLUMNS)[None, :])


@triton.jit
def _gather(parts, out, row, count, part_row, size, client_row, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr):
    client, n = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total, part = tl.zeros((BLOCK,), tl.float32), tl.arange(0, AT_ONCE)
    for first in range(0, count, AT_ONCE):
        place = (first + part).to(tl.int64)[:, None] * part_row + client * client_row + n[None, :]
        total += tl.sum(tl.load(parts + place, mask=(first + part < count)[:, None] & (n < size)[None, :], other=0.0), 0)
    tl.store(out + client * row + n, total.to(out.dtype.element_ty), mask=n < size)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, window: Window, tile: Tile | None = None) -> Tensor:
    """y = weight * x + bias for every client: [K, B, H', W', C_out]."""
    x, (height, width) = x.contiguous(), (window.outputs(side) for side in x.shape[2:4])
    out = x.new_empty(*x.shape[:2], height, width, weight.shape[1])
    return _launch(x, weight, bias, None, out, (height, width), window, False, tile)


def convolve_back(gradient: Tensor, weight: Tensor, shape: torch.Size, window: Window, into: Tensor | None = None, tile: Tile | None = None) -> Tensor:
    """The gradient with respect to the input of `shape`, plus `into`: what has reached that input by other ways."""
    gradient, out = gradient.contiguous(), gradient.new_empty(shape)
    phase = tuple(-(-side // window.stride) for side in shape[2:4])
    return _launch(gradient, weight, None, into, out, phase, window, True, tile)


def _launch(source: Tensor, weight: Tensor, bias: Tensor | None, into: Tensor | None, out: Tensor, places: tuple[int, int], window: Window, back: bool, tile: Tile | None) -> Tensor:
    K, B, height, width, C = source.shape
    N, rows = out.shape[-1], B * places[0] * places[1]
    tile = tile or choose_tile(rows, N, C, out.dtype)
    grid = (triton.cdiv(rows, tile.rows) * triton.cdiv(N, tile.columns), window.stride**2 if back else 1, K)
    _contract[grid](
        source, weight, bias, into, out, weight.stride(0), bias.stride(0) if bias is not None else 0, rows, *places, height, width, *out.shape[2:4],
        C=C, N=N, R=window.size, STRIDE=window.stride, PAD=window.padding, BACK=back, FLAT=C % tile.depth != 0, BIAS=bias is not None, INTO=into is not None,
        BM=tile.rows, BN=tile.columns, BK=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
    )
    return out


def correlate(gradient: Tensor, x: Tensor, out: Tensor, bias: Tensor | None, window: Window, tile: Tile | None = None, parts: int | None = None) -> None:
    """The gradients with respect to the weights and the bias, written to `out` [K, C_out, R, S, C_in] and `bias` [K, C_out]."""
    gradient, x = gradient.contiguous(), x.contiguous()
    K, B, height, width, C = x.shape
    N, rows, columns = gradient.shape[-1], B * gradient.shape[2] * gradient.shape[3], window.size**2 * C
    tile = tile or choose_correlation(N, columns, x.dtype)
    tiles = triton.cdiv(N, tile.rows) * triton.cdiv(columns, tile.columns)
    parts = parts or max(1, min(rows // (4 * tile.depth), PROGRAMS // (tiles * K)))
    share = triton.cdiv(triton.cdiv(rows, parts), tile.depth) * tile.depth
    size = N * (columns + (bias is not None))  # one client's sums of one part: weights, then bias
    sums = torch.empty(parts, K, size, device=x.device) if parts > 1 else None
    weights, biases, rows_out = (out, bias, (out.stride(0), bias.stride(0) if bias is not None else 0)) if sums is None else (sums, sums[:, :, N * columns :], (size, size))
    _correlate[tiles, parts, K](
        gradient, x, weights, biases, *rows_out, K * size, rows, share, height, width,
        HIGH=gradient.shape[2], WIDE=gradient.shape[3], C=C, N=N, R=window.size, STRIDE=window.stride, PAD=window.padding, FLAT=C % tile.columns != 0,
        BIAS=bias is not None, BM=tile.rows, BN=tile.columns, BK=tile.depth, num_warps=tile.warps, num_stages=tile.stages,
    )
    if sums is not None:
        _collect(sums, out, bias, N * columns)


def _collect(sums: Tensor, out: Tensor, bias: Tensor | None, weights: int) -> None:
    """Add the parts up."""
    parts, K, size = sums.shape
    for start, stop, target in ((0, weights, out), (weights, size, bias)):
        if target is not None:
            block, at_once = (64, 32) if parts > 8 else (512, 4)
            _gather[triton.cdiv(stop - start, block), K](sums[:, :, start:], target, target.stride(0), parts, K * size, stop - start, size, BLOCK=block, AT_ONCE=at_once)


PROGRAMS = 1056  # eight for each of an H200's 132 multiprocessors


def choose_tile(rows: int, outputs: int, channels: int, dtype: torch.dtype = torch.bfloat16) -> Tile:
    """Tiles that were fastest on an H200 (benchmarks/NOTES.md): as wide as the product allows, low where a client has few pixels."""
    depth = next((d for d in (64, 32, 16) if channels % d == 0), 32)
    if dtype == torch.float32:
        return Tile(64, min(64, max(16, triton.next_power_of_2(outputs))), min(depth, 32), 4, 2)
    if outputs <= 64:
        return Tile(128, max(16, triton.next_power_of_2(outputs)), depth, 4, 3)
    if rows <= 1024:
        return Tile(64, 128, depth, 4, 4)
    return Tile(128, 256, depth, 8, 3) if outputs >= 256 else Tile(128, 128, depth, 4, 3)


def choose_correlation(outputs: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> Tile:
    """The same for weight gradients."""
    most = 64 if dtype == torch.float32 else 128
    rows, wide = (min(most, max(16, triton.next_power_of_2(n))) for n in (outputs, columns))
    if dtype == torch.float32:
        return Tile(rows, wide, 32, 4, 2)
    return Tile(rows, wide, 64, 8 if rows * wide == 128 * 128 else 4, 3)
