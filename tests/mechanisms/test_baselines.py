"""The methods that the paper compares with, beside their formulas written out again in plain numbers, on random tensors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from variants import Scene

from ladp.errors import Problem
from ladp.keys import Key
from ladp.mechanisms import DPA, AdapLDP, Full, Sensitive, TimeVarying
from ladp.mechanisms.adapldp import rate
from ladp.mechanisms.full import inflation
from ladp.privacy.mechanism import Population, Training
from ladp.privacy.release import broadcast, release

C = math.sqrt(2 * math.log(1.25 / 0.02))
AS_RUN = 0.01 * C / 0.5


def sigma(method, scene, rows=None, memory=None):
    """One sigma a client, the same for all of its layers."""
    plan = method.plan(scene.seen, scene.rows if rows is None else rows, scene.memory if memory is None else memory)
    assert (plan.sigma == plan.sigma[:, :1]).all()
    return plan.sigma[:, 0].numpy()


def at(scene, round, rounds):
    scene.seen = replace(scene.seen, round=round, rounds=rounds)
    return scene


def among(scene, clients, active, smallest):
    scene.seen = replace(scene.seen, population=Population(clients, active, smallest))
    return scene


def trainable(scene, row):
    """The numbers of a row that are weights, as numpy."""
    return np.concatenate([row[e.start : e.stop].numpy() for e in scene.seen.layout.entries if e.trainable])


@pytest.mark.parametrize("method, amplitude", [
    (Full(), lambda t: 1.0), (TimeVarying(), lambda t: 0.99788**t), (DPA(), lambda t: 0.9965**t),
    (AdapLDP(), lambda t: math.sqrt(2 * math.log(1.25 / (0.02 * 0.92))) / C),
])  # fmt: skip
@pytest.mark.parametrize("round", [1, 17, 400])
def test_as_run_sigma_is_that_of_full_dp_times_the_schedule(see, method, amplitude, round):
    found = sigma(method, at(Scene(see, method), round, 400))
    np.testing.assert_allclose(found, AS_RUN * amplitude(round - 1), rtol=1e-3 if method.name == "dpa" else 1e-12)


def test_as_run_schedules_have_the_noise_and_the_budget_that_the_paper_reports():
    """Over 400 rounds: Time-Varying 57.3 % more epsilon and .675 of Full DP's noise, DPA .538 of it."""
    varying, dpa = (np.array(method.schedule(400)) for method in (TimeVarying(), DPA()))
    assert (1 / varying).mean() == pytest.approx(1.573, abs=0.003) and varying.mean() == pytest.approx(0.675, abs=0.002)
    assert dpa.mean() == pytest.approx(0.538, abs=0.002)


def test_nbafl_shortens_the_weights_and_noises_them_for_all_exposures(see):
    method = Full(form="faithful", epsilon=60.0, delta=0.01, norm_bound=5.0, exposures=7)
    scene = among(Scene(see, method), 50, 20, 80)
    plan, uploads = method.plan(scene.seen), scene.rows.clone()
    wanted = math.sqrt(2 * math.log(1.25 / 0.01)) * 7 * (2 * 5.0 / 80) / 60
    assert (plan.sigma - wanted).abs().max() < 1e-12 and plan.clips == "weights"
    release(method, scene.seen, uploads, scene.keys())
    for k in range(3):
        w, z = trainable(scene, scene.rows[k]), trainable(scene, uploads[k])
        clean = w / max(1.0, np.linalg.norm(w) / 5.0)
        assert np.linalg.norm(w) > 5 and np.linalg.norm(clean) == pytest.approx(5)
        assert (z - clean).std() == pytest.approx(wanted, rel=0.05) and abs((z - clean).mean()) < 5 * wanted / math.sqrt(len(w))


