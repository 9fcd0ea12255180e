"""What is charged once, what is charged again, and when a client has no more to spend."""

import json
from math import inf, sqrt

import pytest

from ladp.errors import Problem
from ladp.ledger import Exhausted, Ledger, Limit, name_run
from ladp.privacy.accounting import Charge, epsilon
from ladp.privacy.budget import Budget

DELTA = 1e-5
COSTS = {"server": (Charge(1.0),), "peer": (Charge(3.0),)}


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def charge(ledger, round, client="7", run="a/1", unit="client", costs=COSTS, limit=None, replay=None):
    return ledger.charge(client, run, round, unit, costs, limit, replay=replay)


def test_a_charge_is_kept_to_the_last_bit_and_summed_by_view(ledger, tmp_path):
    odd = {"server": (Charge(0.1 + 0.2, 1 / 3, 7), Charge(2.0)), "peer": ()}
    written = charge(ledger, 1, unit="record", costs=odd, replay="abc")
    with Ledger(tmp_path / "ledger.sqlite") as again:
        assert again.entries() == [written] == ledger.entries() and written.charges == odd and written.sequence == 1
    assert ledger.spent("7", "peer", DELTA).epsilon == 0 < ledger.spent("7", "server", DELTA).epsilon


def test_what_is_spent_is_composed_over_all_runs_of_the_client_and_of_no_other(ledger):
    for run in ("a/1", "b/2"):
        for round in range(1, 4):
            ledger.charge_all(run, round, "client", {client: COSTS for client in "78"})
    charge(ledger, 9, client="8")
    for view, multiplier in (("server", 1.0), ("peer", 3.0)):
        assert ledger.spent("7", view, DELTA, "client") == epsilon([Charge(multiplier, times=6)], DELTA)
        assert ledger.spent("8", view, DELTA, "client") == epsilon([Charge(multiplier, times=7)], DELTA)
    assert ledger.spent("9", "peer", DELTA, "client").epsilon == 0
    assert [entry.round for entry in ledger.entries("7", "b/2")] == [1, 2, 3]


def test_records_and_clients_are_kept_apart(ledger):
    charge(ledger, 1, unit="record")
    charge(ledger, 2, unit="client", costs={"server": (Charge(5.0),), "peer": (Charge(9.0),)})
    assert ledger.spent("7", "peer", DELTA, "record") == epsilon([Charge(3.0)], DELTA)
    assert ledger.spent("7", "peer", DELTA, "client") == epsilon([Charge(9.0)], DELTA)


def test_a_view_without_charges_is_never_taken_for_free(ledger):
    charge(ledger, 1, costs={"server": (Charge(2.0),)})
    assert ledger.spent("7", "peer", DELTA, "client") == ledger.spent("7", "server", DELTA, "client")
    charge(ledger, 2, costs={"peer": (Charge(2.0),)})
    assert ledger.spent("7", "server", DELTA, "client").epsilon == inf > ledger.spent("7", "peer", DELTA, "client").epsilon


def test_a_release_without_noise_is_kept_and_costs_everything(ledger):
    charge(ledger, 1, costs={"server": (Charge(0.0),)})
    assert ledger.spent("7", "server", DELTA, "client").epsilon == inf
    with pytest.raises(Exhausted, match="of 100, and its next release would make it inf"):
        charge(ledger, 2, limit=Limit(100, DELTA, "server", "client"))


def test_the_same_release_played_again_is_charged_once_and_anything_else_again(ledger):
    first = charge(ledger, 1, replay="d1")
    assert charge(ledger, 1, replay="d1") == first
    others = [dict(replay="d2"), dict(replay=None), dict(replay="d1", run="a/2"), dict(replay="d1", unit="record"), dict(replay="d1", client="8"),
              dict(replay="d1", costs={**COSTS, "peer": (Charge(2.0),)})]  # fmt: skip
    assert [charge(ledger, 1, **other).sequence for other in others] == list(range(2, 8))
    assert charge(ledger, 2, replay="d1").sequence == 8 and charge(ledger, 1).sequence == 9


def test_a_cohort_may_be_partly_played_again(ledger):
    ledger.charge_all("a/1", 1, "client", {"1": COSTS, "2": COSTS}, replays={"1": "x", "2": "y"})
    entries = ledger.charge_all("a/1", 1, "client", {"1": COSTS, "2": COSTS, "3": COSTS}, replays={"1": "x", "2": "other", "3": "z"})
    assert [(entry.client, entry.sequence) for entry in entries] == [("1", 1), ("2", 3), ("3", 4)]


