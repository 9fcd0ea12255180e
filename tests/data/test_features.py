"""Features: made of one record at a time, once, kept, and taken by every engine as they are."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ladp import data, experiment, training
from ladp.data import features
from ladp.data.dataset import hold_out
from ladp.data.features import featurise, normalise_groups, recall
from ladp.errors import Problem
from ladp.federation import begin, federate
from ladp.privacy.mechanism import Training
from ladp.recipe import Recipe, compose, dump, tabulate
from ladp.training.local import evaluate, normalise


@pytest.fixture
def few():
    """A hundred of the digits to train and thirty to test."""
    digits = data.load("digits")
    return replace(digits, images=digits.images[:100], labels=digits.labels[:100], test_images=digits.test_images[:30], test_labels=digits.test_labels[:30])


def test_features_of_a_record_depend_on_that_record_alone(few, tmp_path):
    other = few.images.clone()
    other[7] = 255 - other[7]
    ours, theirs = (featurise(replace(few, images=images), "scattering", tmp_path).images for images in (few.images, other))
    assert ours.shape == (100, 81, 2, 2) and ours.dtype == torch.float16
    assert [n for n in range(100) if not torch.equal(ours[n], theirs[n])] == [7]


def test_every_group_of_channels_has_mean_0_and_variance_1_within_a_record():
    found = normalise_groups(torch.randn(5, 243, 8, 8) * 40 + 9).unflatten(1, (27, 9)).flatten(2)
    assert torch.allclose(found.mean(2), torch.zeros(5, 27), atol=1e-5) and torch.allclose(found.var(2, correction=0), torch.ones(5, 27), atol=1e-3)


def test_features_are_made_once_and_read_afterwards(few, tmp_path, monkeypatch):
    told = []
    made = featurise(few, "scattering", tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (130, 130) and told == sorted(told)
    monkeypatch.setitem(features.FEATURES, "scattering", None)
    read = featurise(few, "scattering", tmp_path)
    assert torch.equal(read.images, made.images) and torch.equal(read.test_images, made.test_images) and read.labels is few.labels


@pytest.mark.parametrize("damage", [lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:200], lambda b: b"", lambda b: b[:300] + bytes([b[300] ^ 64]) + b[301:]])
def test_a_file_of_the_cache_that_has_changed_is_made_again(few, tmp_path, damage):
    made = featurise(few, "scattering", tmp_path).images
    files = sorted(tmp_path.iterdir())
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
        assert recall(file) is None
    assert torch.equal(featurise(few, "scattering", tmp_path).images, made)
    assert sorted(tmp_path.iterdir()) == files and all(recall(file) is not None for file in files)


def test_what_cannot_be_kept_or_made_is_refused_in_one_line(few, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="name another folder in LADP_CACHE"):
        featurise(few, "scattering", tmp_path / "file" / "cache")
    with pytest.raises(Problem, match="did you mean 'scattering'"):
        featurise(few, "scatering", tmp_path)
    with pytest.raises(Problem, match="images in bytes, got torch.float16"):
        featurise(featurise(few, "scattering", tmp_path), "scattering", tmp_path)


def test_features_pass_through_normalise_unchanged_and_bytes_do_not():
    found = torch.randn(3, 4, 2, 2).half()
    assert torch.equal(normalise(found), found.float()) and torch.equal(normalise(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).flatten(), torch.tensor([-1.0, 1.0]))


def test_held_out_records_are_the_same_with_and_without_features(tmp_path, monkeypatch):
    monkeypatch.setenv("LADP_CACHE", str(tmp_path))
    plain, found = data.load("digits", validation=0.1), data.load("digits", validation=0.1, features="scattering")
    assert torch.equal(plain.test_labels, found.test_labels) and len(found.test_images) == len(plain.test_images)
    assert torch.equal(found.images, hold_out(data.load("digits", features="scattering"), 0.1).images)


@pytest.mark.parametrize("model", ["linear", "scatter-cnn"])
def test_every_engine_trains_on_features_alike(recipe, make_work, tmp_path, monkeypatch, model):
    monkeypatch.setenv("LADP_CACHE", str(tmp_path))
    chosen = replace(recipe, features="scattering", model=model, rounds=2, precision="float64", training=Training(epochs=1, batch=20, lr=0.05))
    rows = {}
    for name in ("sequential", "parallel", "stacked"):
        work = make_work(chosen, workers=2)
        engine = training.start(work, name)
        rows[name] = [event.state.current for event in federate(work, engine, begin(work), 2, "size")][-1]
        if name == "stacked":
            assert engine.cohort is not None  # it has a program
        engine.close()
    assert torch.equal(rows["sequential"], rows["parallel"]) and torch.allclose(rows["stacked"], rows["sequential"], rtol=1e-9, atol=1e-12)


def test_a_linear_model_on_features_learns_the_digits(tmp_path):
    found = featurise(data.load("digits"), "scattering", tmp_path)
    model = experiment.models.create("linear", 10, *found.images.shape[1:3])
    x, y = normalise(found.images), found.labels
    for _ in range(100):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
            p.data -= 0.05 * g
    right, _ = evaluate(model, found.test_images, found.test_labels)
    assert right / len(found.test_labels) > 0.9


def test_a_recipe_with_features_reads_back_and_takes_the_linear_model():
    chosen = Recipe(features="scattering")
    assert chosen.model == "linear" and compose(tabulate(chosen)) == chosen and 'features = "scattering"' in dump(chosen)
    assert "features" not in dump(Recipe()) and Recipe().digest != chosen.digest


def test_augmentation_of_features_is_refused():
    with pytest.raises(Problem, match="augment moves pixels"):
        Recipe(features="scattering", training=Training(augment=True))
    with pytest.raises(Problem, match="did you mean 'scattering'"):
        Recipe(features="scattring")


def test_images_are_known_by_their_bytes_in_order_wherever_they_lie_in_memory(few, tmp_path):
    strided = replace(few, images=torch.from_numpy(np.asfortranarray(few.images.numpy())))
    assert features.address(strided.images) == features.address(few.images)


def test_whitening_makes_the_channels_of_imagined_images_alike_and_less_like_each_other():
    assert spread(features.scattering) > 10_000 and spread(features.whitened) < 100
    assert features.whitened(features.imagined(features.IMAGINED, 1, 12)).mean((0, 2, 3)).abs().max() < 1e-3


def spread(front):
    """How much more imagined images vary along the direction in which they vary most than along that in which they vary least."""
    found = front(features.imagined(features.IMAGINED, 1, 12)).double().transpose(0, 1).flatten(1)
    lengths = torch.linalg.eigvalsh(torch.cov(found))
    return float(lengths[-1] / lengths[0])


def test_imagined_images_are_the_same_bytes_every_time_and_their_waves_fall_with_their_frequency():
    images = features.imagined(200, 3, 32)
    assert images.dtype == torch.uint8 and images.shape == (200, 3, 32, 32) and torch.equal(features.imagined(200, 3, 32), images)
    grey = images.double().mean(1) / 255
    power = torch.fft.fft2(grey - grey.mean()).abs().square().mean(0)
    assert 3 < float(power[0, 2] / power[0, 4]) < 10 and 3 < float(power[4, 0] / power[8, 0]) < 10  # with edges: faster than fourfold an octave
