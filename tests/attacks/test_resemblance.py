"""PSNR, SSIM and what goes with what: the definitions, and the values of another program."""

import numpy as np
import pytest
import torch

from ladp.attacks.resemblance import match, nearest, psnr, ssim, variation


def picture(step, shift, modulus, *shape):
    """Numbers that look like no picture, the same in every program."""
    numbers = (np.arange(np.prod(shape)) * step + shift) % modulus / (modulus - 1)
    return torch.from_numpy(numbers.reshape(1, *shape)) * 2 - 1


def test_they_are_what_scikit_image_finds():
    """structural_similarity and peak_signal_noise_ratio of scikit-image 0.26.0, data_range 1."""
    a, b = picture(37, 0, 101, 1, 8, 8), picture(53, 7, 97, 1, 8, 8)
    assert ssim(a, b).item() == pytest.approx(0.2652457072119345, abs=1e-12)
    assert psnr(a, b).item() == pytest.approx(8.976757149901486, abs=1e-12)
    c = picture(37, 0, 101, 3, 12, 12)
    d = 0.7 * c + 0.3 * picture(53, 7, 97, 3, 12, 12)
    assert ssim(c, d).item() == pytest.approx(0.8962294975285691, abs=1e-12)
    assert psnr(c, d).item() == pytest.approx(18.25217472097324, abs=1e-12)


def test_what_is_equal_cannot_be_more_alike_and_order_does_not_matter():
    a, b = torch.rand(4, 3, 9, 9) * 2 - 1, torch.rand(4, 3, 9, 9) * 2 - 1
    assert torch.equal(psnr(a, a), torch.full((4,), 100.0, dtype=torch.float64)) and ssim(a, a).numpy() == pytest.approx(np.ones(4))
    assert torch.equal(psnr(a, b), psnr(b, a)) and torch.allclose(ssim(a, b), ssim(b, a))
    assert bool((ssim(a, b) < 0.6).all())


def test_half_the_error_is_six_decibels():
    a, error = torch.zeros(1, 1, 8, 8), torch.full((1, 1, 8, 8), 0.5)
    assert psnr(a + error, a).item() == pytest.approx(20 * np.log10(4))
    assert (psnr(a + error / 2, a) - psnr(a + error, a)).item() == pytest.approx(20 * np.log10(2))


def test_a_flat_image_has_no_variation_and_a_step_has_its_height():
    flat = torch.full((1, 1, 4, 4), 0.3)
    assert variation(flat) == 0
    flat[..., 2:] = 0.8  # one of three differences across, none down
    assert variation(flat).item() == pytest.approx(0.5 / 3)


def test_images_find_their_own_records_whatever_their_order():
    true = torch.rand(6, 1, 8, 8)
    shuffled = (true + 0.01 * torch.rand(6, 1, 8, 8))[torch.randperm(6)]
    assert (match(shuffled, true) - true).abs().max() < 0.011
    assert nearest(match(shuffled, true), 6, lambda part: true[part], chunk=4).tolist() == list(range(6))
