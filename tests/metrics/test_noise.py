import json
from dataclasses import replace
from math import inf, sqrt

import mpmath
import numpy as np
import pytest
import torch

from ladp import experiment
from ladp.errors import Problem
from ladp.mechanisms import Full
from ladp.metrics.noise import expected_noise_scale, expected_norm, noise_per_coordinate, noise_scale, noise_scale_deviation, norm_deviation
from ladp.models import create
from ladp.params import Layout
from ladp.privacy.gaussian import sigma_of

def sizes_of(model, classes, by="tensor", state="all", counters=True):
    with torch.device("meta"):
        layout = Layout.of(create(model, classes))
    return [len(layer) for layer in layout.layers(by, state)] + [1] * counters * len(layout.counters)


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


def test_a_simulated_run_adds_the_expected_noise_within_its_deviation():
    sizes, sigma, rounds, active = [40, 7, 1], 0.5, 200, 4
    rng = np.random.default_rng(1)
    drawn = sum(np.linalg.norm(rng.normal(0, sigma, (rounds * active, d)) / active, axis=1).sum() for d in sizes)
    assert abs(drawn - expected_noise_scale(sizes, sigma, rounds, active)) < 4 * noise_scale_deviation(sizes, sigma, rounds, active)
    assert abs(drawn - expected_noise_scale(sizes, 1.5 * sigma, rounds, active)) > 40 * noise_scale_deviation(sizes, sigma, rounds, active)


def test_sigma_may_differ_by_round_and_by_entry():
    rng, sizes, sigma = np.random.default_rng(2), [40, 7], np.array([[0.5, 2.0], [0.1, 0.0], [1.0, 1.0]])
    draws = [[[np.linalg.norm(rng.normal(0, s, d) / 4) for _ in range(4)] for s, d in zip(line, sizes)] for line in np.tile(sigma, (200, 1))]
    assert abs(np.sum(draws) - 200 * expected_noise_scale(sizes, sigma, 3, 4)) < 4 * sqrt(200) * noise_scale_deviation(sizes, sigma, 3, 4)
    parts = sum(expected_noise_scale([d], s, 1, 4) for line in sigma for s, d in zip(line, sizes))
    assert expected_noise_scale(sizes, sigma, 3, 4) == pytest.approx(parts)


def test_the_records_of_a_run_add_up_to_its_noise_scale(recipe, tmp_path):
    result = experiment.run(replace(recipe, method=Full(state="all", epsilon=0.2), norm="batch"), tmp_path / "run")
    records = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert noise_scale(records) == pytest.approx(result["noise_scale"])
    sizes = {layer.name: len(layer) for layer in Layout.of(create("cnn-small", 10, 1, 8, "batch")).layers(state="all")}
    assert noise_per_coordinate(records, sizes) == pytest.approx(as_run(0.2) / 4, rel=0.002), "sigma over the cohort"


def test_noise_per_coordinate_does_not_grow_with_the_model():
    """The noise scale does: by rounds, by the cohort's size and by the root of each entry's."""
    rng = np.random.default_rng(3)
    for sizes in ({"a": 4000}, {"a": 4000, "b": 90_000, "c": 900}):
        norms = [{name: np.mean([np.linalg.norm(rng.normal(0, 0.3, d)) for _ in range(5)]) for name, d in sizes.items()} for _ in range(4)]
        records = [{"noise": noise, "clients": [1, 2, 3, 4, 5]} for noise in norms]
        assert noise_per_coordinate(records, sizes) == pytest.approx(0.3 / 5, rel=0.02)


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
