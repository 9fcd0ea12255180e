"""Clients that differ: Distributions I and II of the paper ("Impact of Data Heterogeneity") and the Dirichlet partition."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ladp.data.split import Split, deal, need_clients, place, tally
from ladp.errors import Problem
from ladp.keys import Key


@dataclass(frozen=True)
class Scarcity:
    """Distribution I: every client has `labels` labels, the private one among them; the curious client one less, without it. Equal sizes.

    The paper fixes labels and equal sizes, not how much of each label: the shards are disjoint and as large as the rarest label allows.
    """

    private: int = -1
    curious: int = -1
    labels: int = 4

    def __post_init__(self) -> None:
        if self.labels < 2:
            raise Problem(f"labels must be at least 2 (the private one and another), got {self.labels}")

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Deal the labels evenly, then give every client the largest number of records that all can have."""
        need_clients(clients, 2)
        labels = np.asarray(labels)
        supply = tally(labels)
        private, curious = place("private", self.private, len(supply)), place("curious", self.curious, clients)
        hands = deal_labels(np.delete(np.arange(len(supply)), private), clients, self.labels - 1, key)
        fits = lambda size: (self.counts(size, hands, supply, private, curious).sum(0) <= supply).all()
        size = bisect_right(range(len(labels) // clients + 1), False, key=lambda size: not fits(size)) - 1
        if size < self.labels or supply[private] < clients - 1:
            wanted = f"{clients} clients {self.labels} labels each"
            raise Problem(f"partition 'labels' cannot give {wanted} from {len(labels)} records: take fewer clients")
        return deal(labels, self.counts(size, hands, supply, private, curious), key, curious)

    def counts(self, size: int, hands: np.ndarray, supply: np.ndarray, private: int, curious: int) -> np.ndarray:
        """Records [client, class] when every client has `size`: an even part of the private class as far as it goes, the rest even."""
        counts = np.zeros((len(hands), len(supply)), np.int64)
        counts[:, private] = min(size // self.labels, supply[private] // (len(hands) - 1))
        counts[curious, private] = 0
        rest, hand = size - counts[:, private], hands.shape[1]
        for j in range(hand):
            counts[np.arange(len(hands)), hands[:, j]] += (rest + hand - 1 - j) // hand
        return counts


def deal_labels(names: np.ndarray, clients: int, hand: int, key: Key) -> np.ndarray:
    """`hand` different labels to every client, all labels used equally often to within one: always the least used, ties at random."""
    if hand > len(names):
        raise Problem(f"labels must be at most {len(names) + 1} for this data set, got {hand + 1}")
    random, used, hands = key.at("partition", "labels").numpy(), np.zeros(len(names)), []
    for _ in range(clients):
        chosen = np.lexsort((random.random(len(names)), used))[:hand]
        used[chosen] += 1
        hands.append(names[chosen])
    return np.array(hands)


@dataclass(frozen=True)
class Dirichlet:
    """Each class is shared among all clients by its own Dirichlet(alpha) draw; a small alpha means few labels a client and uneven sizes."""

    alpha: float = 0.5
    least: int = 1

    def __post_init__(self) -> None:
        check_skew(self.alpha, self.least)

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Shares, then records moved to whoever has fewer than `least`."""
        need_clients(clients)
        labels = np.asarray(labels)
        counts = np.stack([share(total, clients, self.alpha, key.at("partition", c)) for c, total in enumerate(tally(labels))], axis=1)
        return deal(labels, top_up(counts, self.least), key)


@dataclass(frozen=True)
class Quantity:
    """Distribution II: other classes by Dirichlet(alpha) over all clients, the private class by another over all but the curious one."""

    private: int = -1
    curious: int = -1
    alpha: float = 0.01
    least: int = 1

    def __post_init__(self) -> None:
        check_skew(self.alpha, self.least)

    def split(self, labels: np.ndarray, clients: int, key: Key, writers: np.ndarray | None = None) -> Split:
        """Shares, then records moved to whoever has fewer than `least`, never a private one to the curious client."""
        need_clients(clients, 2)
        labels = np.asarray(labels)
        supply = tally(labels)
        private, curious = place("private", self.private, len(supply)), place("curious", self.curious, clients)
        columns = [share(total, clients - (c == private), self.alpha, key.at("partition", c)) for c, total in enumerate(supply)]
        columns[private] = np.insert(columns[private], curious, 0)
        return deal(labels, top_up(np.stack(columns, axis=1), self.least, private, curious), key, curious)


def check_skew(alpha: float, least: int) -> None:
    """Refuse what no Dirichlet draw can use."""
    if not 0 < alpha < float("inf"):
        raise Problem(f"alpha must be positive and finite, got {alpha}")
    if least < 0:
        raise Problem(f"least must be 0 or more, got {least}")


def share(total: int, clients: int, alpha: float, key: Key) -> np.ndarray:
    """How many of a class's records each client gets: whole numbers that follow a Dirichlet(alpha) draw and add up to `total`."""
    cuts = key.numpy().dirichlet(np.full(clients, alpha)).cumsum()
    return np.diff(np.rint(cuts / cuts[-1] * total).astype(np.int64), prepend=0)


def top_up(counts: np.ndarray, least: int, private: int | None = None, curious: int | None = None) -> np.ndarray:
    """Move records, one at a time, from the largest client's largest class until every client has `least`.

    The curious client is served first and never with the private class.
    """
    sizes = counts.sum(1)
    if sizes.sum() < least * len(sizes):
        needed = f"{least} for {len(sizes)} clients needs {least * len(sizes)} records"
        raise Problem(f"least {needed}, there are {sizes.sum()}: take fewer clients or lower least")
    while (sizes < least).any():
        short = curious if curious is not None and sizes[curious] < least else int(sizes.argmin())
        giver, kind = richest(counts, private, curious) if short == curious else largest(counts, sizes)
        counts[[giver, short], kind] += (-1, 1)
        sizes[[giver, short]] += (-1, 1)
    return counts


def largest(counts: np.ndarray, sizes: np.ndarray) -> tuple[int, int]:
    """The client with most records and the class it has most of."""
    giver = int(sizes.argmax())
    return giver, int(counts[giver].argmax())


def richest(counts: np.ndarray, private: int, curious: int) -> tuple[int, int]:
    """Who can give the curious client a record, and of which class: the client with most records outside the private class."""
    fit = counts.copy()
    fit[:, private], fit[curious] = 0, 0
    giver = int(fit.sum(1).argmax())
    if not fit[giver].any():
        raise Problem(f"the curious client {curious} can have no record but of private class {private}: lower least or take fewer clients")
    return giver, int(fit[giver].argmax())
