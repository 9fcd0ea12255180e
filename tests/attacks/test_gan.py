"""A class that the curious client has never seen, out of global models alone."""

import json
import re
from contextlib import closing
from copy import deepcopy
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import ladp
from ladp import attacks, folder, models
from ladp.attacks import gan
from ladp.attacks.absence import Without
from ladp.attacks.acgan import Game, Rules, last
from ladp.attacks.gan import Gan
from ladp.attacks.generator import Generator, forge, halvings
from ladp.attacks.likeness import Likeness
from ladp.attacks.scene import Scene
from ladp.attacks.trail import Trail
from ladp.data.partition import create
from ladp.data.split import Shards
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


def content(place):
    return {path.name: path.read_bytes() for path in place.iterdir() if path.is_file() and path.name != ".lock"}


def test_the_run_under_attack_is_the_run_itself_to_the_last_bit_and_stays_as_it_was(run, monkeypatch):
    monkeypatch.setattr(gan, "KEEP_SECONDS", 0.0)
    before, attack = content(run), Gan(**SHORT)
    watch(attack, run, 6)
    assert content(run) == before
    out = run / "attacks" / f"gan-{attack.digest(OPEN.digest)[:8]}"
    seen, own = (load_file(place / "checkpoint.safetensors") for place in (out, run))
    assert torch.equal(seen["current"], own["current"])
    accuracies = [json.loads(line)["accuracy"] for line in (run / "rounds.jsonl").open()]
    assert load_file(out / "attack-6.safetensors")["trail"][:, 1].tolist() == pytest.approx(accuracies, abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"realness": "head", "absent": True, "every": 2}])
def test_an_attack_that_was_cut_off_goes_on_to_the_same_last_bit(options, run, monkeypatch):
    monkeypatch.setattr(gan, "KEEP_SECONDS", 0.0)
    attack = Gan(**SHORT, blur=0.1, **options)
    out = run / "attacks" / f"gan-{attack.digest(OPEN.digest)[:8]}"
    assert watch(attack, run, 3) == [1, 2, 3] and load_file(out / "attack-3.safetensors")["adam.0.step"] > 0
    assert watch(attack, run, 3) == [4, 5, 6]
    resumed = kept(out)
    for path in out.iterdir():
        path.unlink()
    watch(attack, run, 6)
    assert kept(out) == resumed


def kept(out):
    """All that lies there after six rounds, without the order in which a file names it."""
    return folder.digest(load_file(out / "attack-6.safetensors")), folder.digest(load_file(out / "checkpoint.safetensors"))


def watch(attack, run, rounds):
    """Some rounds of an attack, which is then cut off."""
    with closing(attacks.carry_out(attack, run)) as events:
        return [event.done for event in islice(events, rounds)]


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
    assert recall(run, absent=True) == [0.0] * 6 and recall(run)[-1] > 0
    with pytest.raises(Problem, match="client 1 has no records but those of the private class"):
        Without(Shards(np.arange(6), np.array([0, 3, 6])), torch.tensor([1, 2, 3, 3, 3, 3]), 3).sizes()


def recall(run, **options):
    """The private class's test accuracy, round after round of what the attack observes."""
    return [record[2] for record in observe(Gan(**SHORT, **options), run).records]


def observe(attack, run):
    """The trail of an attack that is not scored."""
    scene, trail = Scene.of(run, run, "x"), Trail(3)
    list(attack.observe(attack.stage(scene, 3), attack.begin(scene, 3), trail, None))
    return trail


def test_observation_ends_at_the_accuracy_it_is_told(run, monkeypatch):
    monkeypatch.setattr(Scene, "save", lambda *_: None)
    whole = [accuracy for _, accuracy, _ in observe(Gan(**SHORT), run).records]
    wanted = sorted(whole)[2]
    first = next(number for number, accuracy in enumerate(whole, 1) if accuracy >= wanted)
    assert [number for number, _, _ in observe(Gan(**SHORT, stop_accuracy=wanted), run).records] == list(range(1, first + 1))


def test_rounds_are_chosen_by_start_and_every(run):
    assert observe(Gan(**SHORT, start=2, every=3), run).columns["round"] == [2, 5]
    assert observe(Gan(**SHORT, start=7), run).columns == {"round": [], "accuracy": [], "recall": []}


