"""Normalisation by name: the one choice that decides whether per-record guarantees are possible at all."""

from collections.abc import Callable
from math import gcd

from torch import nn

from ladp.errors import choose

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda channels: nn.Identity(),
    "batch": nn.BatchNorm2d,
    "group": lambda channels: nn.GroupNorm(gcd(32, max(1, channels // 4)), channels),  # a group of one channel would undo the bias before it
}


def normaliser(name: str) -> Callable[[int], nn.Module]:
    """The layer that normalises `channels` feature maps; `group` takes up to 32 groups of at least four channels."""
    return NORMS[choose("norm", name, NORMS)]
