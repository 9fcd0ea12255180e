import random
from math import exp, inf, log, nan, pi, sqrt

import dp_accounting
import mpmath
import pytest
from dp_accounting.pld import privacy_loss_mechanism

from ladp.errors import Problem
from ladp.privacy.gaussian import BRANCH, RULES, constant, delta_of, epsilon_of, sigma_of


def true_delta(epsilon, sigma):
    with mpmath.workdps(50):
        epsilon, sigma = mpmath.mpf(epsilon), mpmath.mpf(sigma)
        below = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
        return below(1 / (2 * sigma) - epsilon * sigma) - mpmath.exp(epsilon) * below(-1 / (2 * sigma) - epsilon * sigma)


def releases(count, seed=0):
    """Pairs (epsilon, sigma) that spread the argument of the first tail from +40 to -35, at every size of sigma."""
    draw = random.Random(seed)
    while count:
        sigma = 10 ** draw.uniform(-4, 4)
        epsilon = (0.5 / sigma - draw.uniform(-35, 40)) / sigma
        if epsilon > 0:
            count -= 1
            yield epsilon, sigma


@pytest.mark.parametrize("rule, epsilon, delta, sigma", [
    ("exact", 0.5, 0.02, 2.672), ("exact", 0.2, 0.02, 4.852), ("exact", 0.5, 1e-5, 7.032), ("exact", 1, 1e-5, 3.731),
    ("classical", 0.5, 0.02, 5.752), ("classical", 0.2, 0.02, 14.379),
    ("paper", 0.5, 0.02, 3.044), ("paper", 0.2, 0.02, 7.138),
])
def test_each_rule_gives_its_published_sigma(rule, epsilon, delta, sigma):
    assert sigma_of(epsilon, delta, rule) == pytest.approx(sigma, abs=6e-4)


@pytest.mark.parametrize("epsilon, delta, true", [
    (0.5, 0.02, 0.0116), (0.5, 0.005, 0.0061), (0.5, 0.001, 0.0031), (0.5, 1e-5, 5.6e-4),
    (0.2, 0.001, 0.00136), (0.2, 1e-5, 2.4e-4), (2, 0.02, 0.0295),
])
def test_the_paper_rule_gives_the_delta_found_for_it(epsilon, delta, true):
    assert delta_of(epsilon, sigma_of(epsilon, delta, "paper")) == pytest.approx(true, rel=0.02)


def test_the_paper_rule_breaks_its_promise_for_small_delta_and_keeps_it_for_large():
    assert delta_of(0.5, sigma_of(0.5, 1e-5, "paper")) > 50 * 1e-5
    assert delta_of(0.5, sigma_of(0.5, 0.001, "paper")) > 3 * 0.001
    assert delta_of(0.5, sigma_of(0.5, 0.02, "paper")) < 0.02


@pytest.mark.parametrize("epsilon, value", [(0.2, 1.4277), (0.5, 1.5219)])
def test_the_paper_constant_is_the_theorem_without_its_bound(epsilon, value):
    assert constant(epsilon, 0.02, "paper") == pytest.approx(value, abs=5e-5)


def test_the_two_cases_of_the_paper_constant_meet_where_the_theorem_parts_them():
    assert BRANCH == pytest.approx(sqrt(2 / (pi * exp(4))))
    below, above = (constant(0.7, BRANCH * (1 + step), "paper") for step in (-1e-9, 1e-9))
    assert below == pytest.approx(above, rel=1e-8)
    assert constant(0.7, 0.5, "paper") == constant(0.7, 0.9, "paper") == pytest.approx((1 + sqrt(2.4)) / 2)


def test_the_classical_constant_does_not_depend_on_epsilon():
    assert constant(0.3, 0.02, "classical") == pytest.approx(sqrt(2 * log(62.5))) == pytest.approx(2.8758, abs=5e-5)


def test_delta_agrees_with_fifty_digits():
    for epsilon, sigma in releases(400):
        true = true_delta(epsilon, sigma)
        if true > 1e-290:
            assert delta_of(epsilon, sigma) == pytest.approx(float(true), rel=1e-9), (epsilon, sigma)


@pytest.mark.parametrize("epsilon, sigma, delta", [
    (1000, 1e-3, 1), (1000, 10, 0), (1e-12, 1e-300, 1), (1e-300, 0.5, 0.6826894921370859), (1e308, 1e300, 0), (1e-5, 1e-320, 1), (700, 1e-1, 0),
])
def test_delta_stays_in_range_at_the_extremes(epsilon, sigma, delta):
    assert delta_of(epsilon, sigma) == pytest.approx(delta, abs=1e-15)


