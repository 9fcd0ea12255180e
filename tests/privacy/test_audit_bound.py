"""What guesses refute: held against every mechanism there is (small cases, by linear programming), against those whose epsilon is known, and against the binomial itself."""

from dataclasses import astuple
from itertools import product
from math import exp, log

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.special import expit
from scipy.stats import binom

from ladp.errors import Problem
from ladp.privacy.audit import judge, p_value, refuted
from ladp.privacy.gaussian import epsilon_of


class Worst:
    """The (epsilon, delta) mechanism that lets most be guessed: canaries with `messages` each, exactly r guesses, at least v right."""

    def __init__(self, m, r, v, epsilon, delta, messages=2):
        self.inputs = list(product(range(messages), repeat=m))
        self.outputs = [o for o in product([None, *range(messages)], repeat=m) if sum(x is not None for x in o) == r]
        self.wins = np.array([[sum(x == y for x, y in zip(s, t)) >= v for t in self.outputs] for s in self.inputs], float)
        self.pairs = [(a, b) for a, s in enumerate(self.inputs) for b, t in enumerate(self.inputs) if sum(x != y for x, y in zip(s, t)) == 1]
        shape, over = self.wins.shape, len(self.pairs) * len(self.outputs)
        size = self.wins.size + over
        rows, limits = lil_matrix((over + len(self.pairs), size)), np.zeros(over + len(self.pairs))
        for e, (a, b) in enumerate(self.pairs):  # excess >= P_a - e^epsilon P_b, and the excesses of a pair add up to delta at most
            for o in range(shape[1]):
                k = e * shape[1] + o
                rows[k, a * shape[1] + o], rows[k, b * shape[1] + o], rows[k, self.wins.size + k], rows[over + e, self.wins.size + k] = 1, -exp(epsilon), -1, 1
            limits[over + e] = delta
        whole = lil_matrix((shape[0], size))
        for a in range(shape[0]):
            whole[a, a * shape[1] : (a + 1) * shape[1]] = 1
        cost = np.concatenate([-self.wins.ravel() / shape[0], np.zeros(over)])
        found = linprog(cost, rows.tocsr(), limits, whole.tocsr(), np.ones(shape[0]), (0, None), method="highs")
        self.chances = found.x[: self.wins.size].reshape(shape)
        self.success, self.epsilon = -found.fun, epsilon

    def true_delta(self):
        return max(np.maximum(self.chances[a] - exp(self.epsilon) * self.chances[b], 0).sum() for a, b in self.pairs)


CASES = [(1, 1, 1, 1), (2, 2, 2, 1), (2, 2, 1, 1), (2, 1, 1, 1), (3, 3, 2, 1), (3, 2, 2, 1), (3, 1, 1, 1), (4, 4, 3, 1), (1, 1, 1, 2), (2, 2, 2, 2), (2, 1, 1, 2)]


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
@pytest.mark.parametrize("m, r, v, bits", CASES)
def test_no_mechanism_at_all_lets_more_be_guessed_than_the_bound(m, r, v, bits, delta):
    for epsilon in (0.3, 2.0):
        worst, bound = Worst(m, r, v, epsilon, delta, 2**bits), p_value(epsilon, delta, m, r, v, bits)
        assert worst.success <= bound + 1e-8
        if delta == 0 or r == 1 == v:
            assert worst.success == pytest.approx(bound, abs=1e-7)  # and with delta = 0, or one guess, no less: the bound cannot be improved


def test_the_second_term_that_is_in_use_elsewhere_is_passed_by_a_mechanism_that_can_be_written_down():
    """2 m delta max_i P[v > W >= v - i]/i: here two canaries, one right guess of two."""
    m, r, v, epsilon, delta = 2, 2, 1, 1.0, 0.01
    worst, p = Worst(m, r, v, epsilon, delta), expit(epsilon)
    elsewhere = binom.sf(v - 1, r, p) + 2 * m * delta * max((binom.sf(v - 1 - i, r, p) - binom.sf(v - 1, r, p)) / i for i in range(1, m + 1))
    assert worst.true_delta() <= delta * (1 + 1e-9) and (worst.chances * worst.wins).sum() / 4 == pytest.approx(worst.success)
    assert elsewhere + 4e-4 < worst.success <= p_value(epsilon, delta, m, r, v)


