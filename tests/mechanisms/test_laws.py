"""Laws that every method obeys, in each of its forms: those of the table, and one of a user's own."""

import math
from dataclasses import fields, replace

import pytest
import torch
from variants import VARIANTS, Scene

from ladp.errors import Problem
from ladp.mechanisms import METHODS
from ladp.privacy.budget import matched
from ladp.privacy.mechanism import Plan
from ladp.privacy.release import release

every = pytest.mark.parametrize("name", VARIANTS)
whenever = pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
NOISY = [name for name in VARIANTS if name != "none"]


def send(scene, seed=0, rows=None, memory=None):
    """(uploads, receipt, memory) of a release; what is handed in stays as it is."""
    rows = (scene.rows if rows is None else rows).clone()
    memory = scene.memory if memory is None else memory
    memory = None if memory is None else memory.clone()
    return rows, release(scene.method, scene.seen, rows, scene.keys(seed), memory), memory


@every
@whenever
def test_an_upload_keeps_its_shape_and_is_finite(see, name, later):
    scene = Scene(see, VARIANTS[name], later)
    rows, receipt, _ = send(scene)
    assert rows.shape == scene.rows.shape and rows.isfinite().all() and receipt.noise.isfinite().all() and receipt.sigma.isfinite().all()


@every
@whenever
def test_a_client_that_learned_nothing_sends_what_is_finite_or_nothing_at_all(see, name, later):
    scene = Scene(see, VARIANTS[name], later, size=0.0)
    rows = scene.rows.clone()
    try:
        release(scene.method, scene.seen, rows, scene.keys(), None if scene.memory is None else scene.memory.clone())
    except Problem as problem:
        assert name == "ladp" and "floor" in str(problem) and torch.equal(rows, scene.rows)
    assert rows.isfinite().all()


@every
@whenever
def test_the_same_key_gives_the_same_noise_and_another_one_other_noise(see, name, later):
    scene = Scene(see, VARIANTS[name], later)
    (one, *_), (same, *_), (other, *_) = send(scene), send(scene), send(scene, seed=1)
    assert torch.equal(one, same) and torch.equal(one, other) == (name == "none")


@every
@whenever
def test_a_client_sends_the_same_alone_as_in_a_cohort(see, name, later):
    scene = Scene(see, VARIANTS[name], later)
    rows, _, memory = send(scene)
    alone, kept = scene.rows[1:2].clone(), None if memory is None else scene.memory[1:2].clone()
    release(scene.method, scene.seen.of(1), alone, scene.keys()[1:2], kept)
    assert torch.equal(rows[1], alone[0]) and (memory is None or torch.equal(memory[1], kept[0]))


@every
@whenever
def test_no_client_feels_what_another_trained_or_remembers(see, name, later):
    scene = Scene(see, VARIANTS[name], later)
    rows, _, memory = send(scene)
    changed, other = scene.rows.clone(), None if memory is None else scene.memory.clone()
    changed[0] += 0.02 * torch.randn(changed.shape[1], generator=torch.Generator().manual_seed(5), dtype=changed.dtype)
    if other is not None:
        other[0] *= 1.5
    others, _, kept = send(scene, rows=changed, memory=other)
    assert torch.equal(rows[1:], others[1:]) and not torch.equal(rows[0], others[0]) and (memory is None or torch.equal(memory[1:], kept[1:]))


@pytest.mark.parametrize("name", NOISY)
def test_the_noise_has_the_planned_scale_and_no_other(see, name):
    """Of two uploads with different noise all but the noise is the same: their difference has deviation sigma sqrt(2)."""
    scene = Scene(see, VARIANTS[name])
    (one, receipt, _), (other, again, _) = send(scene), send(scene, seed=1)
    assert torch.equal(receipt.sigma, again.sigma)
    drawn = []
    for k in range(3):
        for j, layer in enumerate(scene.seen.layout.layers(scene.method.layers, scene.method.state)):
            part, sigma = (one - other)[k, layer.start : layer.stop], receipt.sigma[k, j].item()
            assert sigma > 0 or (part == 0).all()
            drawn += [part / (math.sqrt(2) * sigma)] * (sigma > 0)
            assert abs(receipt.noise[k, j].item() / sigma / math.sqrt(len(layer)) - 1) < 5 / math.sqrt(2 * len(layer)) if sigma else receipt.noise[k, j] == 0
    z = torch.cat(drawn)
    off = lambda scale: abs(z.square().mean().item() / scale**2 - 1) / math.sqrt(2 / len(z))  # noqa: E731
    assert off(1) < 5 and min(off(2 / 3), off(3 / 2)) > 50
    assert abs(z.mean().item()) * math.sqrt(len(z)) < 5 and abs((z**4).mean().item() - 3) < 5 * math.sqrt(96 / len(z))


