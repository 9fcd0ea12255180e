"""`ladp.columns` for float32 rows on a CUDA device: all layers of all clients in one or two launches, with sums in float64.

A layer is cut into chunks; one program sums a chunk and another the chunks of a layer, always in the same order.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from ladp.keys import Key
from ladp.params import Layer

CHUNK, BLOCK = 8192, 2048


@triton.jit
def _square(rows, row, starts, stops, out, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    chunk, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float64)
    for at in range(0, CHUNK, BLOCK):
        n = tl.load(starts + chunk) + at + tl.arange(0, BLOCK)
        value = tl.load(rows + client * row + n, mask=n < tl.load(stops + chunk), other=0.0).to(tl.float64)
        total += value * value
    tl.store(out + client * tl.num_programs(0) + chunk, tl.sum(total, 0))


@triton.jit
def _mass(rows, row, starts, stops, tops, masses, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    chunk, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    place, stop = tl.load(starts + chunk) + tl.arange(0, BLOCK), tl.load(stops + chunk)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    for at in range(0, CHUNK, BLOCK):
        top = tl.maximum(top, tl.load(rows + client * row + place + at, mask=place + at < stop, other=-float("inf")))
    peak, total = tl.max(top, 0), tl.zeros((BLOCK,), tl.float64)
    for at in range(0, CHUNK, BLOCK):
        value = tl.load(rows + client * row + place + at, mask=place + at < stop, other=-float("inf"))
        total += tl.exp(value - peak).to(tl.float64)
    tl.store(tops + client * tl.num_programs(0) + chunk, peak.to(tl.float64))
    tl.store(masses + client * tl.num_programs(0) + chunk, tl.sum(total, 0))


@triton.jit
def _level(tops, masses, edges, out, chunks, BLOCK: tl.constexpr):
    # log sum exp of a layer from its chunks.
    layer, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first, last = tl.load(edges + layer), tl.load(edges + layer + 1)
    peak = tl.full((BLOCK,), -float("inf"), tl.float64)
    for at in range(first, last, BLOCK):
        n = at + tl.arange(0, BLOCK)
        peak = tl.maximum(peak, tl.load(tops + client * chunks + n, mask=n < last, other=-float("inf")))
    top, total = tl.max(peak, 0), tl.zeros((BLOCK,), tl.float64)
    for at in range(first, last, BLOCK):
        n = at + tl.arange(0, BLOCK)
        mass = tl.load(masses + client * chunks + n, mask=n < last, other=0.0)
        total += mass * tl.exp(tl.load(tops + client * chunks + n, mask=n < last, other=-float("inf")) - top)
    tl.store(out + client * tl.num_programs(0) + layer, top + tl.log(tl.sum(total, 0)))


@triton.jit
def _diverge(rows, row, known, starts, stops, owners, local_level, known_level, layers, out, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    # Sum of q phi(u), u = log p - log q. Around u = 0 phi is its series, elsewhere u e^u - (e^u - 1).
    chunk, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    stop, layer = tl.load(stops + chunk), tl.load(owners + chunk)
    below = tl.load(known_level + layer)
    shift = tl.load(local_level + client * layers + layer) - below
    total = tl.zeros((BLOCK,), tl.float64)
    for at in range(0, CHUNK, BLOCK):
        n = tl.load(starts + chunk) + at + tl.arange(0, BLOCK)
        x = tl.load(rows + client * row + n, mask=n < stop, other=0.0).to(tl.float64)
        y = tl.load(known + n, mask=n < stop, other=0.0).to(tl.float64)
        u, q = (x - y - shift).to(tl.float32), tl.exp((y - below).to(tl.float32))
        near = u * u * (0.5 + u * (1 / 3 + u * (1 / 8 + u * (1 / 30 + u * (1 / 144 + u / 840)))))
        phi = tl.where(tl.abs(u) < 0.1, near, u * tl.exp(u) - (tl.exp(u) - 1.0))
        total += tl.where(n < stop, q * phi, 0.0).to(tl.float64)
    tl.store(out + client * tl.num_programs(0) + chunk, tl.sum(total, 0))


@triton.jit
def _perturb(rows, row, seeds, sigma, starts, stops, owners, layers, out, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    chunk, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    scale = tl.load(sigma + client * layers + tl.load(owners + chunk))
    stop = tl.where(scale == 0, 0, tl.load(stops + chunk))
    total = tl.zeros((BLOCK,), tl.float64)
    for at in range(0, CHUNK, BLOCK):
        n = tl.load(starts + chunk) + at + tl.arange(0, BLOCK)
        inside = n < stop
        noise = tl.randn(tl.load(seeds + client), n.to(tl.int32)) * scale
        value = tl.load(rows + client * row + n, mask=inside, other=0.0)
        tl.store(rows + client * row + n, value + noise, mask=inside)
        total += tl.where(inside, noise.to(tl.float64) * noise.to(tl.float64), 0.0)
    tl.store(out + client * tl.num_programs(0) + chunk, tl.sum(total, 0))


@triton.jit
def _total(parts, edges, out, chunks, BLOCK: tl.constexpr):
    layer, client = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first, last = tl.load(edges + layer), tl.load(edges + layer + 1)
    total = tl.zeros((BLOCK,), tl.float64)
    for at in range(first, last, BLOCK):
        n = at + tl.arange(0, BLOCK)
        total += tl.load(parts + client * chunks + n, mask=n < last, other=0.0)
    tl.store(out + client * tl.num_programs(0) + layer, tl.sum(total, 0))


@lru_cache(maxsize=8)
def _chunks(layers: tuple[Layer, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where each chunk starts and stops, whose layer it is, and at which chunk each layer begins."""
    cut = [(at, min(at + CHUNK, l.stop), j) for j, l in enumerate(layers) for at in range(l.start, l.stop, CHUNK)]
    starts, stops, owners = torch.tensor(cut, dtype=torch.int64).T.contiguous().to(device)
    edges = torch.searchsorted(owners, torch.arange(len(layers) + 1, device=device))
    return starts, stops, owners, edges


