"""Leaks put into the door by hand: each is found, by the bound or by a law of the noise, and without it nothing is."""

import pytest
import torch
from conftest import audit

from ladp.keys import Key
from ladp.privacy import release
from ladp.training.records.geometry import Geometry

PERTURB, WHERE = release.perturb, [(unit, view) for unit in ("client", "record") for view in ("server", "peer")]

FEW = {"client": dict(clients=30, active=30), "record": {}}  # enough for a law


def unnoised(name):
    """One layer leaves as it is."""

    def leak(rows, layers, sigma, keys):
        sigma = sigma.clone()
        sigma[:, [layer.name for layer in layers].index(name)] = 0.0
        return PERTURB(rows, layers, sigma, keys)

    return leak


def halved(rows, layers, sigma, keys):
    return PERTURB(rows, layers, sigma / 2, keys)


def reused(place):
    """Noise whose address lacks its round (1), its client (2) or its step (3)."""
    return lambda rows, layers, sigma, keys: PERTURB(rows, layers, sigma, [Key(key.seed, key.address[:place] + key.address[place + 1 :]) for key in keys])


@pytest.mark.parametrize("unit, view, layer", [*((unit, view, "fc.weight") for unit, view in WHERE), ("client", "server", "fc.bias")])
def test_a_layer_without_noise_refutes_what_is_certified(recipe_of, monkeypatch, unit, view, layer):
    monkeypatch.setattr(release, "perturb", unnoised(layer))
    found = audit(recipe_of(unit, view), canaries=148)
    assert found.refuted.epsilon > 1.5 > found.certified.epsilon
    assert any(f"layer {layer!r} left with" in line for line in found.failed)


@pytest.mark.parametrize("unit, view", WHERE)
def test_half_the_noise_breaks_a_law(recipe_of, monkeypatch, unit, view):
    """A few hundred canaries are too few to refute the epsilon of half the noise; its length is plain."""
    monkeypatch.setattr(release, "perturb", halved)
    found = audit(recipe_of(unit, view, **FEW[unit]), canaries=20)
    assert any("'fc.weight' left with 0.5 times the noise that was charged for" in line or "left with 0.49" in line for line in found.failed)


@pytest.mark.parametrize("view", ["server", "peer"])
def test_an_update_that_is_not_clipped_refutes_what_is_certified(recipe_of, monkeypatch, view):
    monkeypatch.setattr(release, "shorten", lambda *parts: None)
    found = audit(recipe_of("client", view))
    assert found.refuted.epsilon > 1.5 > found.certified.epsilon


def test_a_record_that_is_not_clipped_refutes_what_is_certified_and_breaks_a_law(recipe_of, monkeypatch):
    recipe = recipe_of("record", "server", {"clip": 0.1})
    honest = audit(recipe, canaries=100, kind="record")
    monkeypatch.setattr(Geometry, "coefficients", lambda self, squares, owners: (self.live[owners], torch.zeros(len(owners))))
    found = audit(recipe, canaries=100, kind="record")
    assert honest.failed == [] and found.refuted.epsilon > 1.5 > found.certified.epsilon
    assert any(line.startswith("clip: a record moves its sum by") for line in found.failed)


@pytest.mark.parametrize("unit, view, place", [(unit, view, place) for unit, view in WHERE for place in (1, 2, 3) if unit == "record" or place < 3])
def test_noise_that_is_used_twice_breaks_a_law(recipe_of, monkeypatch, unit, view, place):
    """To a guess that looks at each release by itself it is noise like any other; the difference of two releases has none."""
    recipe = recipe_of(unit, view, {} if unit == "client" else {"steps": 2}, **{**FEW[unit], "rounds": 2})
    monkeypatch.setattr(release, "perturb", reused(place))
    assert any(line.startswith("fresh noise: two releases have noise in common") for line in audit(recipe, canaries=20).failed)