@every
@pytest.mark.parametrize("state", ["trainable", "all"])
def test_only_the_chosen_state_is_noised(see, name, state):
    scene = Scene(see, replace(VARIANTS[name], state=state))
    (one, *_), (other, *_) = send(scene), send(scene, seed=1)
    moved = {e.name for e in scene.seen.layout.entries if not torch.equal(one[:, e.start : e.stop], other[:, e.start : e.stop])}
    assert moved == {e.name for e in scene.seen.layout.entries if name != "none" and (e.trainable or state == "all")}


@every
def test_what_is_not_noised_leaves_as_it_was_trained(see, name):
    scene = Scene(see, VARIANTS[name], later=True)
    rows, *_ = send(scene)
    for e in scene.seen.layout.entries:
        assert e.trainable or torch.equal(rows[:, e.start : e.stop], scene.rows[:, e.start : e.stop])


@every
def test_one_sigma_serves_a_whole_module_when_layers_are_modules(see, name):
    scene = Scene(see, replace(VARIANTS[name], layers="module", state="all"))
    assert send(scene)[1].sigma.shape == (3, 6)


@every
def test_a_mechanism_that_does_not_peek_is_never_handed_the_weights(see, name, monkeypatch):
    scene, given = Scene(see, VARIANTS[name], later=True), []
    kind, asked = type(scene.method), "share" if scene.method.needs_budget else "plan"
    plan = getattr(kind, asked)
    monkeypatch.setattr(kind, asked, lambda self, seen, local=None, memory=None: given.append(local) or plan(self, seen, local, memory))
    send(scene)
    assert (given[0] is not None) == scene.method.peeks


@every
def test_noise_that_follows_private_weights_or_what_a_client_kept_of_them_is_said_to_peek(see, name):
    """Two clients that differ only in what they trained, now and in the round before."""
    scene = Scene(see, VARIANTS[name])
    _, _, kept = send(scene, rows=scene.rows)
    _, _, other = send(scene, rows=scene.current + 3 * (scene.rows - scene.current))
    later = Scene(see, VARIANTS[name], later=True)
    sigma = [send(later, rows=rows, memory=memory)[1].sigma for rows, memory in ((later.rows, kept), (later.current + 3 * (later.rows - later.current), other))]
    assert torch.equal(*sigma) or scene.method.peeks


def test_the_variants_that_peek_are_these():
    assert {name for name, method in VARIANTS.items() if method.peeks} == {
        "sensitive as-run", "sensitive faithful", "adapldp faithful", "adapldp intended", "ladp",
    }  # fmt: skip


@every
def test_nothing_unproved_shows_a_finite_certified_epsilon(name):
    certificate = VARIANTS[name].certify()
    assert certificate.epsilon == math.inf and certificate.reasons


@every
@whenever
def test_a_plan_changes_nothing_that_it_is_given(see, name, later):
    scene = Scene(see, VARIANTS[name], later)
    rows, memory = scene.rows.clone(), None if scene.memory is None else scene.memory.clone()
    ask = matched if scene.method.needs_budget else type(scene.method).plan
    plans = [ask(scene.method, scene.seen, rows if scene.method.peeks else None, memory) for _ in range(2)]
    assert torch.equal(rows, scene.rows) and (memory is None or torch.equal(memory, scene.memory))
    assert all(torch.equal(*(getattr(plan, f.name) for plan in plans)) for f in fields(Plan) if isinstance(getattr(plans[0], f.name), torch.Tensor))


def test_full_dp_gives_every_layer_the_classical_sigma(see):
    plan = METHODS["full"](epsilon=0.2).plan(Scene(see, VARIANTS["full as-run"]).seen)
    assert torch.allclose(plan.sigma, torch.tensor(0.01 * math.sqrt(2 * math.log(1.25 / 0.02)) / 0.2, dtype=torch.float64))
