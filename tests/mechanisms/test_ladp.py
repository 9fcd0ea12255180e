"""Algorithms 2 to 4 beside an independent re-implementation, in numpy and mpmath."""

import math

import mpmath
import numpy as np
import pytest
import torch

from ladp import models
from ladp.errors import Problem
from ladp.keys import Key
from ladp.mechanisms.ladp import LaDP, divergence
from ladp.params import Layout
from ladp.privacy.mechanism import Training
from ladp.privacy.release import release


def exact_divergence(local, known) -> float:
    """KL of two softmaxes with 60 digits, as the text says it."""
    with mpmath.workdps(60):
        p, q = ([mpmath.e ** mpmath.mpf(float(v)) for v in w] for w in (local, known))
        P, Q = mpmath.fsum(p), mpmath.fsum(q)
        return float(mpmath.fsum(a / P * mpmath.log((a / P) / (b / Q)) for a, b in zip(p, q)))


@pytest.mark.parametrize("move", [1e-9, 1e-6, 1e-4, 1e-2, 1.0, 30.0])
def test_the_divergence_is_that_of_sixty_digits_however_little_a_layer_moves(move):
    random = np.random.default_rng(0)
    known = random.normal(0, 0.05, 300)
    local = known + move * random.normal(0, 1, 300)
    got = divergence(torch.from_numpy(local), torch.from_numpy(known))
    assert got == pytest.approx(exact_divergence(local, known), rel=1e-5 if move < 1e-8 else 1e-9)


def test_the_divergence_of_a_late_resnet_layer_is_half_its_mean_squared_update():
    generator = torch.Generator().manual_seed(0)
    known = 0.02 * torch.randn(2_359_296, generator=generator)
    step = 1e-4 * torch.randn(2_359_296, generator=generator)
    got = divergence((known + step).view(512, 512, 3, 3), known.view(512, 512, 3, 3))
    moved = (known + step).double() - known.double()
    assert got == pytest.approx(moved.var().item() / 2, rel=1e-2)


def test_the_divergence_of_equal_layers_is_zero_and_never_negative():
    w = torch.randn(1000)
    assert divergence(w, w.clone()) == 0
    for scale in (1e-12, 1e-8, 1e-3, 1e3):
        assert divergence(w + scale * torch.randn(1000), w) >= 0


def test_layers_of_different_shapes_are_not_compared():
    with pytest.raises(Problem, match=r"\(2, 3\).*\(3, 2\)"):
        divergence(torch.zeros(2, 3), torch.zeros(3, 2))


def trained(seed=0, cohort=2, size=0.01):
    model = models.create("cnn-small", channels=1, size=8)
    layout = Layout.of(model)
    generator = torch.Generator().manual_seed(seed)
    current = 0.1 * torch.randn(layout.size, generator=generator, dtype=torch.float64)
    rows = current + size * torch.randn(cohort, layout.size, generator=generator, dtype=torch.float64)
    return layout, current, rows


def paper_constant(epsilon, delta, B):
    """The privacy theorem's least c_i."""
    if delta <= math.sqrt(2 / (math.pi * math.e**4)):
        L = math.log(2 / (math.pi * delta**2))
        return (math.sqrt(L) + math.sqrt(L + 8 * epsilon)) * B / 4
    return (1 + math.sqrt(1 + 2 * epsilon)) * B / 2


@pytest.mark.parametrize("delta", [0.02, 0.3])
@pytest.mark.parametrize("sensitivity,Delta", [("theorem", 2 * 0.1 * 2 * 20), ("steps", 2 * 0.1 * 20 * 5), ("as-run", 0.01)])
def test_sigma_of_every_layer_is_that_of_the_text(see, sensitivity, Delta, delta):
    layout, current, rows = trained()
    R, B, epsilon = 2.0, 5e-5, 0.3
    method = LaDP(epsilon=epsilon, delta=delta, sensitivity=sensitivity, importance=R, bound=B)
    plan = method.plan(see(layout, current, training=Training(epochs=2, lr=0.1, clip=20)), rows)
    chosen = 0
    for k in range(2):
        for j, e in enumerate(layout.entries):
            w, g = rows[k, e.start : e.stop].numpy(), current[e.start : e.stop].numpy()
            if math.sqrt((w**2).sum()) < R:
                assert plan.sigma[k, j] == 0
                continue
            chosen += 1
            P = min(exact_divergence(w, g), B)
            assert plan.sigma[k, j].item() == pytest.approx(paper_constant(epsilon, delta, B) * Delta / (epsilon * P), rel=1e-8)
    assert 0 < chosen < 2 * len(layout.entries)