def test_nbafl_leaves_weights_within_the_bound_as_they_are(see):
    method = Full(form="faithful", norm_bound=1e6, epsilon=1e9)
    scene = Scene(see, method)
    uploads = scene.rows.clone()
    receipt = release(method, scene.seen, uploads, scene.keys())
    added = torch.stack([torch.stack([(uploads - scene.rows)[k, e.start : e.stop].norm() for e in scene.seen.layout.entries if e.trainable]) for k in range(3)])
    torch.testing.assert_close(added, receipt.noise, rtol=1e-6, atol=0)


@pytest.mark.parametrize("epsilon, N, K, T, L", [(50, 50, 50, 25, 1), (50, 50, 20, 25, 2), (60, 50, 20, 25, 10), (8, 100, 10, 400, 40), (8, 100, 10, 400, 400), (1e3, 50, 20, 25, 1), (0.5, 20, 5, 30, 3)])
def test_noise_on_the_way_down_is_that_of_k_random_scheduling(see, epsilon, N, K, T, L):
    """The paper's own condition T > epsilon/gamma, written out; ours is that what stands under the root is positive."""
    method = Full(form="faithful", epsilon=float(epsilon), delta=0.01, norm_bound=3.0, exposures=L)
    scene = at(among(Scene(see, method), N, K, 40), 1, T)
    inside = 1 - N / K + N / K * math.exp(-epsilon / T)
    gamma = -math.log(1 - K / N + K / N * math.exp(-epsilon / (L * math.sqrt(K))))
    wanted = 0.0
    if T > epsilon / gamma * (1 + 1e-12):
        b = -T / epsilon * math.log(inside)
        wanted = 2 * math.sqrt(2 * math.log(125)) * 3.0 * math.sqrt(T**2 / b**2 - L**2 * K) / (40 * K * epsilon)
        assert b == pytest.approx(inflation(epsilon, T, scene.seen.population))
    assert method.downlink(scene.seen) == pytest.approx(wanted)
    if N == K:
        assert wanted == pytest.approx(2 * math.sqrt(2 * math.log(125)) * 3.0 * math.sqrt(T**2 - L**2 * N) / (40 * N * epsilon))


def test_the_servers_noise_has_the_scale_it_was_planned_with(see):
    method = Full(form="faithful", epsilon=0.5, exposures=1)
    scene = at(Scene(see, method), 1, 100)
    current = scene.current.clone()
    norm = broadcast(method, scene.seen, current, Key(0).at("noise", 1, "server"))
    moved = trainable(scene, current) - trainable(scene, scene.current)
    planned = method.downlink(scene.seen)
    assert np.linalg.norm(moved) == pytest.approx(norm) and planned > 0
    assert abs(moved.std() / planned - 1) < 5 / math.sqrt(2 * len(moved)) < 1 / 3
    assert broadcast(Full(), scene.seen, current, Key(0)) == 0 and broadcast(TimeVarying(form="faithful"), scene.seen, current, Key(0)) == 0


def test_time_varying_spends_exactly_its_moments_bound(see):
    method = TimeVarying(form="faithful", epsilon=3.0, delta=1e-3, ratio=0.97)
    scene, T, q = Scene(see, method, sizes=torch.tensor([100, 200, 400])), 60, 10 / 100
    delta = 2 * 0.1 * 20 / np.array([100, 200, 400])
    found = np.array([sigma(method, at(scene, t, T)) for t in range(1, T + 1)])
    first = delta / 3 * math.sqrt(2 * q * math.log(1e3) * (0.97 ** (-2 * T) - 1) / (0.97**-2 - 1))
    np.testing.assert_allclose(found, first * 0.97 ** np.arange(T)[:, None], rtol=1e-10)
    np.testing.assert_allclose((1 / found**2).sum(0), 9 / (2 * q * delta**2 * math.log(1e3)), rtol=1e-10)


