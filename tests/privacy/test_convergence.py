import random
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from ladp.errors import Problem
from ladp.privacy.convergence import Convergence, noise_bound

LUCKY = Convergence(smoothness=0.5, mu=2.0, clip=20.0, layers=4, noise=0.01, lr=0.001)


def test_the_symbols_are_those_of_the_theorem():
    L, mu, G, J, N, eta = 0.5, 2.0, 20.0, 4, 0.01, 0.001
    assert LUCKY.psi == pytest.approx(2 * J * N - eta * G)
    assert LUCKY.phi == pytest.approx(L * eta**2 / 2 * G**2 + 2 * L * J**2 * N**2)
    assert LUCKY.rate == pytest.approx((L + LUCKY.psi * mu * L) / mu)
    assert LUCKY.interval == pytest.approx((2 * J * N / G - (mu - L) / (L * G * mu), 2 * J * N / G))


@pytest.mark.parametrize("rounds", [0, 1, 2, 7, 400])
def test_the_bound_is_the_recursion_summed(rounds):
    gap = 3.0
    for _ in range(rounds):
        gap = LUCKY.rate * gap + (LUCKY.psi + 2 * LUCKY.phi) / 2
    assert LUCKY.bound(rounds, 3.0) == pytest.approx(gap)


def test_the_bound_settles_above_zero_however_long_one_trains():
    floor = (LUCKY.psi + 2 * LUCKY.phi) / 2 / (1 - LUCKY.rate)
    assert LUCKY.bound(10_000, 3.0) == pytest.approx(floor) and floor > 0


def test_the_lower_end_for_eta_is_where_the_rate_reaches_one():
    draw = random.Random(0)
    for _ in range(200):
        theorem = Convergence(*(10 ** draw.uniform(-2, 2) for _ in range(3)), draw.randint(1, 60), draw.random(), 10 ** draw.uniform(-3, 1))
        lower, upper = theorem.interval
        assert (theorem.lr > lower) == (theorem.rate < 1)
        assert (theorem.lr < upper) == (theorem.psi > 0)


def test_conditions_are_reported_one_by_one_with_their_numbers():
    verdicts = {condition.name: condition for condition in replace(LUCKY, lr=0.1).conditions()}
    assert [c.holds for c in verdicts.values()] == [True, False, True, False]
    assert "eta = 0.1" in verdicts["eta < 2 J N_c / G_c"].numbers and "0.004" in verdicts["eta < 2 J N_c / G_c"].numbers
    assert LUCKY.holds and not replace(LUCKY, lr=0.1).holds


def test_eta_outside_its_interval_is_refused_with_the_interval():
    with pytest.raises(Problem, match="must lie between 0 and 0.004, got 0.1"):
        replace(LUCKY, lr=0.1).bound(10, 1.0)


def test_no_eta_can_satisfy_the_theorem_unless_mu_exceeds_L():
    draw = random.Random(1)
    for _ in range(200):
        L = 10 ** draw.uniform(-3, 3)
        theorem = Convergence(L, L * draw.uniform(0.01, 1), 20.0, 62, draw.uniform(0, 300), 10 ** draw.uniform(-4, 4))
        assert theorem.interval[0] >= theorem.interval[1]
        assert not theorem.holds and "cannot hold here" in theorem.refusal


def test_a_real_loss_never_gets_a_bound():
    # The best L and mu of a least-squares loss, over the directions it depends on: its largest and smallest curvature.
    for seed in range(20):
        A = np.random.default_rng(seed).normal(size=(30, 5))
        curvature = np.linalg.eigvalsh(A.T @ A)
        with pytest.raises(Problem, match="the condition on eta cannot hold here: mu = .* does not exceed L"):
            Convergence(curvature[-1], curvature[0], 20.0, 2, 0.01, 0.001).bound(400, 1.0)


def test_the_settings_of_the_paper_would_need_an_almost_linear_loss():
    as_run = Convergence(1.0, 2.0, 20.0, 62, noise_bound(0.1438, 2_359_296, 0.95), 0.1)
    assert as_run.interval[1] == pytest.approx(1369.5, rel=2e-3)
    assert as_run.smoothest == pytest.approx(3.65e-5, rel=2e-3)
    assert replace(as_run, smoothness=as_run.smoothest * 0.99, mu=1e9).holds
    assert not replace(as_run, smoothness=as_run.smoothest * 1.01, mu=1e9).holds


def test_without_noise_every_positive_eta_is_too_large():
    assert not replace(LUCKY, noise=0.0).holds and replace(LUCKY, noise=0.0).smoothest == inf


@pytest.mark.parametrize("name", ["smoothness", "mu", "clip", "layers", "noise", "lr"])
@pytest.mark.parametrize("value", [-1.0, inf, nan])
def test_constants_out_of_range_are_named(name, value):
    with pytest.raises(Problem, match=f"{name} must be positive and finite, got {value}"):
        replace(LUCKY, **{name: value})


def test_rounds_and_gap_out_of_range_are_refused():
    for rounds, gap in ((-1, 1.0), (1, -1.0), (1, inf), (1, nan)):
        with pytest.raises(Problem, match="rounds and gap"):
            LUCKY.bound(rounds, gap)


def test_the_noise_bound_holds_as_often_as_it_says():
    draws = np.linalg.norm(np.random.default_rng(0).normal(0, 0.3, (20_000, 50)), axis=1)
    for probability in (0.05, 0.5, 0.95):
        assert (draws <= noise_bound(0.3, 50, probability)).mean() == pytest.approx(probability, abs=0.012)


def test_the_noise_bound_over_many_draws_holds_for_all_of_them_at_once():
    draws = np.linalg.norm(np.random.default_rng(1).normal(0, 1, (4_000, 40, 5)), axis=2).max(1)
    assert (draws <= noise_bound(1, 5, 0.9, draws=40)).mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("probability", [0, 1, -1, 1.5, nan])
def test_no_bound_on_gaussian_noise_is_certain(probability):
    with pytest.raises(Problem, match="no bound on Gaussian noise is certain"):
        noise_bound(1, 10, probability)


def test_a_noise_bound_needs_noise_and_numbers_to_add_it_to():
    for sigma, size, draws in ((-1, 10, 1), (inf, 10, 1), (1, 0, 1), (1, 10, 0)):
        with pytest.raises(Problem, match="sigma must not be negative"):
            noise_bound(sigma, size, 0.9, draws)
