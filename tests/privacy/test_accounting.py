import random
import sys
from itertools import combinations
from math import comb, exp, inf, log1p, nan, pi, sqrt
from time import process_time

import dp_accounting
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from ladp.errors import Problem
from ladp.privacy import gaussian, renyi
from ladp.privacy.accounting import EXACT, LOSSES, RENYI, Bound, Charge, cross_check, delta, epsilon, expected, shared, turn

GRID = 2e-3  # what the grid of losses may add to epsilon, relatively


def peers(z, rounds):
    return [charge for _ in range(rounds) for charge in turn("record", "peer", z / sqrt(99), rate=0.1, active=100)]


@pytest.mark.parametrize("charges, at, known", [
    ([Charge(5, times=40)], 1e-5, 5.759),
    ([Charge(2, times=40), Charge(3, times=40), Charge(8, times=40)], 1e-5, 23.419),
])
def test_gaussians_of_all_records_compose_exactly(charges, at, known):
    found = epsilon(charges, at)
    assert found.epsilon == pytest.approx(known, abs=6e-4) and (found.delta, found.accountant) == (at, EXACT)


def test_renyi_divergences_cost_more_for_the_same():
    assert cross_check([Charge(5, times=40)], 1e-5) == Bound(pytest.approx(6.208, abs=6e-4), 1e-5, RENYI)


@pytest.mark.parametrize("z, known", [(1, 19.6), (1.5, 9.71), (2, 6.36), (3, 3.72)])
def test_the_server_view_costs_what_was_found_for_it(z, known):
    found = epsilon([Charge(z, 0.1, 800)], 1e-4)
    assert found.epsilon == pytest.approx(known, rel=2e-3) and found.accountant == LOSSES


@pytest.mark.parametrize("z, known", [(1.5, 7.4), (2.1, 4.6), (3, 2.9), (4.5, 1.8)])
def test_the_peer_view_costs_what_was_found_for_it(z, known):
    assert epsilon(peers(z, 400), 1e-5).epsilon == pytest.approx(known, abs=0.05)


@pytest.mark.parametrize("z, rate, times", [(1, 0.1, 800), (3, 0.1, 50), (0.7, 0.01, 500), (20, 0.5, 1000)])
def test_sampled_records_cost_what_an_independent_accountant_says(z, rate, times):
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z)), times)
    found = epsilon([Charge(z, rate, times)], 1e-5).epsilon
    assert accountant.get_epsilon(1e-5) * (1 - 1e-4) <= found <= accountant.get_epsilon(1e-5) * (1 + GRID)


def loss(x, z, rate):
    return log1p(rate * (exp((2 * x - 1) / (2 * z * z)) - 1))


def density(x, z, rate):
    """Of a release whose record is drawn at `rate`; of one without it at rate 0."""
    return (rate * exp(-((x - 1) ** 2) / (2 * z * z)) + (1 - rate) * exp(-x * x / (2 * z * z))) / (z * sqrt(2 * pi))


def one_release(epsilon, z, rate):
    """The larger of both directions of the integral of [P - e^epsilon Q]_+, without any accountant."""
    inside = lambda p, q: quad(lambda x: max(0.0, density(x, z, p) - exp(epsilon) * density(x, z, q)), -12 * z, 1 + 12 * z, limit=500, points=(0.5,))[0]  # noqa: E731
    return max(inside(rate, 0), inside(0, rate))


def two_releases(epsilon, z, rate):
    """A record removed: E delta_1(epsilon - loss), where delta_1 is known on the whole line."""

    def after(left):
        crossing = z * z * log1p((exp(left) - 1) / rate) + 0.5 if exp(left) > 1 - rate else -inf
        return rate * ndtr((1 - crossing) / z) + (1 - rate) * ndtr(-crossing / z) - exp(left) * ndtr(-crossing / z)

    return quad(lambda x: density(x, z, rate) * after(epsilon - loss(x, z, rate)), -12 * z, 1 + 12 * z, limit=500, points=(0.5,))[0]


@pytest.mark.parametrize("z, rate", [(1, 0.1), (0.5, 0.01), (3, 0.5), (2, 0.9)])
def test_releases_of_sampled_records_agree_with_integration(z, rate):
    for share in (0.3, 0.8):
        budget = share * epsilon([Charge(z, rate, 2)], 1e-5).epsilon
        for times, true in ((1, one_release(budget, z, rate)), (2, two_releases(budget, z, rate))):
            assert true * (1 - 1e-6) <= delta([Charge(z, rate, times)], budget) <= true * 1.03 + 1e-12


def test_delta_and_epsilon_undo_one_another():
    for charges in ([Charge(5, times=40)], [Charge(1, 0.1, 800)], [Charge(2, 0.1, 30), Charge(8, 1, 10)]):
        assert delta(charges, epsilon(charges, 1e-5).epsilon) == pytest.approx(1e-5, rel=0.02)
    assert delta([Charge(2, times=3)], 0.7) == pytest.approx(gaussian.delta_of(0.7, 2 / sqrt(3)), rel=1e-9)