def test_delta_stays_between_none_and_certainty():
    assert all(0 <= delta_of(epsilon, sigma) <= 1 for epsilon, sigma in releases(2000, seed=1))


def test_delta_agrees_with_an_independent_accountant():
    for epsilon, sigma in ((0.2, 14.4), (0.5, 3.0), (1.0, 3.73), (5.0, 0.5), (20.0, 0.2)):
        loss = privacy_loss_mechanism.GaussianPrivacyLoss(sigma)
        assert delta_of(epsilon, sigma) == pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-9)


def test_epsilon_agrees_with_an_independent_accountant():
    for sigma, delta in ((0.3, 1e-5), (1.0, 1e-5), (5.0, 1e-6), (14.4, 1e-3)):
        assert epsilon_of(sigma, delta) == pytest.approx(dp_accounting.get_epsilon_gaussian(sigma, delta), rel=1e-6)


def test_sigma_agrees_with_an_independent_accountant():
    for epsilon, delta in ((0.2, 0.02), (1.0, 1e-5), (8.0, 1e-6)):
        assert sigma_of(epsilon, delta) == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-6)


def test_gaussians_composed_are_one_gaussian_of_the_combined_multiplier():
    assert epsilon_of(5 / sqrt(40), 1e-5) == pytest.approx(5.759, abs=6e-4)
    assert epsilon_of(1 / sqrt(40 * (1 / 4 + 1 / 9 + 1 / 64)), 1e-5) == pytest.approx(23.419, abs=6e-4)


def test_the_exact_rule_keeps_delta_and_wastes_nothing():
    draw = random.Random(2)
    for _ in range(300):
        epsilon, delta = 10 ** draw.uniform(-3, 3), 10 ** draw.uniform(-30, -0.001)
        sigma = sigma_of(epsilon, delta)
        assert delta_of(epsilon, sigma) <= delta < delta_of(epsilon, sigma * (1 - 1e-9)), (epsilon, delta)


def test_epsilon_undoes_sigma():
    draw = random.Random(3)
    for _ in range(300):
        epsilon, delta = 10 ** draw.uniform(-3, 3), 10 ** draw.uniform(-30, -0.001)
        assert epsilon_of(sigma_of(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-8), (epsilon, delta)


def test_epsilon_is_zero_where_delta_covers_the_whole_difference_and_infinite_without_noise_to_speak_of():
    assert epsilon_of(1000, 0.02) == 0
    assert epsilon_of(1e-200, 0.02) == inf


def test_delta_falls_as_epsilon_or_sigma_grows():
    grid = [10 ** (i / 4) for i in range(-8, 9)]
    for fixed in (0.1, 0.7, 3.0):
        for deltas in ([delta_of(e, fixed) for e in grid], [delta_of(fixed, s) for s in grid]):
            assert all(later < earlier or later == earlier in (0, 1) for earlier, later in zip(deltas, deltas[1:]))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_asks_for_less_noise_as_epsilon_or_delta_grows(rule):
    steps = [0.01 * 1.5**i for i in range(15)]
    for sigmas in ([sigma_of(e, 0.02, rule) for e in steps], [sigma_of(0.5, d, rule) for d in steps if d < BRANCH]):
        assert sigmas == sorted(sigmas, reverse=True) and len(set(sigmas)) == len(sigmas)


def test_the_classical_rule_is_sound_below_one_and_fails_far_above():
    assert all(delta_of(e, sigma_of(e, d, "classical")) <= d for e in (0.01, 0.5, 0.99) for d in (1e-9, 0.02, 0.5))
    assert delta_of(1000, sigma_of(1000, 0.02, "classical")) > 0.9


@pytest.mark.parametrize("epsilon", [0, -1, inf, nan])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon):
    with pytest.raises(Problem, match=f"epsilon must be positive and finite, got {epsilon}"):
        sigma_of(epsilon, 0.02)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, nan])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(Problem, match=f"delta must lie strictly between 0 and 1, got {delta}"):
        epsilon_of(1, delta)


@pytest.mark.parametrize("sigma", [0, -1, inf, nan])
def test_a_sigma_that_is_no_noise_is_refused(sigma):
    with pytest.raises(Problem, match=f"sigma must be positive and finite, got {sigma}"):
        delta_of(1, sigma)


def test_an_unknown_rule_suggests_the_nearest():
    with pytest.raises(Problem, match="did you mean 'classical'"):
        sigma_of(1, 0.02, "clasical")