def test_without_decay_time_varying_is_constant_noise(see):
    flat, almost = (TimeVarying(form="faithful", epsilon=3.0, delta=1e-3, ratio=r) for r in (1.0, 1 - 1e-9))
    wanted = 2 * 0.1 * 20 / 100 * math.sqrt(2 * 0.1 * 60 * math.log(1e3)) / 3
    for t in (1, 31, 60):
        np.testing.assert_allclose(sigma(flat, at(Scene(see, flat), t, 60)), wanted, rtol=1e-12)
        np.testing.assert_allclose(sigma(almost, at(Scene(see, almost), t, 60)), wanted, rtol=1e-6)


@pytest.mark.parametrize("q", [0.96, 0.98607, 1.0])
def test_dpa_is_the_best_split_of_its_budget(see, q):
    """v_t as printed; sum Delta^2/(2 v_t) = rho; and no other split of rho has a smaller error bound."""
    method, T = DPA(form="faithful", epsilon=4.0, delta=1e-4, contraction=q), 50
    delta, left = 2 * 0.1 * 20 / 100, np.arange(T)[::-1]
    rho = (math.sqrt(4 + math.log(1e4)) - math.sqrt(math.log(1e4))) ** 2
    scene = Scene(see, method)
    v = np.array([sigma(method, at(scene, t, T))[0] for t in range(1, T + 1)]) ** 2
    np.testing.assert_allclose(v, delta**2 / (2 * rho) * q ** (-left / 2) * (q ** (left / 2)).sum(), rtol=1e-9)
    assert (delta**2 / (2 * v)).sum() == pytest.approx(rho) and rho + 2 * math.sqrt(rho * math.log(1e4)) == pytest.approx(4)
    assert (np.diff(v) < 0).all() if q < 1 else np.allclose(v, T * delta**2 / (2 * rho))
    bound = lambda v: (q**left * v).sum()  # noqa: E731
    for seed in range(20):
        other = v * np.exp(np.random.default_rng(seed).normal(0, 0.1, T))
        other *= (delta**2 / (2 * other)).sum() / rho
        assert bound(other) > bound(v)


def test_dpas_last_variance_settles_as_rounds_are_added(see):
    method = DPA(form="faithful", contraction=0.96)
    last = [sigma(method, at(Scene(see, method), T, T))[0] ** 2 for T in (50, 400, 3200)]
    assert last[0] < last[1] < last[2] < 1.001 * last[1]


def test_noise_that_falls_to_nothing_is_refused(see):
    for method in (TimeVarying(ratio=0.1), DPA(contraction=1e-4)):
        with pytest.raises(Problem, match="after 400 rounds .* of its first noise left.*more slowly"):
            method.schedule(400)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("form", ["as-run", "faithful"])
def test_sensitive_estimates_from_both_histories(see, beta, form):
    method = Sensitive(beta=beta, form=form, reference=0.5, least=0.1, most=0.9, shortest=0.05)
    scene = Scene(see, method, later=True)
    kept = torch.tensor([[0.3], [0.8], [40.0]], dtype=torch.float64)
    step = np.linalg.norm(trainable(scene, scene.seen.previous) - trainable(scene, scene.seen.current))
    S = np.minimum(beta * kept[:, 0].numpy() + (1 - beta) * step, 0.1 * 20 * 5)
    wanted = AS_RUN * np.clip(S / 0.5, 0.1, 0.9) if form == "as-run" else 2 * np.maximum(S, 0.05) * C / 0.5
    np.testing.assert_allclose(sigma(method, scene, memory=kept), wanted, rtol=1e-10)
    plan = method.plan(scene.seen, scene.rows if beta else None, kept)
    if beta:
        lengths = [np.linalg.norm(trainable(scene, row) - trainable(scene, scene.current)) for row in scene.rows]
        np.testing.assert_allclose(plan.memory[:, 0].numpy(), lengths, rtol=1e-10)
    assert (plan.memory is None) == (beta == 0) and (plan.clip is None) == (form == "as-run")


