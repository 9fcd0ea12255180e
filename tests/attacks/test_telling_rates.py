"""Rates are what counting and enumeration say, and say nothing where there is too little to count."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

from ladp.attacks import rates


def drawn(seed, inside, outside, apart=0.0, shape=()):
    random = np.random.default_rng(seed)
    return random.normal(apart, 1, (*shape, inside)), random.normal(0, 1, (*shape, outside))


def test_the_auc_counts_pairs_and_ties_half():
    inside, outside = np.array([3.0, 1.0, 2.0, 2.0]), np.array([2.0, 0.0, 1.0])
    by_hand = sum((a > b) + (a == b) / 2 for a, b in product(inside, outside)) / 12
    assert rates.auc(inside, outside) == pytest.approx(by_hand) and rates.auc(outside, inside) == pytest.approx(1 - by_hand)


def test_the_interval_of_the_auc_covers_the_truth_as_often_as_it_says():
    truth, hits = norm.cdf(1 / np.sqrt(2)), 0
    for seed in range(400):
        low, high = rates.rates(*drawn(seed, 60, 90, 1.0))["auc_interval"]
        hits += low <= truth <= high
    assert 0.92 <= hits / 400 <= 0.98


@pytest.mark.parametrize("hits, trials", [(0, 7), (3, 7), (7, 7), (12, 1000)])
def test_the_interval_of_a_share_leaves_a_fortieth_on_either_side(hits, trials):
    low, high = rates.clopper_pearson(hits, trials)
    assert low == 0 if hits == 0 else binom.sf(hits - 1, trials, low) == pytest.approx(0.025)
    assert high == 1 if hits == trials else binom.cdf(hits, trials, high) == pytest.approx(0.025)


def test_a_threshold_lets_through_as_many_others_as_allowed_and_not_one_more():
    outside = np.random.default_rng(0).permutation(np.arange(1000.0))
    for level, allowed in ((0.01, 10), (0.001, 1), (0.0019, 1)):
        assert (outside > rates.threshold(outside, level)).sum() == allowed
        assert rates.threshold(np.zeros(1000), level) == 0  # ties are all called others


def test_a_rate_that_cannot_be_resolved_is_not_told():
    inside, outside = drawn(0, 50, 999)
    found = rates.rates(inside, outside)
    assert found["tpr_at_0.1%_fpr"] is None and found["tpr_at_0.1%_fpr_interval"] is None
    assert found["tpr_at_1.0%_fpr"] == np.mean(inside > np.sort(outside)[::-1][9])
    assert rates.rates(inside, np.append(outside, 0.0))["tpr_at_0.1%_fpr"] is not None


def test_no_record_chooses_its_own_threshold():
    nothing = [rates.accuracy(*drawn(seed, 20, 20)) for seed in range(300)]
    assert abs(np.mean(nothing) - 0.5) < 0.02  # the best threshold on the same records would find .6
    assert rates.accuracy(*drawn(0, 20, 20, 50.0)) == 1
    assert rates.accuracy(*drawn(0, 4000, 4000, 2.0)) == pytest.approx(norm.cdf(1), abs=0.02)


def test_many_federations_have_one_threshold_and_their_mean_an_interval():
    inside, outside = drawn(1, 100, 100, 1.0, (40,))
    found = rates.pooled(inside, outside)
    assert found["tpr_at_0.1%_fpr"] == np.mean(inside > np.sort(outside.ravel())[-5])
    low, high = found["auc_interval"]
    assert low < found["auc"] < high and low < norm.cdf(1 / np.sqrt(2)) < high
    assert rates.pooled(inside[:2], outside[:2])["tpr_at_0.1%_fpr"] is None


def test_a_curve_goes_up_and_has_the_rates_on_it():
    inside, outside = drawn(3, 500, 300, 1.0)
    points = rates.curve(inside, outside)
    assert list(points) == sorted(points) and points[-1] == (1, 1) and points[0][0] == 0
    assert dict(points)[3 / 300] == pytest.approx(rates.rates(inside, outside)["tpr_at_1.0%_fpr"])