def test_without_delta_it_is_the_binomial_tail_counted_out():
    p = expit(0.7)
    outcomes = [(sum(hits), np.prod([p if hit else 1 - p for hit in hits])) for hits in product((0, 1), repeat=6)]
    for v in range(7):
        assert p_value(0.7, 0.0, 50, 6, v) == pytest.approx(sum(chance for hits, chance in outcomes if hits >= v))


def test_what_is_returned_is_the_last_epsilon_that_is_refuted():
    for delta, m, r, v, bits in [(0.0, 100, 40, 36, 1), (1e-5, 500, 125, 120, 1), (1e-3, 20, 20, 20, 1), (0.02, 1, 1, 1, 300), (1e-4, 30, 10, 9, 5)]:
        epsilon = refuted(delta, m, r, v, 0.95, bits)
        assert epsilon > 0 and p_value(epsilon, delta, m, r, v, bits) <= 0.05 < p_value(epsilon + 1e-6, delta, m, r, v, bits)


def test_one_long_message_read_right_refutes_as_many_nats_as_it_has():
    p = (0.05 - 0.02) / (1 - 0.02)  # p + delta (1 - p) = .05
    assert refuted(0.02, 1, 1, 1, 0.95, 1000) == pytest.approx(1000 * log(2) + log(p / (1 - p)), abs=1e-5)
    assert refuted(0.02, 1, 1, 0, 0.95, 1000) == 0 == refuted(0.06, 1, 1, 1, 0.95, 1000)


@pytest.mark.parametrize("bits", [1, 3])
def test_randomised_response_is_hardly_ever_refuted_at_its_own_epsilon_and_with_many_canaries_nearly(bits):
    epsilon, random = 1.0, np.random.default_rng(0)
    p = exp(epsilon) / (exp(epsilon) + 2**bits - 1)
    bounds = [judge(random.random(300) < p, 0.0, 0.95, bits).epsilon for _ in range(300)]
    assert np.mean(np.array(bounds) > epsilon) <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    assert 0.95 * epsilon < judge(random.random(100_000) < p, 0.0, 0.95, bits).epsilon < epsilon


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_of_gaussian_noise_less_is_refuted_than_it_gives_in_closed_form(mu):
    random, true = np.random.default_rng(1), epsilon_of(1 / mu, 1e-5)
    bounds = []
    for _ in range(40):
        coins = random.integers(0, 2, 1000)
        scores = mu * (coins - 0.5) + random.standard_normal(1000)
        bounds.append(judge(((scores > 0) == coins)[np.argsort(-abs(scores))], 1e-5, 0.95).epsilon)
    assert max(bounds) < true and np.mean(bounds) > (0.1 if mu < 1 else 0.25) * true


def test_the_number_of_guesses_is_paid_for():
    """Each of the six numbers tried is held to a sixth of the error; with one canary there is only one number."""
    found = judge([True] * 320, 0.0, 0.95)
    assert astuple(found)[3:] == (320, 320, 320, 1, 6)
    assert found.epsilon == refuted(0.0, 320, 320, 320, 1 - 0.05 / 6) < refuted(0.0, 320, 320, 320, 0.95)
    assert judge([True], 0.0, 0.95, 64).tried == 1


@pytest.mark.parametrize("right, confidence, words", [([], 0.95, "no canaries"), ([True], 1.0, "confidence must lie strictly between 0 and 1, got 1.0")])
def test_what_proves_nothing_is_refused(right, confidence, words):
    with pytest.raises(Problem, match=words):
        judge(right, 0.0, confidence)
