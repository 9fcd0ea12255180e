from math import inf, sqrt

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

from ladp.errors import Problem
from ladp.metrics.noise import expected_noise_scale, expected_norm, noise_scale_deviation, noised_sizes, norm_deviation
from ladp.models import create
from ladp.privacy.gaussian import sigma_of

# Full DP's noise scale as the paper's tables print it, at epsilon .2, .3, .4 and .5, and what it is of the expected one.
REPORTED = {
    ("resnet18", 10): ((727_901, 1.000), (505_266, 1.041), (383_945, 1.054), (203_968, 0.700)),
    ("resnet18", 100): ((787_542, 1.068), (543_256, 1.105), (436_562, 1.184), (267_569, 0.907)),
    ("cnn", 10): ((61_523, 1.015), (48_236, 1.194), (34_717, 1.145), (19_852, 0.819)),
    ("cnn", 100): ((77_523, 1.111), (52_652, 1.132), (42_236, 1.210), (25_786, 0.924)),
}


def sizes_of(model, classes, **reading):
    with torch.device("meta"):
        return noised_sizes(create(model, classes), **reading)


def as_run(epsilon):
    return 0.01 * sigma_of(epsilon, 0.02, "classical")


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99, 100, 101, 1000, 2_359_296, 10**9])
def test_mean_and_deviation_of_the_norm_agree_with_forty_digits(size):
    with mpmath.workdps(40):
        mean = mpmath.sqrt(2) * mpmath.gammaprod([mpmath.mpf(size + 1) / 2], [mpmath.mpf(size) / 2])
        spread = mpmath.sqrt(size - mean**2)
    assert expected_norm(0.3, size) == pytest.approx(0.3 * float(mean), rel=1e-11)
    assert norm_deviation(0.3, size) == pytest.approx(0.3 * float(spread), rel=2e-9)


def test_mean_and_deviation_of_the_norm_are_those_of_drawn_noise():
    norms = np.linalg.norm(np.random.default_rng(0).normal(0, 2, (20_000, 30)), axis=1)
    assert expected_norm(2, 30) == pytest.approx(norms.mean(), abs=4 * norms.std() / sqrt(20_000))
    assert norm_deviation(2, 30) == pytest.approx(norms.std(), rel=0.03)


def test_the_noise_scale_of_full_dp_on_resnet18_is_the_one_the_paper_prints():
    sizes = sizes_of("resnet18", 10)
    assert len(sizes) == 122
    assert expected_noise_scale(sizes, as_run(0.2), 400, 10) == pytest.approx(727_906, abs=1)
    assert noise_scale_deviation(sizes, as_run(0.2), 400, 10) == pytest.approx(7, abs=0.2)


def test_only_the_reading_with_noised_batch_counters_meets_the_paper():
    floats, trainable = sizes_of("resnet18", 10, counters=False), sizes_of("resnet18", 10, state="trainable", counters=False)
    assert (len(floats), len(trainable)) == (102, 62)
    assert expected_noise_scale(floats, as_run(0.2), 400, 10) == pytest.approx(726_988, abs=1)
    assert expected_noise_scale(trainable, as_run(0.2), 400, 10) == pytest.approx(693_709, abs=1)


@pytest.mark.parametrize("model, classes", REPORTED)
def test_reported_over_expected_is_as_recorded(model, classes):
    sizes = sizes_of(model, classes)
    for epsilon, (reported, ratio) in zip((0.2, 0.3, 0.4, 0.5), REPORTED[model, classes]):
        assert reported / expected_noise_scale(sizes, as_run(epsilon), 400, 10) == pytest.approx(ratio, abs=0.001)


def test_a_simulated_run_adds_the_expected_noise_within_its_deviation():
    sizes, sigma, rounds, active = [40, 7, 1], 0.5, 200, 4
    rng = np.random.default_rng(1)
    drawn = sum(np.linalg.norm(rng.normal(0, sigma, (rounds * active, d)) / active, axis=1).sum() for d in sizes)
    assert abs(drawn - expected_noise_scale(sizes, sigma, rounds, active)) < 4 * noise_scale_deviation(sizes, sigma, rounds, active)
    assert abs(drawn - expected_noise_scale(sizes, 1.5 * sigma, rounds, active)) > 40 * noise_scale_deviation(sizes, sigma, rounds, active)


def test_a_module_counts_as_one_layer_if_asked_to():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    assert noised_sizes(model) == [12, 3, 3, 3, 3, 3, 1]
    assert noised_sizes(model, by="module") == [15, 12, 1]
    assert noised_sizes(model, by="module", state="trainable", counters=False) == [15, 6]


def test_no_noise_has_no_scale():
    assert expected_noise_scale([5, 6], 0.0, 400, 10) == 0 == noise_scale_deviation([5, 6], 0.0, 400, 10)


@pytest.mark.parametrize("sizes, sigma, rounds, active, complaint", [
    ([5], -1, 1, 1, "sigma must be finite and not negative, got -1"),
    ([5], inf, 1, 1, "sigma must be finite and not negative, got inf"),
    ([5], 1, -1, 1, "rounds must not be negative and active must be at least 1, got -1 and 1"),
    ([5], 1, 1, 0, "rounds must not be negative and active must be at least 1, got 1 and 0"),
    ([5, 0], 1, 1, 1, "every size must be at least 1, got 0"),
])
def test_inputs_out_of_range_are_named(sizes, sigma, rounds, active, complaint):
    for measure in (expected_noise_scale, noise_scale_deviation):
        with pytest.raises(Problem, match=complaint):
            measure(sizes, sigma, rounds, active)
