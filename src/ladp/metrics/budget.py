"""The budget that the paper's sequential accountant would write down for a run, from the sigma of each round and layer of its records."""

from collections.abc import Mapping, Sequence
from typing import Any

from ladp.errors import Problem
from ladp.privacy.mechanism import Mechanism, Training
from ladp.privacy.naive import Spent, spend


def spent(records: Sequence[Mapping[str, Any]], sensitivity: float, delta: float, training: Training, clients: int) -> Spent:
    """q = batch / |D_i|, T = the batches of `clients` clients in every round, epsilon from each layer's own sigma / `sensitivity`.

    The paper's curves count all honest active clients: nine of ten (slope 3.6 at epsilon .2).
    """
    if not sensitivity > 0:
        raise Problem(f"sensitivity must be positive, got {sensitivity}")
    size = records_a_client(records, training)
    sigmas = [{name: sigma / sensitivity for name, sigma in noised(record).items()} for record in records]
    return spend(sigmas, delta, min(training.batch, size), size, clients * training.steps(size))


def noised(record: Mapping[str, Any]) -> dict[str, float]:
    """The sigma of each layer among the clients that noised it; the record holds the mean over all, and the share that did."""
    shares = record["selected"]
    return {name: sigma / shares[name] if shares.get(name) else sigma for name, sigma in record["sigma"].items()}


def records_a_client(records: Sequence[Mapping[str, Any]], training: Training) -> int:
    """|D_i|, the mean over all clients that took part: the examples of a round are its clients' records, once for each epoch."""
    if not records:
        raise Problem("no round is recorded: there is nothing to account for")
    examples = sum(record["examples_per_second"] * record["seconds"] for record in records)
    return round(examples / training.epochs / sum(len(record["clients"]) for record in records))


def distrusted(methods: Mapping[str, type[Mechanism]]) -> dict[str, str]:
    """The methods whose figure says less than that of its peers, and why."""
    why = "its sigma depends on the private weights: an epsilon read off it bounds nothing, and is itself private"
    return {name: why for name, kind in methods.items() if kind().peeks}
