"""What an honest run shows: never more than is certified, and of a method without a guarantee far more than it claims."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch
from conftest import audit

from ladp.audit.canaries import Canaries, Shape
from ladp.audit.planting import colluding, hosts, planted, ranked
from ladp.audit.steps import RecordWatch
from ladp.audit.trial import Audit, settle
from ladp.audit.updates import ClientWatch
from ladp.errors import Problem
from ladp.federation import begin, federate
from ladp.keys import Key
from ladp.params import Layer, Layout
from ladp.training.sequential import Sequential

EVERY = [(unit, view) for unit in ("client", "record") for view in ("server", "peer")]


@pytest.mark.parametrize("unit, view", EVERY)
def test_of_an_honest_run_no_more_is_refuted_than_is_certified_and_no_law_is_broken(recipe_of, unit, view):
    found = audit(recipe_of(unit, view), canaries=148)
    assert found.failed == [] and 0 <= found.refuted.epsilon < found.certified.epsilon <= 1.0
    assert (found.certified.unit, found.certified.view.split(",")[0], found.certified.delta) == (unit, view, found.refuted.delta)
    assert all(ratio == pytest.approx(1, abs=0.1) for ratio in found.noise.values()) and found.alike[0] < found.alike[1]


@pytest.mark.parametrize("unit, view, budget", [
    ("client", "server", {}), ("client", "peer", {"colluders": 3}), ("record", "server", {"rate": 1.0}), ("record", "peer", {"rate": 1.0, "steps": 2, "colluders": 2}),
])  # fmt: skip
def test_scores_are_log_likelihood_ratios(recipe_of, unit, view, budget):
    """Of Gaussians: mean +-V/2 with the coin, and variance V, so whoever ranks by them guesses as well as can be."""
    found = audit(recipe_of(unit, view, {"epsilon": 8.0, **budget}), canaries=147)
    towards = (2 * found.coins - 1).flatten() * found.scores.flatten()
    assert towards.mean().item() == pytest.approx(towards.var().item() / 2, rel=0.35)
    assert found.refuted.epsilon > 0.5


@pytest.mark.parametrize("method", ["full", "ladp"])
@pytest.mark.parametrize("view", ["server", "peer"])
def test_the_methods_as_run_are_found_to_have_hundreds_of_times_what_they_claim(as_run, method, view):
    found = audit(as_run(method), view=view)
    assert found.refuted.epsilon > 500 > 1000 * found.claimed.epsilon and found.certified.epsilon == inf and found.failed == []
    assert (found.refuted.canaries, found.refuted.delta, found.facts["rounds"]) == (1, 0.02, 1)


def test_the_same_seeds_give_the_same_findings_and_other_coins_others(recipe_of):
    one, same, other = (audit(recipe_of("record", "server"), canaries=40, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.scores, same.scores) and torch.equal(one.coins, same.coins)
    assert not torch.equal(one.coins, other.coins)


@pytest.mark.parametrize("unit, watch", [
    ("client", lambda work, none: ClientWatch(work, none, "server", "equal", frozenset(), reach=1.0)),
    ("record", lambda work, none: RecordWatch(work, none, "peer", "equal", frozenset({1}))),
])
def test_without_canaries_the_watched_run_is_the_plain_one_to_the_last_bit(recipe_of, make_work, unit, watch):
    work, none = make_work(recipe_of(unit, "peer", clients=6, active=4)), Canaries.draw(Key(0), [])
    ends = [[event.state.current for event in federate(work, engine, begin(work), 2, "equal")][-1] for engine in (Sequential(work), watch(work, none))]
    assert torch.equal(*ends)


def test_a_canary_has_length_one_in_the_scales_of_the_clip_and_nothing_in_a_frozen_layer():
    layout, layers = Layout.of(torch.nn.Linear(30, 4)), (Layer("a", 0, 100), Layer("b", 100, 120), Layer("c", 120, 124))
    scale = torch.tensor([0.5, 0.0, 3.0], dtype=torch.float64)
    shape = Shape.of(layout, layers, scale, bits=2)
    vectors = shape.vectors(Canaries.draw(Key(3), [0, 0, 1], 2).signs([0, 1, 2], 124))
    assert torch.allclose(shape.norms(vectors), torch.ones(3, dtype=torch.float64)) and not vectors[:, 100:120].any()
    assert shape.message(torch.tensor([1, 0])).tolist() == [1.0, -1.0] * 62
    assert torch.allclose(shape.cells(vectors)[:, 0].sum(1), vectors[:, :100].sum(1))


def test_canary_records_are_held_as_the_coins_say_and_leave_public_numbers_as_they_were(recipe_of, make_work):
    work = make_work(recipe_of("record", "server"))
    canaries = Canaries.draw(Key(0), [0, 0, 0, 0, 1, 1])
    with_them = planted(work, canaries)
    inside = [i for i in range(6) if canaries.coins[i, 0]]
    found = [i - len(work.labels) for client in range(5) for i in with_them.split.indices(client) if i >= len(work.labels)]
    assert found == inside and 0 < len(inside) < 6
    assert with_them.population == work.population and np.array_equal(with_them.held, work.held)
    assert not set(with_them.labels[len(work.labels) :].tolist()) - set(range(10))


def test_one_set_of_colluders_serves_all_rounds_and_carries_no_canary(recipe_of, make_work):
    """One adversary guesses all coins: did each canary have colluders of its own, together they would see every release."""
    work = make_work(recipe_of("client", "peer", {"colluders": 2}, clients=12, active=5))
    cohorts, found = [work.cohort(round) for round in range(1, 7)], colluding(work, 6)
    assert max(len(found.intersection(cohort)) for cohort in cohorts) == 2
    assert not found.intersection(hosts(work, 6, None, 0.05, found)) and hosts(work, 6, None, 0.05, frozenset())[0] == ranked(cohorts)[0]
    mixed = audit(recipe_of("client", "peer", {"colluders": 2}, clients=12, active=5, rounds=3))
    assert mixed.failed == [] and mixed.refuted.canaries == len(hosts(work, 3, None, 0.05, colluding(work, 3)))


def test_bits_of_a_message_are_read_one_by_one(as_run):
    found = audit(as_run("full", 0.5), bits=40, canaries=2, rounds=3)
    assert found.coins.shape == (2, 40) and torch.equal(found.scores > 0, found.coins.bool())


@pytest.mark.parametrize("asked, words", [
    (dict(view="pear"), "did you mean 'peer'"), (dict(unit="recrod"), "did you mean 'record'"), (dict(kind="grad"), "unknown kind of canary 'grad'"),
    (dict(canaries=0), "canaries must be at least 1, got 0"), (dict(rounds=0), "rounds must be at least 1"), (dict(confidence=1.0), "confidence must lie strictly between 0 and 1, got 1.0"),
])  # fmt: skip
def test_what_cannot_be_asked_is_refused(asked, words):
    with pytest.raises(Problem, match=words):
        Audit(**asked)


@pytest.mark.parametrize("unit, changes, asked, words", [
    ("record", {}, dict(unit="client"), "take --unit record, or give the recipe a .budget. with unit = 'client'"),
    ("record", {}, dict(bits=2), "a record is in or out, which is one bit, got bits 2"),
    ("client", {}, dict(kind="record"), "need a budget of unit record"),
    ("client", dict(active=3, clients=3, budget=dict(colluders=3)), dict(view="peer"), "3 colluders in a cohort of 3"),
    ("client", {}, dict(canaries=151), "151 canary clients asked for, but only 150 that do not collude take part in 2 rounds"),
])  # fmt: skip
def test_what_a_recipe_cannot_be_asked_is_refused(recipe_of, unit, changes, asked, words):
    with pytest.raises(Problem, match=words):
        audit(recipe_of(unit, "server", **changes), **asked)


def test_a_method_that_peeks_has_nothing_to_certify_and_can_be_audited_beside_its_nominal_budget(recipe_of, make_work):
    from ladp.mechanisms import LaDP

    recipe = recipe_of("client", "server", method=LaDP(floor=1e-12), clients=40, active=40)
    found = audit(recipe)
    assert found.certified.epsilon == inf and found.claimed.accountant.startswith("nominal") and found.failed == []
    with pytest.raises(Problem, match="no budget of unit record can be certified"):
        audit(replace(recipe_of("record", "server"), method=LaDP()))


def test_what_is_left_open_is_taken_from_the_recipe(recipe_of, as_run, make_work):
    ask = lambda recipe: settle(recipe, make_work(recipe), Audit())  # noqa: E731
    assert (ask(recipe_of("record", "peer")).unit, ask(recipe_of("record", "peer")).view) == ("record", "peer")
    found = ask(as_run("full"))
    assert (found.unit, found.view) == ("client", "server") and found.bits > 500
