"""Private-label isolation: the honest-but-curious client lacks the private class, everyone else has all of them.

The paper's general setting ("Data Distribution" in the section on the experimental setup).
"""

from dataclasses import dataclass

import numpy as np

from ladp.data.split import Draws, Shards, Split, even, need_clients, place, tally
from ladp.errors import Problem
from ladp.keys import Key


@dataclass(frozen=True)
class Isolation:
    """Disjoint equal shards; the curious client's holds no record of the private class (-1: the last class, the last client)."""

    private: int = -1
    curious: int = -1

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """The curious client takes the first other-class records of a shuffle, the rest are cut in order; every record is used."""
        need_clients(clients, 2)
        labels, offsets = np.asarray(labels), even(len(labels), clients)
        private, curious = place("private", self.private, len(tally(labels))), place("curious", self.curious, clients)
        order = key.at("partition").numpy().permutation(len(labels)).astype(np.int32)
        start, stop = offsets[curious : curious + 2]
        own = np.flatnonzero(labels[order] != private)[: stop - start]
        refuse_short(len(own), stop - start, private)
        rest = np.delete(order, own)
        return Shards(np.concatenate([rest[:start], order[own], rest[start:]]), offsets, curious)


def refuse_short(found: int, wanted: int, private: int) -> None:
    """The curious client's shard must be full without the private class."""
    if found < wanted:
        raise Problem(f"only {found} records are not of private class {private}, the curious client needs {wanted}: take more clients")


@dataclass(frozen=True)
class Overlap:
    """As the paper's runs did it: each client draws `fraction` of every class on its own, so clients overlap, and trains on `share` of it.

    CIFAR at the defaults: 2,500 images drawn, 2,000 for training; the curious client, without the private class, 2,250 and 1,800.
    """

    private: int = -1
    curious: int = -1
    fraction: float = 0.05
    share: float = 0.8

    def __post_init__(self) -> None:
        for name in ("fraction", "share"):
            if not 0 < getattr(self, name) <= 1:
                raise Problem(f"{name} must be in (0, 1], got {getattr(self, name)}")

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Drawn when asked for; nothing is stored per client."""
        need_clients(clients)
        labels = np.asarray(labels)
        pools = tuple(np.flatnonzero(labels == c).astype(np.int32) for c in range(len(tally(labels))))
        counts = tuple(min(len(pool), max(1, round(self.fraction * len(pool)))) for pool in pools)
        private, curious = place("private", self.private, len(pools)), place("curious", self.curious, clients)
        return Draws(clients, pools, counts, key, self.share, private, curious)