def test_sensitive_begins_with_the_most_that_the_optimiser_allows(see):
    training = Training(momentum=0.8)
    weights = sum(len(e) for e in Scene(see, Full()).seen.layout.entries if e.trainable)
    for optimiser, most in {"sgd": 0.1 * 5 * 20, "momentum": 0.1 * 5 * 20 / 0.2, "adagrad": 0.1 * 5 * math.sqrt(weights), "adam": 0.1 * 5 * math.sqrt(weights)}.items():
        method = Sensitive(form="faithful", optimiser=optimiser)
        np.testing.assert_allclose(sigma(method, Scene(see, method, training=training)), 2 * most * C / 0.5)
        late = Scene(see, method, later=True, training=training, turns=torch.tensor([0, 2, 2]))  # a client's first turn, in a later round
        found = sigma(method, late)
        assert found[0] == pytest.approx(2 * most * C / 0.5) and found[1] < found[0]


def test_sensitive_shortens_the_update_to_its_estimate(see):
    method = Sensitive(form="faithful", beta=0.0)
    scene = Scene(see, method, later=True, size=0.5)
    bound = method.plan(scene.seen).clip[0, 0].item()
    quiet, uploads = scene.rows.clone(), scene.rows.clone()
    release(replace(method, epsilon=1e12), scene.seen, quiet, scene.keys())
    release(method, scene.seen, uploads, scene.keys())
    for k in range(3):
        update = trainable(scene, scene.rows[k]) - trainable(scene, scene.current)
        assert np.linalg.norm(update) > bound
        np.testing.assert_allclose(trainable(scene, quiet[k]) - trainable(scene, scene.current), update * bound / np.linalg.norm(update), atol=1e-8)
        assert (trainable(scene, uploads[k]) - trainable(scene, quiet[k])).std() == pytest.approx(2 * bound * C / 0.5, rel=0.05)


ADAP = Training(lr=0.05, decay=0.995, clip=35.0)


@pytest.fixture
def adaptive(see):
    """(method, scene) in round 3: the second client takes part for the first time."""

    def make(**options):
        method = AdapLDP(form="faithful", epsilon=10.0, delta=1e-5, **options)
        scene = Scene(see, method, later=True, training=ADAP, turns=torch.tensor([2, 0, 1]), sizes=torch.tensor([100, 150, 200]))
        scene.memory[:, 0] = torch.tensor([0.9, 77.0, -0.4])
        return method, scene

    return make


def test_adapldp_scales_by_the_distance_from_the_global_model(adaptive):
    method, scene = adaptive()
    lr = 0.05 * 0.995 ** (5 * np.array([3, 1, 2]))
    np.testing.assert_allclose(rate(scene.seen).numpy(), lr, rtol=1e-6)
    distance = np.array([np.linalg.norm(trainable(scene, row) - trainable(scene, scene.current)) for row in scene.rows])
    c = 0.6 * np.abs(np.array([0.9, 0.001, -0.4]) - 0.1) + 0.4 * distance / lr
    per_round = 10.0 / (10 / 100 * 10)
    wanted = np.sqrt(2 * np.log(1.25 / (1e-5 * c))) * 2 * lr * 35 / np.array([100, 150, 200]) / per_round
    np.testing.assert_allclose(sigma(method, scene), wanted, rtol=1e-6)
    np.testing.assert_allclose(method.plan(scene.seen, scene.rows, scene.memory).memory[:, 0].numpy(), c, rtol=1e-6)


def test_adapldp_begins_with_a_scaler_of_a_thousandth(see):
    method = AdapLDP(form="faithful", epsilon=10.0, delta=1e-5)
    scene = Scene(see, method, training=ADAP)
    lr = 0.05 * 0.995**5
    np.testing.assert_allclose(sigma(method, scene), math.sqrt(2 * math.log(1.25 / 1e-8)) * 2 * lr * 35 / 100 / (10.0 / 1.0), rtol=1e-6)


