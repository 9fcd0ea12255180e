"""The likelihood ratio attack is as good as the best test there is, on confidences of which that is known."""

import numpy as np
import pytest
from scipy.stats import norm

from ladp.attacks import lira
from ladp.attacks.rates import auc, threshold

RECORDS, SHADOWS = 4000, 64


def world(seed, apart, deviation=1.0):
    """Confidences around each record's own difficulty, `apart` higher where it is held; shadows in opposite pairs, and one run to attack."""
    random = np.random.default_rng(seed)
    first = random.permuted(np.tile(np.arange(RECORDS) < RECORDS // 2, (SHADOWS // 2, 1)), axis=1)
    held, member = np.stack([first, ~first], 1).reshape(SHADOWS, RECORDS), np.arange(RECORDS) < RECORDS // 2
    hard = random.normal(0, 5, RECORDS)
    sure = lambda held: hard + deviation * (apart * held + random.normal(size=held.shape))  # noqa: E731
    return sure(held), held, sure(member), member


def power(scores, member, level):
    return np.mean(scores[member] > threshold(scores[~member], level))


@pytest.mark.parametrize("apart", [0.5, 2.0])
def test_it_has_the_power_of_the_neyman_pearson_test(apart):
    phi, held, own, member = world(0, apart)
    fit = lira.Fit.of(phi, held)
    assert auc(fit.online(own)[member], fit.online(own)[~member]) == pytest.approx(norm.cdf(apart / np.sqrt(2)), abs=0.02)
    for score in (fit.online(own), fit.offline(own)):
        for level in (0.01, 0.1):
            best = norm.cdf(apart - norm.isf(level))
            wrong = 4 * np.sqrt(best * (1 - best) / 2000 + (norm.pdf(apart - norm.isf(level)) / norm.pdf(norm.isf(level))) ** 2 * level / 2000)
            assert power(score, member, level) == pytest.approx(best, abs=wrong + 0.01)
    assert power(own, member, 0.1) < norm.cdf(apart - norm.isf(0.1)) / 1.2 or apart < 1  # without shadows difficulty drowns it


def test_without_a_difference_it_finds_nothing():
    phi, held, own, member = world(1, 0.0)
    fit = lira.Fit.of(phi, held)
    for score in (fit.online(own), fit.offline(own)):
        assert auc(score[member], score[~member]) == pytest.approx(0.5, abs=0.04)


def test_deviations_of_single_records_help_where_records_differ():
    uneven = np.exp(np.random.default_rng(5).normal(0, 1, RECORDS))
    phi, held, own, member = world(2, 1.0, uneven)
    found = {kind: lira.Fit.of(phi, held, kind).online(own) for kind in lira.VARIANCES}
    areas = {kind: auc(score[member], score[~member]) for kind, score in found.items()}
    assert areas["record"] > areas["fixed"] + 0.01 and areas["record"] == pytest.approx(norm.cdf(1 / np.sqrt(2)), abs=0.03)


def test_a_fit_is_the_mean_and_deviation_of_those_that_held_the_record():
    phi, held = np.array([[1.0, 5.0], [2.0, 7.0], [3.0, 9.0], [6.0, 20.0]]), np.array([[1, 0], [0, 1], [1, 0], [0, 1]], bool)
    fit = lira.Fit.of(phi, held, "record")
    np.testing.assert_allclose(fit.inside, [[2, 13.5], [np.sqrt(2), np.sqrt(84.5)]])
    np.testing.assert_allclose(fit.outside, [[4, 7], [np.sqrt(8), np.sqrt(8)]])
    np.testing.assert_allclose(lira.Fit.of(phi, held).inside[1], np.sqrt((2 + 84.5) / 2))


def test_neither_a_shadow_nor_its_twin_takes_part_in_its_own_trial():
    phi, held, *_ = world(3, 1.0)
    before, (phi[5], held[5]) = list(lira.in_turn(phi[:8], held[:8])), (0.0, held[7])
    after = list(lira.in_turn(phi[:8], held[:8]))
    np.testing.assert_array_equal(before[4], after[4])
    assert not np.array_equal(before[2], after[2])
