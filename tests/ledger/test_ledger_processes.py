"""Many processes, and processes that are killed: what has left is always charged."""

import os
import signal
from multiprocessing import get_context
from random import Random
from time import sleep

import pytest

from ladp.ledger import Exhausted, Ledger, Limit
from ladp.privacy.accounting import Charge, epsilon

COSTS = {"server": (Charge(1.0),), "peer": (Charge(3.0),)}
FORK = get_context("fork")


def releasing(path, anchor, start, out):
    """Charge, then let out, for ever: what leaves is a line in a pipe."""
    with Ledger(path, anchor) as ledger:
        for round in range(start, 10**9):
            entries = ledger.charge_all("a/1", round, "client", {str(c): COSTS for c in range(3)})
            os.write(out, f"{entries[0].sequence} {round}\n".encode())


def test_killed_at_any_instant_nothing_has_left_that_is_not_charged(tmp_path):
    random, path, anchor, left, start = Random(5), tmp_path / "ledger.sqlite", tmp_path / "anchor", [], 1
    for _ in range(20):
        reading, writing = os.pipe()
        child = FORK.Process(target=releasing, args=(path, anchor, start, writing))
        child.start()
        os.close(writing)
        sleep(random.uniform(0.0, 0.12))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with open(reading) as pipe:
            left += [int(line.split()[1]) for line in pipe]
        start += 1000
    with Ledger(path, anchor) as ledger:
        charged = [entry.round for entry in ledger.entries()]
    assert len(left) > 20 and sorted(set(charged)) == charged[::3]
    assert set(left) <= set(charged) and len(charged) <= 3 * (len(left) + 20)


def spending(path, client, limit, out):
    """Charge until there is no more to spend."""
    with Ledger(path, timeout=60) as ledger:
        done = 0
        try:
            while True:
                ledger.charge(client, f"a/{os.getpid()}", done, "client", COSTS, limit)
                done += 1
        except Exhausted:
            os.write(out, f"{done}\n".encode())


def test_processes_that_begin_together_share_one_chain_and_one_budget(tmp_path):
    limit = Limit(epsilon([Charge(3.0, times=60)], 1e-5).epsilon, 1e-5, "peer", "client")
    path, (reading, writing) = tmp_path / "ledger.sqlite", os.pipe()
    children = [FORK.Process(target=spending, args=(path, "7", limit, writing)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    os.close(writing)
    with open(reading) as pipe:
        done = [int(line) for line in pipe]
    assert [child.exitcode for child in children] == [0, 0, 0] and sum(done) == 60
    with Ledger(path) as ledger:
        assert ledger.verify().releases == 60 and [entry.sequence for entry in ledger.entries()] == list(range(1, 61))


def test_threads_may_share_a_ledger(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with Ledger(tmp_path / "ledger.sqlite") as ledger, ThreadPoolExecutor(4) as pool:
        entries = list(pool.map(lambda round: ledger.charge("7", "a/1", round, "client", COSTS), range(40)))
        assert sorted(entry.sequence for entry in entries) == list(range(1, 41)) and ledger.verify().releases == 40


@pytest.mark.parametrize("size", [0, 50])
def test_a_kill_while_the_file_was_made_leaves_one_that_can_be_begun(tmp_path, size):
    path = tmp_path / "ledger.sqlite"
    path.touch()
    path.with_name(path.name + ".head").write_bytes(b"")
    path.with_name(path.name + "-wal").write_bytes(b"\0" * size)
    with Ledger(path) as ledger:
        assert ledger.charge("7", "a/1", 1, "client", COSTS).sequence == 1