def test_exactly_the_limit_may_be_spent_and_the_least_more_may_not(ledger):
    exact = epsilon([Charge(3.0, times=4)], DELTA).epsilon
    limit = Limit(exact, DELTA, "peer", "client")
    for round in range(1, 5):
        charge(ledger, round, limit=limit)
    with pytest.raises(Exhausted) as refused:
        charge(ledger, 5, limit=limit)
    assert refused.value.client == "7" and refused.value.spent.epsilon == exact < refused.value.next.epsilon and refused.value.limit == limit
    assert "\n" not in str(refused.value) and "client 7 has spent epsilon" in str(refused.value)
    less = Limit(exact * (1 - 1e-12), DELTA, "peer", "client")
    for round in range(1, 4):
        charge(ledger, round, client="8", limit=less)
    with pytest.raises(Exhausted):
        charge(ledger, 4, client="8", limit=less)
    assert len(ledger.entries()) == 7


def test_what_the_planner_allots_is_never_refused(ledger):
    budget = Budget(epsilon=4.0, delta=DELTA)
    for round, z in enumerate(budget.allot([1.0, 2.0, 1.5, 0.7], [[1, 2, 3]] * 4)):
        ledger.charge_all("a/1", round, "client", {str(c): {"server": (Charge(z / 2),), "peer": (Charge(z * sqrt(2) / 2),)} for c in (1, 2, 3)}, Limit(4.0, DELTA, "peer", "client"))
    assert ledger.spent("1", "peer", DELTA, "client").epsilon == pytest.approx(4.0, rel=1e-9)


def test_a_round_goes_on_without_whoever_cannot_pay_and_the_others_pay_for_hiding_less(ledger):
    limit = Limit(epsilon([Charge(1.0), Charge(1.0)], DELTA).epsilon, DELTA, "peer", "client")
    cost = lambda cohort: {client: {"server": (Charge(1 / 2),), "peer": (Charge(sqrt(len(cohort) - 1) / 2),)} for client in cohort}  # noqa: E731
    charge(ledger, 1, client="3", costs={"server": (Charge(1.0),), "peer": (Charge(0.8),)})
    entries, refused = ledger.admit("a/1", 2, "client", ["1", "2", "3", "4", "5", "6"], cost, limit)
    assert [r.client for r in refused] == ["3"] and [e.client for e in entries] == ["1", "2", "4", "5", "6"]
    assert {e.charges["peer"] for e in entries} == {(Charge(1.0),)}
    assert ledger.admit("a/1", 3, "client", ["3"], lambda cohort: {"3": {"peer": (Charge(1.0),)}}, limit)[0] == []


def test_if_one_of_a_cohort_cannot_pay_nothing_is_written_for_anybody(ledger):
    limit = Limit(epsilon([Charge(3.0, times=2)], DELTA).epsilon, DELTA, "peer", "client")
    for round in (1, 2):
        charge(ledger, round)
    with pytest.raises(Exhausted) as refused:
        ledger.charge_all("a/1", 3, "client", {"6": COSTS, "7": COSTS}, limit)
    assert refused.value.clients == ("7",) and len(ledger.entries()) == 2
    assert charge(ledger, 2, replay=None, client="6", limit=limit).sequence == 3


def test_clocks_do_not_matter(tmp_path):
    times = iter([2e9, 1e9, -5e12, 0.0])
    with Ledger(tmp_path / "ledger.sqlite", clock=lambda: next(times)) as ledger:
        written = [charge(ledger, round, replay=str(round)) for round in (1, 2, 3)]
        assert charge(ledger, 1, replay="1") == written[0]
    assert [entry.time for entry in written] == [2e9, 1e9, -5e12] and [entry.sequence for entry in written] == [1, 2, 3]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.verify().releases == 3


def test_a_run_of_the_same_recipe_has_a_name_of_its_own():
    one, other = name_run("abc"), name_run("abc")
    assert one != other and one.partition("/")[0] == other.partition("/")[0] == "abc"


@pytest.mark.parametrize("change, complaint", [
    (dict(unit="clients"), "unknown unit 'clients': did you mean 'client'"),
    (dict(costs={"peers": ()}), "unknown view 'peers': did you mean 'peer'"),
    (dict(costs={}), "a release without charges"),
    (dict(costs={"server": (Charge(inf),)}), "multiplier=inf"),
    (dict(costs={"server": (Charge(1.0, 1.0, 0),)}), "times=0"),
    (dict(limit=Limit(1, DELTA, "peer", "record")), "unit client cannot be held against a limit of unit record"),
])
def test_what_cannot_be_charged_is_refused_with_its_value(ledger, change, complaint):
    with pytest.raises(Problem, match=complaint):
        charge(ledger, 1, **change)
    assert ledger.entries() == []


@pytest.mark.parametrize("values, complaint", [((0, DELTA), "epsilon must be positive, got 0"), ((1, 1.0), "strictly between 0 and 1, got 1.0"), ((1, DELTA, "pear"), "did you mean 'peer'")])
def test_a_limit_that_means_nothing_is_refused(values, complaint):
    with pytest.raises(Problem, match=complaint):
        Limit(*values)


def test_rows_hold_events_and_never_an_epsilon(ledger):
    charge(ledger, 1)
    row = ledger._store.read(0)[1][0]
    assert json.loads(row[5]) == {"server": [[1.0, 1.0, 1]], "peer": [[3.0, 1.0, 1]]} and "epsilon" not in repr(row)