def test_what_is_released_without_noise_to_speak_of_or_not_at_all_costs_that():
    assert epsilon([], 1e-5).epsilon == delta([], 0) == epsilon([Charge(1, 0.0, 9), Charge(inf), Charge(1, 1, 0)], 1e-5).epsilon == 0
    assert epsilon([Charge(1e-200)], 1e-5).epsilon == inf


def test_order_and_spelling_of_charges_do_not_matter():
    charges = [Charge(2, 0.1, 3), Charge(5), Charge(2, 0.1), Charge(7, 0.3, 2)]
    assert epsilon(charges, 1e-5) == epsilon([Charge(7, 0.3, 2), Charge(2, 0.1, 4), Charge(5.0, 1, 1)], 1e-5)


def test_cost_grows_with_rate_and_releases_and_falls_with_noise_and_delta():
    cost = lambda z=2.0, rate=0.1, times=100, at=1e-5: epsilon([Charge(z, rate, times)], at).epsilon  # noqa: E731
    for costs in (
        [cost(rate=rate) for rate in (0.001, 0.01, 0.1, 0.5, 0.99, 1)], [cost(times=times) for times in (1, 10, 100, 1000, 10000, 100000)],
        [cost(z=z) for z in (100, 10, 3, 1, 0.3, 0.1)], [cost(at=at) for at in (0.1, 1e-3, 1e-5, 1e-7, 1e-9)],
    ):  # fmt: skip
        assert all(0 <= earlier < later for earlier, later in zip(costs, costs[1:])), costs


def test_more_kinds_of_releases_than_a_grid_is_made_for_are_merged_to_the_safe_side():
    charges = [Charge(2 + i / 40, 0.1) for i in range(0, 40, 2)]
    found = epsilon(charges, 1e-5).epsilon
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
    for charge in charges:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(charge.multiplier)))
    assert accountant.get_epsilon(1e-5) * 0.999 <= found <= accountant.get_epsilon(1e-5) * 1.05


@pytest.mark.parametrize("z, rate, times", [(1, 0.1, 800), (3, 0.1, 800), (0.5, 0.1, 100), (10, 0.01, 10000)])
def test_renyi_divergences_agree_with_an_independent_accountant(z, rate, times):
    orders = [2, 3, 5, 8, 16, 64]
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(z)), times)
    mine = dict(zip(renyi.ORDERS, renyi.composed([(z, rate, times)], 1, 1.0)))
    assert [mine[order] for order in orders] == pytest.approx(list(accountant._rdp), rel=1e-6)


def test_renyi_divergences_between_whole_orders_agree_with_integration():
    z, rate = 1.0, 0.1
    for order, value in list(zip(renyi.ORDERS, renyi.divergence(z, rate)))[20:70:7]:
        moment = quad(lambda x: density(x, z, 0) * exp(order * loss(x, z, rate)), -12, 25, limit=500)[0]
        true = log1p(moment - 1) / (order - 1)
        assert true * (1 - 1e-6) <= value <= true * (1 + 1e-4)


def test_no_accountant_falls_below_another_that_is_exact():
    draw = random.Random(0)
    for _ in range(15):
        z, times = 10 ** draw.uniform(0, 2), draw.choice([1, 30, 1000])
        exact = epsilon([Charge(z, 1, times)], 1e-5).epsilon
        assert epsilon([Charge(z, 1 - 1e-12, times)], 1e-5).epsilon >= exact * (1 - 1e-9) and cross_check([Charge(z, 1, times)], 1e-5).epsilon >= exact


@pytest.mark.parametrize("times, at", [(1, 1e-12), (1, 1e-5), (10**6, 1e-12), (10**6, 1e-5), (10**6, 0.1), (10**9, 1e-5)])
def test_extreme_inputs_are_answered_in_time(times, at):
    for z in (1e-200, 0.01, 1.0, 1e6, 1e200):
        for rate in (1e-9, 1e-4, 0.9):
            begun = process_time()
            found = epsilon([Charge(z, rate, times)], at).epsilon
            assert found >= 0 and process_time() - begun < 2, (z, rate)


def test_a_record_that_is_hardly_ever_drawn_costs_nothing_and_one_that_is_drawn_costs_at_least_its_releases():
    assert epsilon([Charge(1e-6, 1e-9, 400)], 1e-5).epsilon == 0
    assert epsilon([Charge(0.01, 0.5, 400)], 1e-5).epsilon >= epsilon([Charge(0.01, 1, 200)], 1e-5).epsilon


def test_where_participations_are_certain_they_are_charged():
    assert expected([Charge(3, 0.1, 8)], 50, 1.0, 1e-5) == epsilon([Charge(3, 0.1, 400)], 1e-5)
    assert expected([Charge(3, 0.1)], 0, 0.5, 1e-5).epsilon == expected([Charge(3, 0.1)], 5, 0.0, 1e-5).epsilon == 0


