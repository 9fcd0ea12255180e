"""The kernel distance: unbiased, from subsets that the key draws."""

from statistics import fmean, stdev

import pytest
import torch

from ladp.errors import Problem
from ladp.keys import Key
from ladp.metrics.kernel import discrepancy, kernel, kernel_distance


def features(n, seed, shift=0.0):
    return torch.randn(n, 8, generator=Key(seed).generator(), dtype=torch.float64) + shift


def test_it_is_the_sum_over_pairs_of_different_images():
    one, other = features(5, 1), features(5, 2)
    k = lambda x, y: (float(x @ y) / 8 + 1) ** 3
    pairs = [(a, b) for a in range(5) for b in range(5)]
    within = sum(k(x[a], x[b]) for x in (one, other) for a, b in pairs if a != b) / 20
    assert discrepancy(one, other) == pytest.approx(within - 2 * sum(k(one[a], other[b]) for a, b in pairs) / 25)


@pytest.mark.parametrize("n", (4, 40))
def test_its_mean_is_nothing_for_one_distribution_however_few_images_there_are(n):
    """The sum that counts an image against itself is not: it stays above 0."""
    found = [discrepancy(features(n, 2 * k), features(n, 2 * k + 1)) for k in range(600)]
    biased = [(kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)).mean().item() for k in range(600) for a, b in [(features(n, 2 * k), features(n, 2 * k + 1))]]
    assert abs(fmean(found)) < 4 * stdev(found) / 600**0.5 < fmean(biased)


def test_it_does_not_depend_on_the_size_of_the_subsets_but_its_deviation_does():
    one, other = features(600, 1), features(800, 2, 0.3)
    few, many = (kernel_distance(one, other, Key(0), subsets=200, size=size) for size in (10, 100))
    assert few[0] == pytest.approx(many[0], abs=4 * few[1] / 200**0.5) and few[1] > 3 * many[1]


def test_the_key_draws_the_subsets():
    one, other = features(50, 1), features(50, 2)
    assert kernel_distance(one, other, Key(0)) == kernel_distance(one, other, Key(0)) != kernel_distance(one, other, Key(1))


def test_subsets_are_half_of_a_small_side_so_that_they_differ():
    assert kernel_distance(features(30, 1), features(100, 2), Key(0))[1] > 0


def test_too_few_images_or_subsets_are_refused():
    with pytest.raises(Problem, match="got 1 and 9 images and 100 subsets"):
        kernel_distance(features(1, 1), features(9, 2), Key(0))
    with pytest.raises(Problem, match="9 images and 1 subsets"):
        kernel_distance(features(9, 1), features(9, 2), Key(0), subsets=1)
