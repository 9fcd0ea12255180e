"""The only door out of a client: noise as planned, and a receipt."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ladp.columns import perturb
from ladp.errors import Problem
from ladp.keys import Key
from ladp.privacy.mechanism import Mechanism, Plan, Seen


@dataclass(frozen=True)
class Receipt:
    """What left each client of the cohort, layer by layer: all [K, J], in float64 on the CPU; KL and P are NaN where nothing was estimated."""

    sigma: Tensor
    noise: Tensor
    divergence: Tensor
    privacy: Tensor
    selected: Tensor

    @staticmethod
    def join(receipts: "list[Receipt]") -> "Receipt":
        """One receipt for clients that were released one by one."""
        return Receipt(*(torch.cat([getattr(r, f) for r in receipts]) for f in FIELDS))


FIELDS = tuple(Receipt.__dataclass_fields__)


def release(mechanism: Mechanism, seen: Seen, rows: Tensor, keys: list[Key], memory: Tensor | None = None) -> Receipt:
    """Turn the trained weights `rows` [K, size] into uploads, in place, and say what was done.

    A mechanism that does not peek is never handed the weights. Noise for client k is drawn from keys[k] alone.
    """
    plan = mechanism.plan(seen, rows if mechanism.peeks else None, memory)
    sigma = _checked(plan, seen)
    if memory is not None and plan.memory is not None:
        memory.copy_(plan.memory)
    noise = perturb(rows, plan.layers, sigma, keys)
    return _receipt(plan, sigma, noise)


def _checked(plan: Plan, seen: Seen) -> Tensor:
    """Sigma on the CPU, refused where it is not a finite number of at least zero."""
    sigma = plan.sigma.detach().to("cpu", torch.float64)
    if bool((sigma.isfinite() & (sigma >= 0)).all()):
        return sigma
    k, j = (~(sigma.isfinite() & (sigma >= 0))).nonzero()[0].tolist()
    raise Problem(f"client {seen.cohort[k]}, round {seen.round}: sigma of layer {plan.layers[j].name!r} came out {sigma[k, j].item()}; nothing was sent")


def _receipt(plan: Plan, sigma: Tensor, noise: Tensor) -> Receipt:
    blank = torch.full_like(sigma, torch.nan)
    estimates = (blank if part is None else part.to("cpu", torch.float64) for part in (plan.divergence, plan.privacy))
    selected = sigma > 0 if plan.selected is None else plan.selected.cpu()
    return Receipt(sigma.contiguous(), noise.to("cpu", torch.float64), *estimates, selected.to(torch.float64))
