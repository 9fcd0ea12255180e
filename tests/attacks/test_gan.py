"""A class that the curious client has never seen, out of global models alone."""

import json
from contextlib import closing
from dataclasses import replace
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file

import ladp
from ladp import attacks
from ladp.attacks import gan
from ladp.attacks.gan import Gan, Without
from ladp.attacks.generator import Generator, forge, halvings
from ladp.attacks.scene import Scene
from ladp.attacks.trail import Trail
from ladp.data.partition import create
from ladp.errors import Problem
from ladp.keys import Key
from ladp.mechanisms import Full, NoNoise
from ladp.privacy.mechanism import Training
from ladp.recipe import Recipe

SHORT = dict(steps=2, batch=8, width=4, samples=60)
OPEN = Recipe(method=NoNoise(), clients=4, active=3, rounds=6, partition=create("isolation", private=3), training=Training(batch=20, epochs=1), device="cpu", engine="sequential")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Six rounds without protection; client 3 has no 3."""
    out = tmp_path_factory.mktemp("runs") / "open"
    ladp.run(OPEN, out)
    return out


def finish(attack, run):
    return list(attacks.carry_out(attack, run))[-1]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != ".lock"}


def test_the_run_under_attack_is_the_run_itself_to_the_last_bit_and_stays_as_it_was(run, monkeypatch):
    monkeypatch.setattr(gan, "KEEP_SECONDS", 0.0)
    before = content(run)
    found = finish(Gan(**SHORT), run)
    assert content(run) == before
    seen, own = (load_file(folder / "checkpoint.safetensors") for folder in (run / "attacks" / f"gan-{found['digest'][:8]}", run))
    assert torch.equal(seen["current"], own["current"])
    accuracies = [json.loads(line)["accuracy"] for line in (run / "rounds.jsonl").open()]
    assert found["scores"]["rounds"]["accuracy"] == pytest.approx(accuracies, abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"realness": "head", "absent": True, "every": 2}])
def test_an_attack_that_was_cut_off_goes_on_to_the_same_findings(options, run, monkeypatch):
    monkeypatch.setattr(gan, "KEEP_SECONDS", 0.0)
    attack = Gan(**SHORT, blur=0.1, **options)
    with closing(attacks.carry_out(attack, run)) as events:
        list(islice(events, 3))
    out = next(path for path in (run / "attacks").iterdir() if not (path / "findings.json").exists())
    assert load_file(out / "attack-3.safetensors")["adam.0.step"] > 0
    resumed = list(attacks.carry_out(attack, run))
    pictures = content(out)
    assert resumed[0].done == 4
    for path in out.iterdir():
        path.unlink()
    whole = finish(attack, run)
    assert resumed[-1]["scores"] == whole["scores"]
    assert [pictures[name] for name in ("classes.svg", "progress.svg")] == [content(out)[name] for name in ("classes.svg", "progress.svg")]


def test_of_all_records_the_attack_reads_only_the_curious_clients(run, tmp_path):
    """The generator comes out the same when every other record is blackened once the rounds are known."""
    attack, scene = Gan(**SHORT), Scene.of(run, tmp_path, "x")
    rounds, own = list(scene.rounds()), scene.work.split.indices(3)
    blank = torch.zeros_like(scene.work.images)
    blank[own] = scene.work.images[own]

    class Recorded(Scene):
        def rounds(self, after=None, until=None):
            return iter(rounds)

    made = []
    for images in (scene.work.images, blank):
        stage = Recorded(**{name: getattr(scene, name) for name in ("run", "out", "digest", "recipe", "dataset", "engine")}, work=replace(scene.work, images=images))
        game = attack.begin(stage, 3)
        assert not (game.labels == 3).any() and len(game.labels) == len(own)
        list(attack.observe(stage, game, Trail(3), None))
        made.append(game.save())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


def test_without_the_private_class_nobody_holds_it_and_the_global_model_never_learns_it(run):
    work = Scene.of(run, run, "x").work
    split = Without(work.split, work.labels, 3)
    held = torch.cat([work.labels[torch.from_numpy(split.indices(client))] for client in range(4)])
    assert not (held == 3).any() and len(held) == (work.labels != 3).sum() == split.sizes().sum() and split.curious == 3
    assert finish(Gan(**SHORT, absent=True), run)["scores"]["rounds"]["recall"] == [0.0] * 6
    with pytest.raises(Problem, match="client 1 has no records but those of the private class"):
        Without(type("One", (), {"__len__": lambda self: 2, "indices": lambda self, client: (work.labels == 2 + client).nonzero()[:, 0].numpy()})(), work.labels, 3).sizes()


def test_observation_ends_at_the_accuracy_it_is_told(run):
    whole = finish(Gan(**SHORT), run)["scores"]["rounds"]["accuracy"]
    wanted = sorted(whole)[2]
    first = next(number for number, accuracy in enumerate(whole, 1) if accuracy >= wanted)
    found = finish(Gan(**SHORT, stop_accuracy=wanted), run)["scores"]["rounds"]
    assert found["round"] == list(range(1, first + 1))


def test_rounds_are_chosen_by_start_and_every(run):
    assert finish(Gan(**SHORT, start=2, every=3), run)["scores"]["rounds"]["round"] == [2, 5]
    late = finish(Gan(**SHORT, start=7), run)["scores"]
    assert late["rounds"]["round"] == [] and late["private"]["recognised"] == late["untrained"]["recognised"]


@pytest.mark.parametrize(("size", "sides"), [(8, [8, 4, 2]), (28, [28, 14, 7]), (32, [32, 16, 8, 4])])
def test_the_generator_makes_images_of_every_size(size, sides):
    assert list(halvings(size)) == sides
    images = forge(Generator(10, 3, size, 7, 4), 2, 3, Key(0))
    assert images.shape == (3, 3, size, size) and images.abs().max() <= 1


def test_whom_it_cannot_attack_is_refused(tmp_path, run):
    plain = replace(OPEN, rounds=1, partition=create("iid"))
    ladp.run(plain, tmp_path / "iid")
    for attack, words in (
        (Gan(**SHORT), "partition Iid of the run has no curious client: say who .* with --client and --private"),
        (Gan(client=1, **SHORT), "with --private, or attack"),
        (Gan(client=1, private=3, **SHORT), "client 1 holds [0-9]+ records of class '3', which is not private to it"),
        (Gan(client=9, private=3, **SHORT), "client must be between -4 and 3, got 9"),
        (Gan(client=0, private=10, **SHORT), "private must be between -10 and 9, got 10"),
    ):
        with pytest.raises(Problem, match=words):
            finish(attack, tmp_path / "iid")
    for options, words in (({"steps": 0}, "steps of attack 'gan' must be at least 1, got 0"), ({"realness": "tail"}, "unknown realness 'tail'"), ({"fakes": "own"}, "did you mean 'owned'"),
                           ({"lr_g": 0.0}, "lr_g .* between 0 and 1"), ({"stop_accuracy": 1.5}, "stop_accuracy .* above 0 and at most 1"), ({"samples": 1}, "samples .* at least 2")):  # fmt: skip
        with pytest.raises(Problem, match=words):
            Gan(**options)
