"""Who holds which training records: stored for disjoint shards, drawn on demand for any number of registered clients."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ladp.errors import Problem
from ladp.keys import Key


class Split(Protocol):
    """Training records by client; `curious` is the honest-but-curious client, if the partition has one."""

    curious: int | None

    def __len__(self) -> int: ...

    def indices(self, client: int) -> np.ndarray:
        """The records of one client, int64."""
        ...

    def sizes(self) -> np.ndarray:
        """|D_i| of every client, int64."""
        ...


@dataclass(frozen=True, eq=False)
class Shards:
    """Disjoint records, client after client in one array (int32), with the offsets at which each begins."""

    records: np.ndarray
    offsets: np.ndarray
    curious: int | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def indices(self, client: int) -> np.ndarray:
        """The records of one client."""
        start, stop = self.offsets[client : client + 2]
        return self.records[start:stop].astype(np.int64)

    def sizes(self) -> np.ndarray:
        """|D_i| of every client."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Draws:
    """Independent draws that overlap: client i takes `counts[g]` records of each pool without replacement and keeps `share` of them.

    Nothing is stored per client: the draw is a function of key.at("partition", i), so 100,000 clients cost what one does.
    """

    clients: int
    pools: tuple[np.ndarray, ...]
    counts: tuple[int, ...]
    key: Key
    share: float = 1.0
    private: int | None = None
    curious: int | None = None

    def __len__(self) -> int:
        return self.clients

    def indices(self, client: int) -> np.ndarray:
        """The records of one client, drawn now and the same at every call."""
        if not 0 <= client < self.clients:
            raise IndexError(client)
        random = self.key.at("partition", client).numpy()
        held = [g for g in range(len(self.pools)) if client != self.curious or g != self.private]
        drawn = np.concatenate([random.choice(self.pools[g], self.counts[g], replace=False) for g in held])
        return random.permutation(drawn)[: self.kept(len(drawn))].astype(np.int64)

    def sizes(self) -> np.ndarray:
        """|D_i| of every client, without drawing."""
        total = sum(self.counts)
        sizes = np.full(self.clients, self.kept(total), np.int64)
        if self.curious is not None:
            sizes[self.curious] = self.kept(total - self.counts[self.private])
        return sizes

    def kept(self, drawn: int) -> int:
        """How many of the drawn records are used for training, at least one."""
        return max(1, round(self.share * drawn))


@dataclass(frozen=True, eq=False)
class Amended:
    """The clients of another split with other records: `indices` is for the kind of change to say; how many records a client holds stays what everybody was told."""

    split: Split

    @property
    def curious(self) -> int | None:
        return self.split.curious

    def __len__(self) -> int:
        return len(self.split)

    def sizes(self) -> np.ndarray:
        """|D_i| of every client."""
        return self.split.sizes()


@dataclass(frozen=True, eq=False)
class Chosen(Amended):
    """A split of some of the records: what it calls record n is `records[n]`."""

    records: np.ndarray

    def indices(self, client: int) -> np.ndarray:
        """The records of one client, among all."""
        return self.records[self.split.indices(client)]


def even(records: int, clients: int) -> np.ndarray:
    """Offsets of shards whose sizes differ by at most one."""
    need_clients(clients)
    if clients > records:
        raise Problem(
            f"client {records} would be empty: {clients - records} of {clients} clients are, with {records} records to share; "
            f"take at most {records} clients, or the partition 'draw', whose clients overlap"
        )
    return np.arange(clients + 1, dtype=np.int64) * records // clients


def deal(labels: np.ndarray, counts: np.ndarray, key: Key, curious: int | None = None) -> Shards:
    """Disjoint shards in which client i holds counts[i, c] random records of class c."""
    refuse_empty(counts.sum(1))
    random = key.at("partition").numpy()
    pools = [random.permutation(np.flatnonzero(labels == c))[: counts[:, c].sum()] for c in range(counts.shape[1])]
    owners = np.concatenate([np.repeat(np.arange(len(counts)), column) for column in counts.T])
    records = np.concatenate(pools)[np.argsort(owners, kind="stable")]
    return Shards(records.astype(np.int32), np.concatenate([[0], counts.sum(1).cumsum()]), curious)


def refuse_empty(sizes: np.ndarray) -> None:
    """A client without records cannot train."""
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        raise Problem(
            f"client {empty[0]} is empty: {len(empty)} of {len(sizes)} clients have no records; "
            "set least to 1 or more (records move from the largest clients), take fewer clients or a larger alpha"
        )


def tally(labels: np.ndarray) -> np.ndarray:
    """How many records each class has."""
    return np.bincount(labels)


def need_clients(clients: int, least: int = 1) -> None:
    """A partition has at least one client; one with a curious client has at least two."""
    if clients < least:
        raise Problem(f"clients must be at least {least}, got {clients}")


def place(kind: str, number: int, count: int) -> int:
    """A client or class by its number, counted from the end when negative: -1 is the last."""
    if not -count <= number < count:
        raise Problem(f"{kind} must be between {-count} and {count - 1}, got {number}")
    return number % count