def test_a_generator_that_saw_no_round_scores_what_an_untrained_one_does(run):
    scores = finish(Gan(**SHORT, start=7), run)["scores"]
    assert {name: scores["private"][name] for name in scores["untrained"]} == scores["untrained"] and scores["rounds"]["round"] == []
    assert scores["real"]["recognised"] > 0.8 and scores["real"]["margin"] > 0.05 > scores["untrained"]["margin"] and scores["real"]["fid"] < scores["untrained"]["fid"]


def test_it_comes_near_the_class_without_protection_and_not_under_strong_noise(tmp_path):
    """Nearest real images: of the private class if there is no noise, and at any class's distance if there is much."""
    near = {}
    for method in (NoNoise(), Full(epsilon=0.05)):
        out = tmp_path / method.name
        ladp.run(replace(OPEN, method=method, clients=5, active=5, rounds=15, partition=create("isolation", private=0), training=Training(), seed=1), out)
        scene, attack = Scene.of(out, out, "x"), Gan(width=16, batch=32, steps=40, start=6)
        game = attack.begin(scene, 4)
        list(attack.observe(scene, game, Trail(0), None))
        near[method.name] = Likeness(scene.dataset, None, None, "cpu").distances(forge(game.generator, 0, 100, scene.key))
    open, noisy = near["none"], near["full"]
    assert open[0] < 0.97 * min(open[1:]) and noisy[0] > min(noisy[1:]) and noisy[0] > 1.3 * open[0]


@pytest.mark.parametrize("options", [{"teacher": "copy"}, {"realness": "head"}, {"fakes": "all"}])
def test_other_rules_make_another_game(options, run):
    scene = Scene.of(run, run, "x")
    made = []
    for attack in (Gan(**SHORT), Gan(**SHORT, **options)):
        game = attack.begin(scene, 3)
        for number in (1, 2):
            game.play(deepcopy(scene.work.model).eval(), Key(number))
        made.append(game.generator.embed.weight)
    assert not torch.equal(*made) and made[1].isfinite().all()


def test_a_round_of_the_game_leaves_the_global_model_as_it_came_but_for_what_is_thrown_away(run):
    """BatchNorm in eval: not one statistic moves, in the copy either."""
    model = models.create("cnn-small", 10, 1, 8, "batch").eval()
    before = deepcopy(model)
    game = Gan(**SHORT).begin(Scene.of(run, run, "x"), 3)
    game.play(model, Key(0))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), before.buffers())) and not any(torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters()))


@pytest.mark.parametrize(("model", "classes", "channels", "size"), [("resnet18", 10, 3, 32), ("cnn", 10, 3, 32), ("cnn", 62, 1, 28)])
@pytest.mark.parametrize("realness", ["energy", "head"])
def test_it_plays_against_the_models_and_images_of_the_paper(model, classes, channels, size, realness):
    with Key(0).reign():
        critic, generator = models.create(model, classes, channels, size).eval(), Generator(classes, channels, size, 10, 4)
        head = nn.Linear(last(critic).in_features, 1) if realness == "head" else None
    before = deepcopy(generator)
    rules = Rules(1, 1, 2, 10, 1e-3, 1e-3, (0.5, 0.999), 0.0, "global")
    Game(generator, head, rules, (torch.zeros(4, channels, size, size), torch.arange(4)), torch.arange(4), classes).play(critic, Key(1))
    moved = [not torch.equal(a, b) for a, b in zip(generator.parameters(), before.parameters())]
    assert all(moved) and all(p.isfinite().all() for p in generator.parameters())


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


def test_the_page_lists_every_option_with_its_default():
    """docs/attacks.md, section gan."""
    page = (Path(__file__).parents[2] / "docs/attacks.md").read_text().split("\n## gan\n")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `--([a-z0-9-]+)` \|([^|]*)\|", page, re.M))
    listed = {name: value.strip() for name, value in listed.items()}
    assert listed == {field.name.replace("_", "-"): "" if field.default is None else f"{field.default}".lower() for field in fields(Gan)}