def norms(rows: Tensor, layers: Sequence[Layer]) -> Tensor:
    """||w_ij|| for each row i and layer j: [K, J]."""
    starts, stops, _, edges = _chunks(tuple(layers), rows.device)
    parts = _blank(len(rows), len(starts), rows)
    _square[parts.shape[::-1]](rows, rows.stride(0), starts, stops, parts, CHUNK=CHUNK, BLOCK=BLOCK)
    return _sum(parts, edges).sqrt_()


def divergences(rows: Tensor, known: Tensor, layers: Sequence[Layer]) -> Tensor:
    """KL(softmax(w_ij) || softmax(w_gj)) for each row i and layer j: [K, J]; every term is at least zero."""
    starts, stops, owners, edges = _chunks(tuple(layers), rows.device)
    parts = _blank(len(rows), len(starts), rows)
    local, fixed = _levels(rows, layers), _levels(known.unsqueeze(0), layers)
    _diverge[parts.shape[::-1]](rows, rows.stride(0), known, starts, stops, owners, local, fixed, len(layers), parts, CHUNK=CHUNK, BLOCK=BLOCK)
    return _sum(parts, edges)


def perturb(rows: Tensor, layers: Sequence[Layer], sigma: Tensor, keys: Sequence[Key]) -> Tensor:
    """Add N(0, sigma_kj^2 I) to layer j of row k, in place; returns the norms of what was added.

    The noise of column n of row k follows from keys[k] and n alone (Philox counters, Box-Muller).
    """
    starts, stops, owners, edges = _chunks(tuple(layers), rows.device)
    parts = _blank(len(rows), len(starts), rows)
    seeds, scales = torch.tensor([key.integer() for key in keys]).to(rows.device), sigma.to(rows.device, torch.float32)
    _perturb[parts.shape[::-1]](rows, rows.stride(0), seeds, scales, starts, stops, owners, len(layers), parts, CHUNK=CHUNK, BLOCK=BLOCK)
    return _sum(parts, edges).sqrt_()


def _levels(rows: Tensor, layers: Sequence[Layer]) -> Tensor:
    starts, stops, _, edges = _chunks(tuple(layers), rows.device)
    tops, masses = _blank(len(rows), len(starts), rows), _blank(len(rows), len(starts), rows)
    _mass[tops.shape[::-1]](rows, rows.stride(0), starts, stops, tops, masses, CHUNK=CHUNK, BLOCK=BLOCK)
    out = _blank(len(rows), len(layers), rows)
    _level[out.shape[::-1]](tops, masses, edges, out, len(starts), BLOCK=256)
    return out


def _sum(parts: Tensor, edges: Tensor) -> Tensor:
    out = _blank(len(parts), len(edges) - 1, parts)
    _total[out.shape[::-1]](parts, edges, out, parts.shape[1], BLOCK=256)
    return out


def _blank(clients: int, width: int, like: Tensor) -> Tensor:
    return torch.empty(clients, width, dtype=torch.float64, device=like.device)
