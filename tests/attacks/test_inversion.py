"""An unprotected record is seen, one under strong noise is not; the server's simulation is the client's own computation; the run stays as it was."""

import shutil
from dataclasses import replace
from hashlib import sha256

import pytest
import torch

from ladp import attacks
from ladp.attacks import inversion
from ladp.attacks.attack import Step
from ladp.attacks.inversion import Inversion
from ladp.attacks.labels import apportion, count
from ladp.attacks.scene import Scene
from ladp.attacks.simulation import Simulation, weigh
from ladp.data.partition import create
from ladp.errors import Problem
from ladp.federation import begin
from ladp.mechanisms import Certified, Full, NoNoise
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Training
from ladp.recipe import Recipe
from ladp.training.local import Schedule

OPEN = Recipe(method=NoNoise(), clients=10, active=3, rounds=2, training=Training(epochs=1), device="cpu", engine="sequential", precision="float64")
QUICK = dict(victims=1, restarts=1, steps=400)


def scene_of(run, tmp_path):
    return Scene.of(run, tmp_path, "digest")


def carry_out(attack, run):
    *steps, record = attacks.carry_out(attack, run)
    assert all(isinstance(step, Step) for step in steps)
    return record


def receive(scene, records, round=1):
    return Inversion(records=records, victims=1, round=round)._receive(scene, [*Inversion(round=round)._approach(scene, None)][-1])


def honest(run):
    return {path.relative_to(run): sha256(path.read_bytes()).hexdigest() for path in run.rglob("*") if path.is_file() and "attacks" not in path.parts}


TRAININGS = {
    "one step": Training(epochs=1),
    "three epochs, several batches": Training(epochs=3, batch=2),
    "a clip that bites": Training(epochs=2, clip=0.5),
    "momentum, decay and a pull": Training(epochs=3, batch=2, momentum=0.5, decay=0.9, prox=0.3),
}


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
def test_the_true_records_in_their_order_simulate_the_upload(make, tmp_path, training):
    scene = scene_of(make(replace(OPEN, training=training)), tmp_path)
    sent = receive(scene, 5, round=2)[1]
    images, labels = scene.take(torch.from_numpy(sent.records))
    schedule = Schedule.draw(scene.work.key, 2, sent.client, 5, training)
    simulation = Simulation.of(scene, sent, labels)
    assert torch.allclose(simulation.update(images, schedule), sent.update, atol=1e-12) and sent.update.norm() > 0.01
    assert simulation.misfit(images, schedule).item() == pytest.approx(0, abs=1e-12)
    assert simulation.misfit(-images, schedule) > 0.1


def test_the_runs_own_upload_is_simulated_by_all_records_of_its_client(make, tmp_path):
    scene = scene_of(make(OPEN), tmp_path)
    sent = receive(scene, 0)[2]
    images, labels = scene.take(torch.from_numpy(sent.records))
    assert len(sent.records) == scene.work.held[sent.client]
    schedule = Schedule.draw(scene.work.key, 1, sent.client, len(labels), scene.work.training)
    assert torch.allclose(Simulation.of(scene, sent, labels).update(images, schedule), sent.update, atol=1e-12)


def test_statistics_of_a_batch_are_simulated_as_they_were_and_count_for_nothing(make, tmp_path):
    scene = scene_of(make(replace(OPEN, norm="batch")), tmp_path)
    sent = receive(scene, 4)[0]
    images, labels = scene.take(torch.from_numpy(sent.records))
    schedule = Schedule.draw(scene.work.key, 1, sent.client, 4, scene.work.training)
    simulation = Simulation.of(scene, sent, labels)
    assert torch.allclose(simulation.update(images, schedule) * simulation.weights, sent.update * simulation.weights, atol=1e-12)
    assert bool((sent.update != 0).logical_and(simulation.weights == 0).any())


def certified(unit, **more):
    return replace(OPEN, method=Certified(), mean="equal", budget=Budget(epsilon=8.0, view="server", unit=unit, rate=0.2, steps=2, **more))


@pytest.mark.parametrize("records", [0, 3])
def test_under_a_budget_of_unit_record_all_but_the_noise_is_simulated(make, tmp_path, records):
    """At epsilon 1e6 there is hardly any noise, so that two steps are almost the client's own."""
    recipe = certified("record", clip=0.5)
    scene = scene_of(make(replace(recipe, budget=replace(recipe.budget, epsilon=1e6))), tmp_path)
    sent = receive(scene, records)[0]
    images, labels = scene.take(torch.from_numpy(sent.records))
    rest = sent.update - Simulation.of(scene, sent, labels).update(images, None)
    assert len(sent.records) == records or records == 0 and sent.records.size > 5
    assert rest.norm() < 0.1 * sent.update.norm()
    assert rest.norm().item() == pytest.approx(sent.noise, rel=0.05)


def test_one_unprotected_record_is_seen_and_the_run_is_not_touched(make):
    run = make(OPEN)
    before = honest(run)
    record = carry_out(Inversion(victims=2, restarts=1, steps=400), run)
    scores = record["scores"]
    assert scores["psnr"] > scores["control"]["class_mean"]["psnr"] + 10 and scores["recognised"] == 1.0
    assert scores["labels"]["exact"] == 1.0 and scores["noise_length"] == 0
    assert "not the run's" in record["notes"][0] and honest(run) == before


