"""LaDP-FL: Algorithms 2 (lines 10 to 17), 3 and 4 of the paper, exactly as printed, for a whole cohort at once."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from ladp.columns import divergences, norms
from ladp.errors import Problem
from ladp.mechanisms.gaussian import GaussianMethod
from ladp.params import Layer
from ladp.privacy.mechanism import Guarantee, Plan, Seen


@dataclass(frozen=True)
class LaDP(GaussianMethod):
    """Noise on the layers with ||w_ij|| >= R, the more the closer a layer is to the global model.

    sigma_ij = c_i Delta / (epsilon P_ij) with P_ij = min(KL(softmax(w_ij) || softmax(w_gj)), B) and c_i = c B (Theorem 3 at equality).
    `importance` is R and `bound` is B: a number, or "q0.05" for a quantile of what is public in the round (the norms of the global
    model's layers; the divergences between the last two global models). `floor` is the least P; 0 refuses a layer whose P is 0.
    """

    name: ClassVar[str] = "ladp"
    peeks: ClassVar[bool] = True
    constant: str = "paper"
    importance: float | str = 0.0
    bound: float | str = 1e-7
    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        quantile(self.importance), quantile(self.bound)
        if quantile(self.bound) is None and not self.bound > 0:
            raise Problem(f"bound B must be positive, got {self.bound}")
        if not self.floor >= 0:
            raise Problem(f"floor must be at least 0, got {self.floor}")

    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        layers = seen.layout.layers(self.layers, self.state)
        sizes, estimate = norms(local, layers), divergences(local, seen.current, layers)  # Algorithm 3, lines 1 to 4
        sizes, estimate = sizes.cpu(), estimate.cpu()  # a device is waited for once, with both under way
        selected = sizes >= self._R(seen, layers)  # Algorithm 2, line 12
        bound = self._B(seen, layers, estimate)
        privacy = estimate.clamp_min(self.floor).minimum(bound)  # Algorithm 3, line 5
        self._refuse_zero(seen, layers, privacy, selected)
        sigma = self.sigma(seen).unsqueeze(1) * bound / privacy  # Algorithm 4, line 1
        return Plan(layers, torch.where(selected, sigma, 0.0), estimate, privacy, selected)

    def share(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        """Under a common budget: noise in proportion to 1/P on every layer, as a layer without noise has no budget."""
        every = replace(self, importance=0.0).plan(replace(seen, allowance=None), local, memory)
        return replace(every, sigma=1 / every.privacy)

    def _R(self, seen: Seen, layers: tuple[Layer, ...]) -> Tensor:
        level = quantile(self.importance)
        if level is None:
            return torch.tensor(float(self.importance), dtype=torch.float64)
        return norms(seen.current.unsqueeze(0), layers).cpu().quantile(level)

    def _B(self, seen: Seen, layers: tuple[Layer, ...], estimate: Tensor) -> Tensor:
        """B; before two global models are public there is no quantile of theirs, so every estimate is clipped: B is the least of them."""
        level = quantile(self.bound)
        if level is None:
            return torch.tensor(float(self.bound), dtype=torch.float64)
        if seen.previous is None:
            return estimate.clamp_min(self.floor).amin(1, keepdim=True)
        return divergences(seen.current.unsqueeze(0), seen.previous, layers).cpu().quantile(level)

    def _refuse_zero(self, seen: Seen, layers: tuple[Layer, ...], privacy: Tensor, selected: Tensor) -> None:
        bad = selected & ~(privacy > 0)
        if bool(bad.any()):
            k, j = bad.nonzero()[0].tolist()
            raise Problem(
                f"client {seen.cohort[k]}, round {seen.round}: P of layer {layers[j].name!r} is {privacy[k, j].item():g}, so sigma = c Delta / (epsilon P) "
                "has no value (did the layer not move?); set a floor, e.g. floor = 1e-9"
            )

    def claim(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, "record", "one upload", "the paper's Theorem 3, per round and layer")

    def certify(self) -> Guarantee:
        return self.unproved(
            "layers below R go out without noise",
            "sigma depends on the private weights, through P and through the choice of layers",
            "the theorem's constant is too small for small delta",
            "each layer spends its own (epsilon, delta) and they are not composed",
        )


def divergence(local: Tensor, known: Tensor) -> float:
    """KL(softmax(local) || softmax(known)) of two tensors of one layer, in float64 and not clipped (Algorithm 3, lines 2 to 4)."""
    if local.shape != known.shape:
        raise Problem(f"a layer of shape {tuple(local.shape)} cannot be compared with one of shape {tuple(known.shape)}")
    return divergences(local.reshape(1, -1), known.reshape(-1), [Layer("layer", 0, local.numel())]).item()


def quantile(threshold: float | str) -> float | None:
    """0.05 for "q0.05"; None for a plain number."""
    if isinstance(threshold, (int, float)) and threshold == threshold:
        return None
    try:
        level = float(str(threshold).removeprefix("q")) if str(threshold).startswith("q") else -1.0
    except ValueError:
        level = -1.0
    if not 0 <= level <= 1:
        raise Problem(f"a threshold is a number or a quantile such as 'q0.05', got {threshold!r}")
    return level
