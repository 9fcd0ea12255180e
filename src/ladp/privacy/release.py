"""The only door out of a client, and out of the server: clip and noise as planned, and a receipt."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ladp.columns import perturb, shorten
from ladp.errors import Problem
from ladp.keys import Key
from ladp.privacy.budget import matched
from ladp.privacy.mechanism import Mechanism, Plan, Seen


@dataclass(frozen=True)
class Receipt:
    """What left each client of the cohort, layer by layer: all [K, J], in float64 on the CPU; KL and P are NaN where nothing was estimated,
    and so is z, the multiplier that the upload is charged for, where no budget is kept."""

    sigma: Tensor
    noise: Tensor
    divergence: Tensor
    privacy: Tensor
    selected: Tensor
    multiplier: Tensor

    @staticmethod
    def follow(receipts: "list[Receipt]") -> "Receipt":
        """One receipt for steps that followed each other: variances and squared lengths add up."""
        return replace(receipts[-1], **{part: torch.stack([getattr(r, part) for r in receipts]).square().sum(0).sqrt() for part in ("sigma", "noise")})

    @staticmethod
    def join(receipts: "list[Receipt]") -> "Receipt":
        """One receipt for clients that were released one by one."""
        return Receipt(*(torch.cat([getattr(r, f) for r in receipts]) for f in FIELDS))


FIELDS = tuple(Receipt.__dataclass_fields__)


def planned(mechanism: Mechanism, seen: Seen, rows: Tensor, memory: Tensor | None = None) -> Plan:
    """What is to happen to the trained weights `rows` [K, size]; only a mechanism that peeks is handed them."""
    return (matched if seen.allowance else type(mechanism).plan)(mechanism, seen, rows if mechanism.peeks else None, memory)


def release(mechanism: Mechanism, seen: Seen, rows: Tensor, keys: list[Key], memory: Tensor | None = None) -> Receipt:
    """Turn the trained weights `rows` [K, size] into uploads, in place, and say what was done.

    A mechanism that does not peek is never handed the weights. Noise for client k is drawn from keys[k] alone.
    """
    plan = planned(mechanism, seen, rows, memory)
    sigma = _checked(plan, seen)
    if memory is not None and plan.memory is not None:
        memory.copy_(plan.memory)
    if plan.clip is not None:
        shorten(rows, plan.layers, plan.clip, seen.current if plan.clips == "update" else None)
    noise = perturb(rows, plan.layers, sigma, keys)
    mechanism.finish(seen, rows, memory)
    return _receipt(plan, sigma, noise)


def release_step(plan: Plan, seen: Seen, rows: Tensor, sums: Tensor, scale: Tensor, keys: list[Key]) -> Receipt:
    """One local step of a record-level budget: noise on the clipped sums [K, size], in place, and only then w <- w - scale (sum + noise) [K].

    Adding or removing a record moves a client's sum by at most 1 in the norm of `plan.clip`, so each step is a Gaussian mechanism of multiplier z.
    The receipt's sigma and noise are those of the weights.
    """
    noise, reach = perturb(sums, plan.layers, _checked(plan, seen), keys), scale.to(torch.float64).unsqueeze(1)
    rows.addcmul_(sums, -scale.to(rows).unsqueeze(1))
    return _receipt(plan, plan.sigma * reach, noise.cpu() * reach)


def broadcast(mechanism: Mechanism, seen: Seen, current: Tensor, key: Key) -> float:
    """Noise the new global model [size] before all clients see it, in place, if the method asks for it; the norm of what was added."""
    sigma = mechanism.downlink(seen)
    if sigma == 0:
        return 0.0
    layers = seen.layout.layers(mechanism.layers, mechanism.state)
    plan = Plan(layers, torch.full((1, len(layers)), sigma, dtype=torch.float64))
    return perturb(current.unsqueeze(0), layers, _checked(plan, seen), [key]).square().sum().sqrt().item()


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
    multiplier = blank if plan.multiplier is None else plan.multiplier.cpu().unsqueeze(1).expand_as(sigma)
    return Receipt(sigma.contiguous(), noise.to("cpu", torch.float64), *estimates, selected.to(torch.float64), multiplier.contiguous())
