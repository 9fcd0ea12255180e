"""Noise from seeds and from the system's entropy: the planned scale and no other, independent, and nothing to be read from its low bits."""

import os
from math import sqrt

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from ladp.columns import perturb
from ladp.keys import Key
from ladp.params import Layer
from ladp.privacy.entropy import Entropy, box_muller

SIZE, SIGMA = 40_000, 0.37
LAYERS = (Layer("a", 0, SIZE // 2), Layer("b", SIZE // 2, SIZE))
BELIEVED = 1e-6  # right noise is found wrong once in a million runs
SOURCES = pytest.mark.parametrize("key", [Key(3).at("noise", 1, 4), Entropy()], ids=["seed", "system"])


def noisy(key, weights=None, scales=(SIGMA, SIGMA), dtype=torch.float32):
    rows = torch.zeros(1, SIZE, dtype=dtype) if weights is None else weights.clone().unsqueeze(0)
    return rows, perturb(rows, LAYERS, torch.tensor([scales], dtype=torch.float64), [key])


def likely(sample, scale) -> float:
    """How well the sample goes with N(0, scale^2): the least of the shape's and the variance's p-values."""
    sample = sample.double().numpy() / scale
    deviation = abs((sample**2).mean() - 1) / sqrt(2 / len(sample))
    return min(kstest(sample, "norm").pvalue, np.exp(-(deviation**2) / 2))


@SOURCES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_has_the_planned_scale_and_neither_two_thirds_nor_three_halves_of_it(key, dtype):
    rows, drawn = noisy(key, dtype=dtype)
    assert likely(rows[0], SIGMA) > BELIEVED
    assert likely(rows[0], SIGMA * 2 / 3) < BELIEVED / 1e6 and likely(rows[0], SIGMA * 3 / 2) < BELIEVED / 1e6
    assert torch.allclose(drawn[0, 0], torch.linalg.vector_norm(rows[0, : SIZE // 2].double()), rtol=1e-6)


@SOURCES
def test_each_layer_has_its_own_scale_and_a_scale_of_zero_leaves_it_alone(key):
    weights = torch.linspace(-1, 1, SIZE)
    rows, drawn = noisy(key, weights, (0.0, 5.0))
    assert torch.equal(rows[0, : SIZE // 2], weights[: SIZE // 2]) and drawn[0, 0] == 0
    assert likely((rows[0] - weights)[SIZE // 2 :], 5.0) > BELIEVED


@SOURCES
def test_moments_to_the_fourth_are_those_of_a_gaussian(key):
    sample = noisy(key, dtype=torch.float64)[0][0] / SIGMA
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((sample**power).mean().item() - moment) < 5.5 * sqrt(variance / SIZE)


def test_entropy_never_gives_the_same_twice_and_calls_are_independent():
    key = Entropy()
    one, other = (noisy(key.at("noise", 1, 4), dtype=torch.float64)[0][0] for _ in range(2))
    assert (one == other).double().mean() < 0.01
    assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 5.5 / sqrt(SIZE)
    for step in (1, 2, SIZE // 2):  # nor do neighbours, or the pairs that were drawn together, depend on each other
        for power in (1, 2):
            assert abs(torch.corrcoef(torch.stack([one[:-step] ** power, one[step:] ** power]))[0, 1]) < 5.5 / sqrt(SIZE - step)


def test_a_forked_process_draws_other_numbers():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, Entropy().gaussian(4).numpy().tobytes())
        os._exit(0)
    here, there = Entropy().gaussian(4), np.frombuffer(os.read(reading, 32))
    os.wait()
    assert not set(here.tolist()) & set(there.tolist())


def test_the_low_bits_of_an_upload_are_uniform_whatever_the_weight():
    for weight in (0.0, 0.1):
        rows, _ = noisy(Entropy(grid=0), torch.full((SIZE,), weight))
        bits = rows[0].numpy().view(np.uint32) & 0xFF
        assert chisquare(np.bincount(bits, minlength=256)).pvalue > BELIEVED


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_upload_lies_on_a_public_grid_far_below_sigma(dtype):
    rows, _ = noisy(Entropy(), torch.full((SIZE,), 0.1, dtype=dtype), dtype=dtype)
    step = Entropy().step(SIGMA)
    assert SIGMA / 2**13 < step <= SIGMA / 2**12 and bool(((rows / step) == (rows / step).round()).all())
    near = rows[rows.abs() < SIGMA / 50]  # where floats are finest, and would tell most
    assert len(near) > 100 and likely(rows[0] - 0.1, SIGMA) > BELIEVED


def test_floats_without_a_grid_tell_two_weights_apart_and_on_the_grid_they_do_not():
    """Close to zero floats are finer than the noise that took a weight of 0.1 there, and coarser ones seldom come from a weight of 0 (Haney et al. 2022)."""
    told = {}
    for name, key in {"floats": Entropy(grid=0), "grid": Entropy()}.items():
        shares = []
        for weight in (0.1, 0.0):
            near = noisy(key, torch.full((SIZE,), weight, dtype=torch.float64), dtype=torch.float64)[0]
            near = near[near.abs() < SIGMA / 50]
            shares.append(((near - 0.1) + 0.1 == near).double().mean().item())
        told[name] = shares
    assert told["floats"][0] == 1 and told["floats"][1] < 0.5
    assert told["grid"] == [1, 1]


def test_words_of_zeros_and_of_ones_give_finite_numbers():
    ends = np.array([0, 2**64 - 1], np.uint64)
    drawn = box_muller(*(part.ravel() for part in np.meshgrid(ends, ends)))
    assert np.isfinite(drawn).all() and np.abs(drawn).max() == pytest.approx(9.49, abs=0.01)


def test_two_words_give_two_independent_gaussians_by_the_formula():
    u, v = 0.3, 0.2
    drawn = box_muller(*(np.array([int(x * 2**64)], np.uint64) for x in (u, v)))
    assert drawn[:, 0] == pytest.approx([sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v), sqrt(-2 * np.log(u)) * np.sin(2 * np.pi * v)], rel=1e-12)


def test_any_number_of_numbers_can_be_drawn():
    assert [len(Entropy().gaussian(size)) for size in (0, 1, 3, 65_537)] == [0, 1, 3, 65_537]


def test_seeded_noise_is_what_it_always_was():
    rows, _ = noisy(Key(3).at("noise", 1, 4))
    assert torch.equal(rows[0], torch.randn(SIZE, generator=Key(3).at("noise", 1, 4).generator()) * SIGMA)
