from math import inf
from time import process_time

import pytest

from ladp.errors import Problem
from ladp.privacy.accounting import Charge, epsilon, expected, turn
from ladp.privacy.gaussian import sigma_of
from ladp.privacy.planning import LEAST, plan
from ladp.privacy.schedule import FURTHEST


def least(budget=8.0, delta=1e-5, unit="record", view="peer", clients=100, active=100, rounds=400, rate=0.1, steps=1, colluders=1, participations=None, **more):
    return plan(budget, delta, unit, view, clients, active, rounds, rate, steps, colluders, participations, **more)


@pytest.mark.parametrize("budget", [0.1, 1, 8, 100])
@pytest.mark.parametrize("schedule", [
    {}, {"view": "server"}, {"view": "peer", "active": 10, "steps": 3, "colluders": 2}, {"unit": "client"}, {"unit": "client", "view": "server", "active": 10},
    {"active": 10, "participations": 55},
])
def test_the_planner_inverts_the_accountant(budget, schedule):
    begun = process_time()
    found = least(budget, **schedule)
    assert process_time() - begun < 2
    z, view = found.z, found.view
    kept = {"unit": "record", "active": 100, "steps": 1, "colluders": 1, "participations": None} | schedule
    one = lambda z: turn(kept["unit"], view, z, rate=0.1, steps=kept["steps"], active=kept["active"], colluders=kept["colluders"])  # noqa: E731
    taken, chance = (55, 1.0) if kept["participations"] else (400, kept["active"] / 100)
    cost = lambda z: expected(one(z), taken, chance, 1e-5).epsilon  # noqa: E731
    assert cost(z) == found.costs[view].epsilon and budget * (1 - 1e-3) <= cost(z) <= budget < cost(z * 0.99)


def test_the_client_unit_is_planned_as_by_hand():
    assert least(8, unit="client", view="server").z == pytest.approx(2 * sigma_of(8, 1e-5) * 20, rel=1e-3)
    assert least(8, unit="client", view="peer").z == pytest.approx(2 * sigma_of(8, 1e-5) * 20 / 99**0.5, rel=1e-3)


@pytest.mark.parametrize("multiplier, budget", [(1.5, 7.4), (2.1, 4.6), (3, 2.9), (4.5, 1.8)])
def test_the_peer_view_of_all_clients_needs_what_was_found_for_it(multiplier, budget):
    assert least(budget).z * 99**0.5 == pytest.approx(multiplier, rel=0.03)


def test_both_views_are_shown_and_the_server_sees_more():
    facts = least(8).facts
    assert facts["epsilon"]["server"] > 100 * facts["epsilon"]["peer"] and facts["cross_check"]["epsilon"] > facts["epsilon"]["peer"]
    assert facts["epsilon"]["server"] == epsilon([Charge(facts["z"], 0.1, 400)], 1e-5).epsilon


def test_more_rounds_more_records_and_fewer_honest_clients_need_more_noise():
    for options in (
        [{"rounds": rounds} for rounds in (10, 100, 1000)], [{"rate": rate} for rate in (0.01, 0.1, 1.0)], [{"steps": steps} for steps in (1, 2, 10)],
        [{"colluders": colluders} for colluders in (0, 50, 99)], [{"budget": budget} for budget in (8, 3, 0.5)], [{"participations": n} for n in (1, 20, 400)],
        [{"weights": [1.0] * 100}, {"weights": [1.0] * 50 + [2.0] * 50}, {"weights": [1.0] * 99 + [50.0]}],
    ):  # fmt: skip
        noise = [least(**chosen).z for chosen in options]
        assert all(less < more for less, more in zip(noise, noise[1:])), options


def test_few_clients_a_round_take_part_less_often_and_are_hidden_by_fewer():
    assert least(view="server", active=10).z < least(view="server", active=100).z
    assert least(active=10).z > least(active=100).z


def test_the_most_rounds_keep_the_budget_and_one_more_does_not():
    found = least(8, rounds=None, z=0.15)
    assert found.schedule.rounds > 100 and found.costs["peer"].epsilon <= 8
    assert least(None, rounds=found.schedule.rounds + 1, z=0.15).costs["peer"].epsilon > 8
    assert least(None, rounds=found.schedule.rounds, z=0.15).costs == found.costs
    assert least(8, rounds=None, z=1e6).schedule.rounds == FURTHEST


def test_a_budget_out_of_reach_is_refused_with_the_smallest_that_is_not():
    with pytest.raises(Problem, match="epsilon 0.5 cannot be kept with z at most 2: the smallest that can is") as refusal:
        least(0.5, view="server", z_most=2)
    smallest = float(str(refusal.value).split("can is ")[1].split(";")[0])
    assert least(smallest * 1.01, view="server", z_most=2).z <= 2
    with pytest.raises(Problem, match="one round costs 1.6.*take a larger z"):
        least(0.5, view="server", rounds=None, z=1)


def test_where_a_record_is_hardly_ever_drawn_hardly_any_noise_is_asked_for():
    assert 0 < least(1, view="server", rounds=2, rate=1e-6).z <= LEAST


def test_a_delta_that_a_leak_of_one_record_satisfies_is_warned_of():
    assert least(delta=1e-5, records=500).warnings == ()
    (warning,) = least(delta=0.01, records=500).warnings
    assert "more than 1/500 = 0.002" in warning and "publishes one record in full" in warning
    assert "one client in full" in least(delta=0.02, unit="client").warnings[0]


def test_what_is_assumed_is_said():
    peers, server = least(active=10, steps=4).facts, least(view="server", active=1, participations=7).facts
    assert any("trusted; 1 of 10" in line for line in peers["assumptions"]) and any("the 3 before it" in line for line in peers["assumptions"])
    assert "40 times a client on average" in peers["participations"] and "no draw of clients amplifies" in peers["participations"]
    assert not any("trusted" in line for line in server["assumptions"]) and "at most 7 of 400" in server["participations"]
    assert server["epsilon"]["peer"] is None


@pytest.mark.parametrize("options, complaint", [
    ({"budget": 0}, "epsilon must be positive and finite, got 0"), ({"budget": inf}, "epsilon must be positive and finite"),
    ({"delta": 1}, "delta must lie strictly between 0 and 1, got 1"), ({"unit": "recrd"}, "did you mean 'record'"), ({"view": "pear"}, "did you mean 'peer'"),
    ({"active": 101}, "active clients must be between 1 and the 100"), ({"rounds": 0}, "rounds must be between 1 and"), ({"rate": 0}, "rate of records must be above 0"),
    ({"participations": 401}, "participations must be between 1 and the 400"), ({"colluders": 100}, "no noise but their own"), ({"z": 1.0}, "give two of"),
    ({"rounds": None}, "give two of"), ({"rounds": None, "z": 1.0, "participations": 3}, "leave participations out"), ({"budget": None, "z": 0.0}, "must be positive, got 0"),
])  # fmt: skip
def test_schedules_out_of_range_are_named(options, complaint):
    with pytest.raises(Problem, match=complaint):
        least(**options)


@pytest.mark.filterwarnings("error")
def test_very_little_noise_is_worked_out_without_a_warning():
    assert 0.1 < least(rounds=100, rate=0.25).z < 0.3