NOISY = {"full": replace(OPEN, method=Full(epsilon=0.2)), "certified, client": certified("client"), "certified, record": certified("record")}


@pytest.mark.parametrize("recipe", NOISY.values(), ids=NOISY)
def test_strong_noise_hides_the_record_even_from_one_who_knows_its_label(make, recipe):
    scores = carry_out(Inversion(**QUICK | {"steps": 150}, labels="given"), make(recipe))["scores"]
    assert scores["psnr"] < scores["control"]["class_mean"]["psnr"] and scores["recognised"] == 0
    assert scores["noise_length"] > 0.9 * scores["upload_length"]


def test_labels_of_the_runs_own_uploads_are_counted(make):
    run = make(replace(OPEN, partition=create("dirichlet", alpha=0.3)))
    scores = carry_out(Inversion(records=0, **QUICK | {"steps": 1}), run)["scores"]
    assert scores["labels"]["right"] > scores["labels"]["guessing"] + 0.2


@pytest.mark.parametrize("counts", [[1, 0, 0, 0], [0, 2, 0, 2], [3, 1, 0, 1], [2, 3, 0, 7]])
@pytest.mark.parametrize("factor", [1e-4, 0.03, 5.0])
def test_counts_are_read_off_the_last_layer_whatever_the_learning_rate(counts, factor):
    counts, p = torch.tensor(counts), torch.tensor([0.2, 0.3, 0.27, 0.23], dtype=torch.float64)
    assert torch.equal(count(factor * (counts / counts.sum() - p), [p, torch.full((4,), 0.25)], int(counts.sum())), counts)


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_what_noise_does_to_all_classes_alike_changes_no_count(shift):
    p = torch.full((4,), 0.25, dtype=torch.float64)
    assert count(torch.tensor([0.1, 0.3, -0.1, -0.3], dtype=torch.float64) + shift, [p], 2).tolist() == [1, 1, 0, 0]
    assert int(count(torch.full((4,), shift), [p], 3).sum()) == 3


def test_apportioned_numbers_add_up_and_keep_what_is_whole():
    shares = torch.tensor([0.1, -0.4, 0.35, 0.35], dtype=torch.float64)
    assert int(apportion(shares, 7).sum()) == 7 and apportion(shares, 7)[1] == 0
    assert apportion(torch.tensor([0.25, 0.5, 0.25]), 4).tolist() == [1, 2, 1]


def test_a_layer_with_less_noise_counts_more_and_none_counts_without_end():
    weights = weigh(torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64))
    assert weights[0] < weights[1] < weights[2] and weights[2] / weights[0] == pytest.approx(1e3, rel=1e-5)
    assert torch.equal(weigh(torch.zeros(3)), torch.ones(3))


def test_the_same_options_find_the_same(make):
    run, attack = make(OPEN), Inversion(records=2, **QUICK | {"steps": 40})
    first = carry_out(attack, run)
    shutil.rmtree(first["out"])
    second = carry_out(attack, run)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_cut_off_at_any_place_it_goes_on_to_the_same_findings(make, monkeypatch, tmp_path):
    monkeypatch.setattr(inversion, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(inversion, "NEWS", 1)
    attack, places = Inversion(round=2, victims=2, restarts=2, steps=6), []
    whole = carry_out(attack, make(OPEN))
    run = shutil.copytree(make(OPEN), tmp_path / "run", ignore=shutil.ignore_patterns("attacks"))
    for stop in (3, 6, 9):  # steps after which it is killed each time, over restarts and victims
        events = attacks.carry_out(attack, run)
        places.append([event.done for event, _ in zip(events, range(stop))][-1])
        events.close()
    assert places == sorted(places) and places[-1] > 12
    again = carry_out(attack, run)
    assert {**again, "seconds": 0, "out": ""} == {**whole, "seconds": 0, "out": ""}


REFUSED = {
    "round": (dict(round=3), "round of attack 'inversion' must be at most 2"),
    "victims": (dict(victims=4), "victims of attack 'inversion' must be at most 3"),
    "records": (dict(records=1000, victims=1), "holds 14. records, not 1000"),
}


@pytest.mark.parametrize("options, words", REFUSED.values(), ids=REFUSED)
def test_what_a_run_does_not_have_is_refused(make, options, words):
    with pytest.raises(Problem, match=words):
        carry_out(Inversion(**options), make(OPEN))


def test_options_that_cannot_be_are_refused():
    for options, words in ((dict(labels="none"), "unknown labels 'none'"), (dict(steps=0), "steps .* at least 1, got 0"), (dict(lr=-1.0), "lr .* positive"), (dict(tv=-1.0), "tv")):
        with pytest.raises(Problem, match=words):
            Inversion(**options)


def test_a_run_on_features_has_no_pictures_to_look_for(make, tmp_path, monkeypatch):
    monkeypatch.setenv("LADP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Problem, match="trains on features 'scattering'"):
        carry_out(Inversion(), make(replace(OPEN, features="scattering", model="linear", rounds=1)))
