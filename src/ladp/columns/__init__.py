"""Arithmetic by layer on a cohort's rows: norms, divergences, noise and the mean, for all clients at once.

Float32 rows on a CUDA device go to the kernels of `ladp.columns.cuda`, which have the same arguments and the same meaning.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from ladp.keys import Key, Source
from ladp.params import Layer


def _kernels(rows: Tensor) -> ModuleType | None:
    if not rows.is_cuda or rows.dtype != torch.float32 or find_spec("triton") is None:
        return None
    from ladp.columns import cuda

    return cuda


def norms(rows: Tensor, layers: Sequence[Layer]) -> Tensor:
    """||w_ij|| for each row i and layer j, in float64: [K, J]."""
    if kernels := _kernels(rows):
        return kernels.norms(rows, layers)
    return torch.stack([torch.linalg.vector_norm(rows[:, l.start : l.stop], dim=1, dtype=torch.float64) for l in layers], 1)


def divergences(rows: Tensor, known: Tensor, layers: Sequence[Layer]) -> Tensor:
    """KL(softmax(w_ij) || softmax(w_gj)) for each row i and layer j: [K, J] (Algorithm 3, before clipping at B).

    In float64, as sum q phi(u) with u = log p - log q and phi(u) = u e^u - (e^u - 1) >= 0: every term is non-negative,
    so millions of weights that moved by 1e-4 neither underflow nor come out below zero.
    """
    if kernels := _kernels(rows):
        return kernels.divergences(rows, known, layers)
    return torch.stack([_divergence(rows[:, l.start : l.stop], known[l.start : l.stop]) for l in layers], 1)


def _divergence(local: Tensor, known: Tensor) -> Tensor:
    q = torch.log_softmax(known.double(), -1)
    u = torch.log_softmax(local.double(), -1).sub_(q)
    return _phi(u) @ q.exp_()


def _phi(u: Tensor) -> Tensor:
    """u e^u - (e^u - 1) as u v + (u - v) with v = e^u - 1: about u^2/2 where u is small, off by a few 1e-16 u at most."""
    v = u.expm1()
    return (u - v).addcmul_(u, v).clamp_min_(0)


def shorten(rows: Tensor, layers: Sequence[Layer], scale: Tensor, centre: Tensor | None = None) -> None:
    """v / max(1, ||v||_s) for each row's distance v from `centre` (0 if there is none), in place, with ||v||_s^2 = sum_j ||v_j||^2 / s_kj^2; a layer with s_kj = 0 is put back."""
    origin = torch.zeros_like(rows[:1]) if centre is None else centre.unsqueeze(0)
    moved, scale = rows - origin, scale.to(rows.device)
    length = torch.where(scale > 0, norms(moved, layers) / scale, 0.0).square().sum(1).sqrt()
    factor = (1 / length.clamp_min(1.0)).to(rows.dtype).unsqueeze(1)
    for j, layer in enumerate(layers):
        part, kept = slice(layer.start, layer.stop), factor * (scale[:, j : j + 1] > 0)
        rows[:, part] = torch.where(kept < 1, origin[:, part] + kept.to(rows.dtype) * moved[:, part], rows[:, part])


def perturb(rows: Tensor, layers: Sequence[Layer], sigma: Tensor, keys: Sequence[Key] | Sequence[Source]) -> Tensor:
    """Add N(0, sigma_kj^2 I) to layer j of row k, in place (Algorithm 4, lines 2 and 3); returns the norms of what was added, [K, J].

    A client's noise is one draw of the whole row from its own key, of which each layer takes its columns,
    so what one layer gets does not depend on which others were chosen.
    """
    if not all(isinstance(key, Key) for key in keys):
        return _add(rows, layers, sigma, keys)
    if kernels := _kernels(rows):
        return kernels.perturb(rows, layers, sigma, keys)
    drawn = torch.zeros_like(sigma)
    for k, key in enumerate(keys):
        if not bool((sigma[k] > 0).any()):
            continue
        normal = torch.randn(rows.shape[1], dtype=rows.dtype, device=rows.device, generator=key.generator(rows.device))
        for j, layer in enumerate(layers):
            if sigma[k, j] > 0:
                part = normal[layer.start : layer.stop].mul_(sigma[k, j].item())
                rows[k, layer.start : layer.stop] += part
                drawn[k, j] = torch.linalg.vector_norm(part, dtype=torch.float64)
    return drawn


def _add(rows: Tensor, layers: Sequence[Layer], sigma: Tensor, sources: Sequence[Source]) -> Tensor:
    """The same with noise that no key decides."""
    drawn = torch.zeros_like(sigma)
    for k, j in (sigma > 0).nonzero().tolist():
        drawn[k, j] = sources[k].add(rows[k, layers[j].start : layers[j].stop], sigma[k, j].item())
    return drawn


def mean(rows: Tensor, weights: Tensor) -> Tensor:
    """sum_i weights_i rows_i: the new global model (equation 3)."""
    return weights.to(rows.device, rows.dtype) @ rows
