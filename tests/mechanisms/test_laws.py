"""Laws that every method in the table obeys."""

import math

import pytest
import torch

from ladp import models
from ladp.keys import Key
from ladp.mechanisms import METHODS
from ladp.params import Layout
from ladp.privacy.release import release

every = pytest.mark.parametrize("name", METHODS)


def cohort(size=0.01):
    layout = Layout.of(models.create("cnn-small", channels=1, size=8, norm="batch"))
    generator = torch.Generator().manual_seed(1)
    current = torch.rand(layout.size, generator=generator)
    return layout, current, current + size * torch.randn(3, layout.size, generator=generator)


def keys(*clients, seed=0):
    return [Key(seed).at("noise", 1, client) for client in clients]


@every
def test_an_upload_keeps_its_shape_and_is_finite(see, name):
    layout, current, rows = cohort()
    receipt = release(METHODS[name](), see(layout, current, cohort=3), rows, keys(0, 1, 2))
    assert rows.shape == (3, layout.size) and rows.isfinite().all() and receipt.noise.isfinite().all()


@every
def test_the_same_key_gives_the_same_noise_and_another_one_other_noise(see, name):
    layout, current, rows = cohort()
    method, seen = METHODS[name](), see(layout, current, cohort=3)
    one, same, other = rows.clone(), rows.clone(), rows.clone()
    for part, seed in ((one, 0), (same, 0), (other, 1)):
        release(method, seen, part, keys(0, 1, 2, seed=seed))
    assert torch.equal(one, same)
    assert torch.equal(one, other) == (name == "none")


@every
def test_a_client_gets_the_same_noise_alone_as_in_a_cohort(see, name):
    layout, current, rows = cohort()
    method, alone = METHODS[name](), rows[1:2].clone()
    release(method, see(layout, current, cohort=3), rows, keys(4, 5, 6))
    release(method, see(layout, current, cohort=1), alone, keys(5))
    assert torch.equal(rows[1], alone[0])


@every
def test_the_noise_has_the_planned_scale_and_no_other(see, name):
    layout, current, rows = cohort()
    before = rows.clone()
    receipt = release(METHODS[name](), see(layout, current, cohort=3), rows, keys(0, 1, 2))
    layers = layout.layers(METHODS[name]().layers, METHODS[name]().state)
    for k in range(3):
        for j, layer in enumerate(layers):
            noise, sigma = (rows - before)[k, layer.start : layer.stop], receipt.sigma[k, j].item()
            slack = 5 / math.sqrt(2 * len(layer))
            assert (noise == 0).all() if sigma == 0 else abs(noise.norm().item() / sigma / math.sqrt(len(layer)) - 1) < slack + 1e-3


@every
@pytest.mark.parametrize("state", ["trainable", "all"])
def test_only_the_chosen_state_is_noised(see, name, state):
    layout, current, rows = cohort()
    before = rows.clone()
    release(METHODS[name](state=state), see(layout, current, cohort=3), rows, keys(0, 1, 2))
    moved = {e.name for e in layout.entries if not torch.equal(rows[:, e.start : e.stop], before[:, e.start : e.stop])}
    wanted = {e.name for e in layout.entries if name != "none" and (e.trainable or state == "all")}
    assert moved == wanted


@every
def test_one_sigma_serves_a_whole_module_when_layers_are_modules(see, name):
    layout, current, rows = cohort()
    receipt = release(METHODS[name](layers="module", state="all"), see(layout, current, cohort=3), rows, keys(0, 1, 2))
    assert receipt.sigma.shape == (3, 6)


@every
def test_a_mechanism_that_does_not_peek_is_never_handed_the_weights(see, name, monkeypatch):
    layout, current, rows = cohort()
    given = []
    plan = METHODS[name].plan
    monkeypatch.setattr(METHODS[name], "plan", lambda self, seen, local=None, memory=None: given.append(local) or plan(self, seen, local, memory))
    release(METHODS[name](), see(layout, current, cohort=3), rows, keys(0, 1, 2))
    assert (given[0] is not None) == METHODS[name]().peeks


@every
def test_nothing_unproved_shows_a_finite_certified_epsilon(name):
    certificate = METHODS[name]().certify()
    assert certificate.epsilon == math.inf and certificate.reasons


def test_full_dp_gives_every_layer_the_classical_sigma(see):
    layout, current, _ = cohort()
    plan = METHODS["full"](epsilon=0.2).plan(see(layout, current, cohort=3))
    assert torch.allclose(plan.sigma, torch.tensor(0.01 * math.sqrt(2 * math.log(1.25 / 0.02)) / 0.2, dtype=torch.float64))
