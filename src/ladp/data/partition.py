"""The partitions by name; a new one is a frozen dataclass and one line of the table."""

from dataclasses import MISSING, dataclass, fields

import numpy as np

from ladp.data.isolation import Isolation, Overlap
from ladp.data.skew import Dirichlet, Quantity, Scarcity
from ladp.data.split import Draws, Shards, Split, even, need_clients
from ladp.errors import Problem, choose
from ladp.keys import Key


@dataclass(frozen=True)
class Iid:
    """Disjoint random shards whose sizes differ by at most one; every record is used."""

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Shuffle, then cut."""
        offsets = even(len(labels), clients)
        return Shards(key.at("partition").numpy().permutation(len(labels)).astype(np.int32), offsets)


@dataclass(frozen=True)
class Draw:
    """Each of any number of clients draws `size` records independently, so clients overlap; nothing is stored per client."""

    size: int = 500

    def __post_init__(self) -> None:
        if self.size < 1:
            raise Problem(f"size must be at least 1, got {self.size}")

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Without replacement within a client."""
        need_clients(clients)
        if self.size > len(labels):
            raise Problem(f"size must be at most the {len(labels)} training records, got {self.size}")
        return Draws(clients, (np.arange(len(labels)),), (self.size,), key)


@dataclass(frozen=True)
class Writer:
    """One client a writer, with all the writer's records; with fewer clients than writers, a random choice of writers."""

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Clients in the order of the writers' numbers."""
        need_clients(clients)
        chosen = self.choose(clients, key, writers)
        names = np.asarray(writers)
        order = np.argsort(names, kind="stable")
        starts, stops = (np.searchsorted(names[order], chosen, side) for side in ("left", "right"))
        records = np.concatenate([order[start:stop] for start, stop in zip(starts, stops)])
        return Shards(records.astype(np.int32), np.concatenate([[0], (stops - starts).cumsum()]))

    def choose(self, clients: int, key: Key, writers: np.ndarray | None) -> np.ndarray:
        """The writers that become clients."""
        if writers is None:
            raise Problem("partition 'writer' needs writers and this data set names none: use the data set femnist, or partition 'iid'")
        known = np.unique(np.asarray(writers))
        if clients > len(known):
            raise Problem(f"partition 'writer' has {len(known)} writers, got {clients} clients: take at most {len(known)}")
        return np.sort(key.at("partition").numpy().choice(known, clients, replace=False))


PARTITIONS: dict[str, type] = {
    "iid": Iid,
    "isolation": Isolation,
    "isolation-overlap": Overlap,
    "labels": Scarcity,
    "quantity": Quantity,
    "dirichlet": Dirichlet,
    "writer": Writer,
    "draw": Draw,
}


def create(name: str, **options: int | float) -> object:
    """The partition of that name with its options, or a Problem that names what is unknown."""
    kind = PARTITIONS[choose("partition", name, PARTITIONS)]
    for option in options:
        choose(f"option of partition {name!r}", option, [field.name for field in fields(kind)])
    return kind(**options)


def describe(name: str) -> dict[str, object]:
    """Name, meaning and options with their defaults, for lists and help."""
    kind = PARTITIONS[choose("partition", name, PARTITIONS)]
    options = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return {"name": name, "meaning": kind.__doc__.strip().splitlines()[0], "options": options}