def test_adapldp_exchanges_scores(adaptive):
    method, scene = adaptive()
    memory = scene.memory.clone()
    shared = method.exchange(scene.seen, memory)
    c = scene.memory[:, 0].numpy()
    np.testing.assert_allclose(memory[:, 0].numpy(), (c - c.mean()) / (c.std() + 1e-5), rtol=1e-9)
    assert shared.shape == (1,) and abs(shared.item()) < 1e-9 and torch.equal(memory[:, 1:], scene.memory[:, 1:])


def turned(scene, uploads, k, rotate):
    """What the direction step makes of a client's noisy weights, tensor by tensor."""
    found = uploads[k].clone()
    for e in scene.seen.layout.entries:
        if e.trainable:
            w = uploads[k, e.start : e.stop].numpy()
            a, b = w - scene.memory[k, 2 + e.start : 2 + e.stop].numpy(), (scene.seen.current - scene.seen.previous)[e.start : e.stop].numpy()
            angle = np.arccos(a * b / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-4))
            found[e.start : e.stop] = torch.from_numpy(w * (1 + 0.02 * np.cos(np.degrees(angle) if rotate == "released" else angle)))
    return found


@pytest.mark.parametrize("rotate", ["released", "intended"])
def test_adapldp_turns_what_is_noisy_already_by_what_is_public(adaptive, rotate):
    method, scene = adaptive(rotate=rotate)
    noisy = scene.rows.clone()
    uploads, memory = noisy.clone(), scene.memory.clone()
    method.finish(scene.seen, uploads, memory)
    for k in (0, 2):
        torch.testing.assert_close(uploads[k], turned(scene, noisy, k, rotate))
    assert torch.equal(uploads[1], noisy[1]) and torch.equal(memory[:, 2:], uploads)


@pytest.mark.parametrize("rotate, factor", [("released", 0.99104), ("intended", 1.0)])
def test_in_a_large_tensor_the_released_step_shrinks_every_weight_by_nine_thousandths(adaptive, rotate, factor):
    """Cosines near 0 are angles near 90 degrees, and cos(90 rad) is -.448."""
    method, scene = adaptive(rotate=rotate)
    large = max(scene.seen.layout.entries, key=len)
    uploads = scene.rows.clone()
    method.finish(scene.seen, uploads, scene.memory.clone())
    ratio = (uploads / scene.rows)[0, large.start : large.stop]
    assert len(large) > 8000 and ratio.median().item() == pytest.approx(factor, abs=1e-5) and 1 + 0.02 * math.cos(90) == pytest.approx(0.99104, abs=1e-5)


def test_adapldp_refuses_a_scaler_that_leaves_its_logarithm_without_a_root(see):
    method = AdapLDP(form="faithful", delta=0.02)
    scene = Scene(see, method, later=True, size=1.0)
    with pytest.raises(Problem, match="client 40, round 3: its scaler is .* take a smaller delta than 0.02"):
        method.plan(scene.seen, scene.rows, scene.memory)


@pytest.mark.parametrize("make, words", [
    (lambda: Full(norm_bound=0.0), "norm_bound must be positive, got 0"), (lambda: Full(exposures=-1), "exposures must not be negative, got -1"), (lambda: Full(form="faithfull"), "did you mean 'faithful'"),
    (lambda: TimeVarying(ratio=1.1), "ratio .* got 1.1"), (lambda: DPA(contraction=0.0), "contraction .* got 0"), (lambda: Sensitive(beta=1.5), "beta .* got 1.5"),
    (lambda: Sensitive(least=2.0), "least .* 2.0"), (lambda: Sensitive(optimiser="adm"), "did you mean 'adam'"), (lambda: AdapLDP(rotate="degrees"), "unknown rotation 'degrees'"),
    (lambda: AdapLDP(scaler=100.0), "scaler .* got 100"),
])  # fmt: skip
def test_a_wrong_option_is_refused_with_its_value(make, words):
    with pytest.raises(Problem, match=words):
        make()
