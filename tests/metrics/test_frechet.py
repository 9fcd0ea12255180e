"""The Frechet distance: what it must be where it is known, and that it never breaks where covariances do."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from ladp.errors import Problem
from ladp.keys import Key
from ladp.metrics.frechet import Gaussian, distance


def normal(n, d, seed=0):
    return torch.randn(n, d, generator=Key(seed).generator(), dtype=torch.float64)


def mixed(n, d, seed):
    """Features whose coordinates hang together, well conditioned."""
    return normal(n, d, seed) @ (torch.eye(d, dtype=torch.float64) + 0.3 * normal(d, d, seed + 100) / d**0.5) + 0.1 * seed


def between(one, other):
    return distance(Gaussian.of(one), Gaussian.of(other))


@pytest.mark.parametrize("n", (2, 20, 500))
def test_a_set_is_at_no_distance_from_itself(n):
    features = mixed(n, 40, 1)
    assert between(features, features) == pytest.approx(0, abs=1e-12 * features.square().sum().item())


def test_two_gaussians_in_the_plane_that_do_not_commute():
    """tr (S1 S2)^1/2 = sqrt(tr S1 S2 + 2 sqrt(det S1 S2)) for 2x2 matrices."""
    one, other = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double(), torch.tensor([[1.0, -0.7], [-0.7, 3.0]]).double()
    made = [Gaussian(torch.tensor(mean).double(), torch.linalg.cholesky(s).T) for mean, s in (((0.0, 1.0), one), ((2.0, -1.0), other))]
    product = one @ other
    shared = (product.trace() + 2 * product.det().sqrt()).sqrt()
    assert distance(*made) == pytest.approx((8 + 3 + 4 - 2 * shared).item(), rel=1e-12)


def test_gaussians_along_the_axes_differ_by_means_and_deviations():
    deviations = torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.5, 0.0]]).double()
    made = [Gaussian(torch.full((3,), mean).double(), s.diag()) for mean, s in zip((0.0, 0.5), deviations)]
    assert distance(*made) == pytest.approx(3 * 0.25 + 4 + 2.25, rel=1e-12)


def test_it_is_the_formula_with_the_square_root_of_a_matrix():
    one, other = mixed(900, 30, 1), mixed(700, 30, 2)
    (m1, s1), (m2, s2) = ((x.mean(0).numpy(), np.cov(x.numpy(), rowvar=False)) for x in (one, other))
    assert between(one, other) == pytest.approx(((m1 - m2) ** 2).sum() + np.trace(s1 + s2 - 2 * sqrtm(s1 @ s2).real), rel=1e-8)


def test_directions_without_any_spread_change_nothing():
    """300 dimensions of which 5 are used: the distance is that of the five, seen from any side."""
    one, other = mixed(100, 5, 1), mixed(80, 5, 2)
    turn = torch.linalg.qr(normal(300, 300, 7)).Q[:5]
    assert between(one @ turn, other @ turn) == pytest.approx(between(one, other), rel=1e-9)
    dust = [features @ turn + 1e-9 * normal(len(features), 300, seed) for features, seed in ((one, 8), (other, 9))]
    assert between(*dust) == pytest.approx(between(one, other), rel=1e-6)


def test_it_is_symmetric_and_grows_with_the_square_of_the_scale():
    one, other = mixed(50, 20, 1), mixed(90, 20, 2)
    assert between(one, other) == pytest.approx(between(other, one), rel=1e-10) == pytest.approx(between(10 * one, 10 * other) / 100, rel=1e-10)


def test_two_halves_of_one_set_are_further_apart_the_smaller_they_are():
    features = mixed(8000, 60, 1)
    found = [between(features[:n], features[-n:]) for n in (30, 100, 400, 4000)]
    assert found == sorted(found, reverse=True) and found[0] > 20 * found[-1] > 0


def test_features_that_have_no_gaussian_are_refused():
    with pytest.raises(Problem, match=r"at least 2 images, got \(1, 4\)"):
        Gaussian.of(torch.zeros(1, 4))
    with pytest.raises(Problem, match="not finite"):
        Gaussian.of(torch.tensor([[0.0], [float("nan")]]))
    with pytest.raises(Problem, match="2 and 3 dimensions"):
        between(normal(5, 2), normal(5, 3))
