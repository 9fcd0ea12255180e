"""Every random number has an address: Key(seed).at("noise", round, client)."""

from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from collections.abc import Iterator
from threading import RLock
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


REIGN = RLock()  # torch has one such generator: threads take turns


@dataclass(frozen=True)
class Key:
    """A place in the tree of all random numbers of a run; the same address gives the same numbers, whatever was drawn elsewhere.

    For simulation only: whoever knows the seed can subtract the noise (guarantees need the operating system's entropy).
    """

    seed: int
    address: tuple[str | int, ...] = ()

    def at(self, *address: str | int) -> "Key":
        """The key further down the tree."""
        return Key(self.seed, self.address + tuple(a if isinstance(a, str) else int(a) for a in address))

    def integer(self) -> int:
        """63 bits that belong to this address alone."""
        text = "/".join(map(repr, (int(self.seed), *self.address)))
        return int.from_bytes(sha256(text.encode()).digest()[:8], "big") >> 1

    def generator(self, device: torch.device | str = "cpu") -> torch.Generator:
        """A fresh torch generator for this address."""
        return torch.Generator(device).manual_seed(self.integer())

    def numpy(self) -> np.random.Generator:
        """A fresh numpy generator for this address."""
        return np.random.Generator(np.random.PCG64(self.integer()))

    @contextmanager
    def reign(self) -> Iterator[None]:
        """Let this address feed torch's global CPU generator, for what cannot be handed one (dropout, initialisation), and restore it."""
        with REIGN:
            before = torch.random.get_rng_state()
            torch.random.default_generator.manual_seed(self.integer())
            try:
                yield
            finally:
                torch.random.set_rng_state(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums are always taken in the same order, however many cores or workers there are: this is what makes runs bit-identical."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Source(Protocol):
    """What stands in for a key where noise has no address: it adds its own (`ladp.privacy.entropy`)."""

    def at(self, *address: str | int) -> "Source": ...

    def add(self, row: Tensor, sigma: float) -> float: ...