def test_the_release_adds_noise_of_the_planned_scale_and_no_other(see):
    layout, current, rows = trained(cohort=1)
    method = LaDP(epsilon=0.3, importance=1.5, bound=5e-5)
    sigma = method.plan(see(layout, current, cohort=1), rows)
    released, z = rows.repeat(200, 1), []
    seen = see(layout, current, cohort=200)
    receipt = release(method, seen, released, [Key(0).at("noise", 1, k) for k in range(200)])
    for j, e in enumerate(layout.entries):
        noise = (released - rows)[:, e.start : e.stop]
        planned = sigma.sigma[0, j].item()
        assert torch.allclose(receipt.noise[:, j], noise.norm(dim=1))
        if planned == 0:
            assert (noise == 0).all()
            continue
        z.append((noise / planned).flatten())
        spread, count = noise.std().item(), noise.numel()
        assert abs(spread / planned - 1) < 5 / math.sqrt(2 * count)
        for wrong in (2 / 3, 3 / 2):
            assert abs(spread / (wrong * planned) - 1) > 5 / math.sqrt(2 * count)
    z = torch.cat(z)
    assert abs(z.mean().item()) < 5 / math.sqrt(z.numel()) and abs((z**4).mean().item() - 3) < 5 * math.sqrt(96 / z.numel())


def test_a_layer_that_did_not_move_is_refused_unless_a_floor_is_set(see):
    layout, current, rows = trained()
    rows[1, layout.entries[4].start : layout.entries[4].stop] = current[layout.entries[4].start : layout.entries[4].stop]
    with pytest.raises(Problem, match=r"client 41, round 1: P of layer 'fc1.weight' is 0, .* floor"):
        LaDP().plan(see(layout, current), rows)
    assert LaDP(floor=1e-9).plan(see(layout, current), rows).sigma.isfinite().all()


def test_thresholds_may_be_quantiles_of_what_is_public(see):
    layout, current, rows = trained()
    norms = torch.stack([current[e.start : e.stop].norm() for e in layout.entries])
    plan = LaDP(importance="q0.5", bound=1e-7).plan(see(layout, current), rows)
    assert torch.equal(plan.selected, torch.stack([torch.stack([r[e.start : e.stop].norm() for e in layout.entries]) for r in rows]) >= norms.quantile(0.5))
    previous = current + 1e-3
    previous[: layout.size // 2] += 1e-3 * torch.randn(layout.size // 2)
    plan = LaDP(bound="q0.5").plan(see(layout, current, previous, round=2), rows)
    public = torch.tensor([exact_divergence(current[e.start : e.stop].numpy(), previous[e.start : e.stop].numpy()) for e in layout.entries])
    assert plan.privacy.max().item() == pytest.approx(public.quantile(0.5).item(), rel=1e-4)


def test_before_there_is_public_history_a_quantile_bound_clips_every_estimate(see):
    layout, current, rows = trained()
    uniform = LaDP(bound=1e-15).plan(see(layout, current), rows)
    assert torch.allclose(LaDP(bound="q0.05").plan(see(layout, current), rows).sigma, uniform.sigma)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"epsilon": 0.0}, "epsilon.*0"),
        ({"epsilon": -1.0}, "epsilon.*-1"),
        ({"delta": 0.0}, "delta.*0"),
        ({"delta": 1.0}, "delta.*1"),
        ({"bound": 0.0}, "bound B must be positive, got 0"),
        ({"bound": "q2"}, "'q2'"),
        ({"importance": "x"}, "'x'"),
        ({"floor": -1.0}, "floor must be at least 0, got -1"),
        ({"kappa": 0.0}, "kappa must be positive, got 0"),
        ({"constant": "clasical"}, "did you mean 'classical'"),
        ({"sensitivity": "asrun"}, "did you mean 'as-run'"),
    ],
)
def test_a_wrong_option_is_refused_with_its_value(options, words):
    with pytest.raises(Problem, match=words):
        LaDP(**options)
