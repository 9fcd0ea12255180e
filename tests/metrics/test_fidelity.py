"""Scores of images by a small classifier of the digits, trained for real."""

import pytest
import torch

from ladp import data
from ladp.errors import Problem
from ladp.keys import Key
from ladp.metrics.fidelity import Fidelity, quantise
from ladp.metrics.inception import Inception
from ladp.metrics.small import recognised, scale


@pytest.fixture(scope="module")
def digits():
    return data.load("digits")


@pytest.fixture(scope="module")
def fidelity(digits):
    return Fidelity.of("small", digits)


def test_the_same_key_trains_the_same_classifier_and_disturbs_no_generator(digits, fidelity):
    before = torch.random.get_rng_state()
    again = Fidelity.of("small", digits)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(again.features(digits.images[:50]), fidelity.features(digits.images[:50]))
    assert fidelity.network.accuracy > 0.9


def test_features_are_one_row_an_image_and_do_not_depend_on_its_company(digits, fidelity):
    images = digits.images[:60]
    steps = []
    found = fidelity.features(images, lambda done, total: steps.append((done, total)))
    assert found.shape == (60, 64) and found.dtype == torch.float32 and steps == [(25, 60), (50, 60), (60, 60)]
    assert torch.allclose(found[7:8], fidelity.features(images[7:8]), atol=1e-5)


def test_numbers_and_bytes_are_the_same_images(digits, fidelity):
    images = digits.images[:40]
    assert torch.equal(quantise(scale(images)), images)
    assert torch.equal(fidelity.features(scale(images)), fidelity.features(images))


def test_other_digits_are_further_away_than_the_other_half_and_noise_further_still(digits, fidelity):
    threes, fives = (digits.images[digits.labels == k] for k in (3, 5))
    noise = quantise(torch.rand(73, 1, 8, 8, generator=Key(0).generator()) * 2 - 1)
    same, other, none = (fidelity.compare(threes[:73], fake) for fake in (threes[73:], fives[:73], noise))
    for score in ("fid", "kid"):
        assert 5 * same[score] < other[score] < none[score]
    assert fidelity.compare(threes, threes)["fid"] == pytest.approx(0, abs=1e-9)


def test_a_score_says_what_it_is(digits, fidelity):
    few, enough = fidelity.compare(digits.images[:300], digits.images[300:340]), fidelity.compare(digits.images[:300], digits.images[300:600])
    assert few["n"] == {"real": 300, "fake": 40} and few["features"] == "digits-features" and few["kid_deviation"] > 0
    assert not few["comparable"] and not enough["comparable"]
    assert "far too high" in few["notes"][-1] and "not comparable with any published FID" in enough["notes"][-1]


def test_real_images_are_looked_at_once(digits, fidelity, tmp_path):
    """On the disk too, where the network is one that everybody has."""
    steps = []
    network = Inception(lambda images: images.mean((2, 3)).repeat(1, 683)[:, :2048])
    for _ in range(2):
        kept = Fidelity(network, cache=tmp_path)
        for _ in range(2):
            kept.real(digits.images[:30], lambda done, total: steps.append(done))
    assert steps == [25, 30] and len(list(tmp_path.iterdir())) == 1
    fidelity.real(digits.images[:30])
    assert fidelity.real(digits.images[:30]) is fidelity.real(digits.images[:30].clone())


def test_a_classifier_recognises_what_is_there(digits, fidelity):
    fours = scale(digits.test_images[digits.test_labels == 4])
    assert recognised(fidelity.network.model, fours, 4) > 0.9 > 0.1 > recognised(fidelity.network.model, fours, 7)
    assert recognised(lambda images: torch.eye(10)[torch.arange(len(images)) % 10], torch.zeros(1000, 1, 8, 8), 4) == 0.1


def test_what_cannot_be_scored_is_refused(digits, fidelity):
    images = digits.images[:30]
    for wrong, line in (
        (images.float(), r"in \[-1, 1\], got torch.float32 from 0 to 255"),
        (images.long(), "got torch.int64"),
        (scale(images) * float("nan"), "from nan to nan"),
        (images[0], r"got \(1, 8, 8\)"),
        (images[:0], "at least one"),
    ):
        with pytest.raises(Problem, match=line):
            fidelity.features(wrong)
    with pytest.raises(Problem, match="compare like with like"):
        fidelity.compare(images, images.repeat(1, 3, 1, 1))
    with pytest.raises(Problem, match="got 30 and 1 images"):
        fidelity.compare(images, images[:1])
    with pytest.raises(Problem, match="unknown features 'inceptoin': did you mean 'inception'"):
        Fidelity.of("inceptoin", digits)
    with pytest.raises(Problem, match="give at least one"):
        recognised(fidelity.network.model, scale(images[:0]), 4)