@pytest.mark.parametrize("charge", [Charge(2), Charge(1.0, 0.2, 3), Charge(4, 0.5)])
def test_drawn_participations_cost_the_mean_of_delta(charge):
    rounds, chance, at = 6, 0.3, 1e-5
    found = expected([charge], rounds, chance, at).epsilon
    numbers = [(n, comb(rounds, n) * chance**n * (1 - chance) ** (rounds - n)) for n in range(1, rounds + 1)]
    mean = sum(share * delta([Charge(charge.multiplier, charge.rate, charge.times * n)], found) for n, share in numbers)
    assert at * 0.97 < mean < at * 1.003
    assert expected([charge], rounds, chance, at).epsilon < epsilon([Charge(charge.multiplier, charge.rate, charge.times * rounds)], at).epsilon


def test_drawing_few_clients_does_not_amplify():
    mean = epsilon([Charge(3, 0.1, 8 * 40)], 1e-5).epsilon
    assert expected([Charge(3, 0.1, 8)], 400, 0.1, 1e-5).epsilon > mean > epsilon([Charge(3, 0.01, 8 * 400)], 1e-5).epsilon


def test_the_mean_over_many_participations_is_bounded_by_renyi_divergences_too():
    for charge in (Charge(3, 0.1, 8), Charge(20)):
        found = expected([charge], 1000, 0.1, 1e-5)
        assert found.epsilon < cross_check([charge], 1e-5, 1000, 0.1).epsilon < 1.3 * found.epsilon


def test_each_view_and_unit_is_charged_by_its_rule():
    assert turn("record", "server", 2, rate=0.1, steps=5, active=10) == (Charge(2, 0.1, 5),)
    assert turn("record", "peer", 2, rate=0.1, steps=5, active=10) == (Charge(2, 0.1, 4), Charge(6, 0.1))
    assert turn("record", "peer", 2, rate=0.1, active=12, colluders=3) == (Charge(6, 0.1),)
    assert turn("client", "server", 2, rate=0.1, steps=5, active=10) == (Charge(1),)
    assert turn("client", "peer", 2, active=10) == (Charge(3),)


def test_the_gain_is_that_of_the_client_and_the_colluders_that_leave_least():
    draw = random.Random(1)
    for _ in range(40):
        active = draw.randint(2, 6)
        weights, colluders = [draw.uniform(0.1, 3) for _ in range(active)], draw.randint(0, active - 1)
        worst = min(
            sqrt(sum(weights[k] ** 2 for k in range(active) if k not in gone)) / weights[i]
            for gone in combinations(range(active), colluders) for i in range(active) if i not in gone
        )  # fmt: skip
        assert shared(active, colluders, weights) == pytest.approx(worst)
    assert shared(100, 1, [0.01] * 100) == pytest.approx(shared(100, 1)) == pytest.approx(sqrt(99))


@pytest.mark.parametrize("attempt, complaint", [
    (lambda: epsilon([Charge(0)], 1e-5), "a noise multiplier must be positive, got 0"), (lambda: Charge(nan), "must be positive, or 0 for no noise, got nan"),
    (lambda: Charge(1, 1.5), "rate of records must lie between 0 and 1, got 1.5"), (lambda: Charge(1, times=-1), "times must be a whole number, 0 or more, got -1"),
    (lambda: epsilon([Charge(1)], 0), "delta must lie strictly between 0 and 1, got 0"), (lambda: delta([Charge(1)], -1), "epsilon must not be negative, got -1"),
    (lambda: epsilon([Charge(1, 0.1, 10**10)], 1e-5), "10,000,000,000 releases are more than"),
    (lambda: expected([Charge(1)], 2, 1.5, 1e-5), "chance of taking part must lie between 0 and 1, got 1.5"),
    (lambda: expected([Charge(1)], 2.5, 0.5, 1e-5), "rounds must be a whole number, 0 or more, got 2.5"),
    (lambda: turn("record", "peer", 1, active=3, colluders=3), "3 colluders in a cohort of 3: no noise but their own is left"),
    (lambda: turn("record", "peer", 1, active=3, weights=[1, 2]), "one for each of 3 active clients, got 2"),
    (lambda: turn("record", "server", 1, active=3, steps=0), "steps of a participation must be at least 1, got 0"),
    (lambda: turn("recrd", "server", 1, active=3), "did you mean 'record'"), (lambda: turn("record", "pear", 1, active=3), "did you mean 'peer'"),
])  # fmt: skip
def test_inputs_out_of_range_are_named(attempt, complaint):
    with pytest.raises(Problem, match=complaint):
        attempt()


def test_without_the_library_it_says_what_to_install_and_exact_answers_need_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    assert epsilon([Charge(5.125, times=40)], 1e-5).accountant == EXACT
    with pytest.raises(Problem, match="pip install dp-accounting"):
        epsilon([Charge(1.0625, 0.125, 77)], 1e-5)
