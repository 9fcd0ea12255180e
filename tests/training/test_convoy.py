"""Runs trained together end as each ends alone, whatever becomes of the others."""

import json
from contextlib import closing
from dataclasses import replace
from itertools import islice
from time import monotonic

import pytest
import torch
from safetensors.torch import load_file

from ladp import experiment, folder
from ladp.data.partition import create
from ladp.errors import Problem
from ladp.mechanisms import Full, LaDP, NoNoise
from ladp.privacy.mechanism import Training
from ladp.training.stacked import Cohort

CASES = {
    "plain": {},
    "dropout and augmentation": dict(dropout=0.4, training=Training(batch=20, augment=True)),
    "uneven clients": dict(partition=create("dirichlet", alpha=0.3), training=Training(batch=20, epochs=2)),
    "BatchNorm": dict(norm="batch"),
    "a model that cannot be stacked": dict(model="tests.training.test_stacked:Odd"),
}


@pytest.fixture
def stacked(recipe):
    """The recipe of the tests in the engine that convoys are made of."""
    return replace(recipe, engine="stacked", precision="float64", rounds=3)


@pytest.fixture
def departures(monkeypatch):
    """How many runs and rounds each stacked computation was for."""
    seen, train = [], Cohort.train
    monkeypatch.setattr(Cohort, "train", lambda self, asked: (seen.append([s.round for _, s in asked]), train(self, asked))[1])
    return seen


def several(recipe, **changes):
    """Three methods, three seeds, three epsilons."""
    parts = (NoNoise(), 0), (Full(epsilon=0.3), 1), (LaDP(epsilon=0.2), 2), (LaDP(epsilon=0.5), 0)
    return [replace(recipe, method=method, seed=seed, **changes) for method, seed in parts]


def folders(recipes, home):
    return [experiment.create(recipe, home / str(n)) for n, recipe in enumerate(recipes)]


def together(outs, **how):
    found = dict(experiment.convoy(outs, **how))
    return [found[out] for out in outs]


def cut(out, after):
    with closing(experiment.play(out)) as records:
        list(islice(records, after))


def agree(out, other):
    """The same weights to 1e-9, and the same records but for times."""
    ours, theirs = (load_file(where / folder.MODEL) for where in (out, other))
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-9, atol=1e-11)
    for one, two in zip(*(map(json.loads, (where / folder.ROUNDS).read_text().splitlines()) for where in (out, other)), strict=True):
        assert one["clients"] == two["clients"] and one["accuracy"] == two["accuracy"]
        assert one["train_loss"] == pytest.approx(two["train_loss"], rel=1e-9) and one["noise_scale"] == pytest.approx(two["noise_scale"], rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_runs_of_other_methods_epsilons_and_seeds_end_as_they_do_alone(stacked, tmp_path, case):
    recipes = several(stacked, **CASES[case])
    outs = folders(recipes, tmp_path)
    assert not [found for found in together(outs) if isinstance(found, Problem)]
    for out, recipe in zip(outs, recipes):
        experiment.run(recipe, tmp_path / f"alone{out.name}")
        agree(out, tmp_path / f"alone{out.name}")


def test_runs_of_one_kind_are_one_computation_and_others_have_their_own(stacked, tmp_path, departures):
    together(folders([*several(stacked), replace(stacked, training=Training(batch=10))], tmp_path))
    assert departures == [[n] * size for n in (1, 2, 3) for size in (4, 1)]


def test_a_run_that_fails_leaves_and_the_others_go_on(stacked, tmp_path, departures):
    recipes = several(stacked)
    recipes[1:2] = replace(stacked, method=Full(kappa=1e100)), replace(stacked, training=Training(lr=1e300, clip=1e300)), stacked
    outs = folders(recipes, tmp_path)
    (outs[3] / folder.RECIPE).write_text("nonsense")
    found = together(outs)
    assert ["training loss is" in str(found[k]) for k in (1, 2)] == [True, True] and "is not TOML" in str(found[3])
    assert "round 2" in str(found[1]) and len((outs[1] / folder.ROUNDS).read_text().splitlines()) == 1
    for k in (0, 4, 5):
        experiment.run(recipes[k], tmp_path / f"alone{k}")
        agree(outs[k], tmp_path / f"alone{k}")
    assert [len(rounds) for rounds in departures if rounds[0] == 3] == [3, 1, 1, 1]


def test_runs_that_were_cut_off_at_other_rounds_go_on_to_the_same_last_bit(stacked, tmp_path, departures):
    recipes = several(stacked, rounds=6, partition=create("draw", size=100))
    outs = folders(recipes, tmp_path)
    for after, out in enumerate(outs):
        cut(out, after)
    departures.clear()
    found = together(outs)
    assert departures[0] == [1, 2, 3, 4] and departures[-1] == [6]
    assert [result["digest"] for result in found] == [experiment.run(recipe, tmp_path / f"alone{n}")["digest"] for n, recipe in enumerate(recipes)]


def test_finished_runs_are_left_alone_and_those_of_another_engine_go_their_own_way(stacked, tmp_path, departures):
    outs = folders([stacked, replace(stacked, engine="sequential"), replace(stacked, seed=1)], tmp_path)
    result = experiment.finish(outs[0])
    departures.clear()
    found = together(outs)
    assert found[0] == result and [r["rounds"] for r in found] == [3, 3, 3] and departures == [[1], [2], [3]]


def test_no_round_begins_when_the_time_is_up_and_what_was_done_is_kept(stacked, tmp_path):
    recipes = several(stacked, rounds=6)
    outs = folders(recipes, tmp_path)
    cut(outs[0], 2)
    assert all("the time was up" in str(found) for found in together(outs, until=monotonic()))
    assert not any((out / folder.RESULT).exists() for out in outs)
    assert [found["rounds"] for found in together(outs, abreast=2)] == [6] * 4


def test_a_convoy_that_nobody_follows_any_more_stops(stacked, tmp_path):
    outs = folders([replace(stacked, rounds=1), *several(stacked, rounds=100_000)], tmp_path)
    with closing(experiment.convoy(outs)) as ended:
        assert next(ended)[0] == outs[0]
    assert [found["rounds"] for found in together(outs[:1])] == [1] and all((out / folder.CHECKPOINT).exists() for out in outs[1:])


def test_data_are_read_once_and_held_once(stacked, tmp_path, monkeypatch):
    held, train, read = set(), Cohort.train, []
    monkeypatch.setattr(Cohort, "train", lambda self, asked: (held.update(id(crew.work.images) for crew, _ in asked), train(self, asked))[1])
    outs = folders(several(stacked), tmp_path)
    together(outs, read=lambda name, *more: (read.append(name), experiment.data.load(name, *more))[1])
    assert len(held) == 1 and read == ["digits"]
