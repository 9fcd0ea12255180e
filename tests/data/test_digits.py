import hashlib
from importlib.resources import files

import numpy as np
import pytest
import torch

from ladp import data
from ladp.data.digits import DIGEST
from ladp.errors import Problem


def test_the_digits_are_there_without_any_file_or_network():
    digits = data.load("digits")
    assert digits.images.shape == (1437, 1, 8, 8) and digits.test_images.shape == (360, 1, 8, 8)
    assert digits.images.dtype == torch.uint8 and digits.labels.dtype == torch.int64
    assert (digits.channels, digits.size, len(digits)) == (1, 8, 1437)


@pytest.mark.parametrize("share", [1e-4, 0.9999])
def test_holding_out_no_record_or_all_of_them_is_refused(share):
    with pytest.raises(Problem, match=f"validation = {share:g} holds .* of the 1,437 training records of digits out"):
        data.load("digits", validation=share)


def test_grey_levels_reach_from_0_to_255():
    digits = data.load("digits")
    assert digits.images.min() == 0 and digits.images.max() == 255


def test_every_digit_is_in_both_parts():
    digits = data.load("digits")
    assert torch.bincount(digits.labels).min() > 100 and torch.bincount(digits.test_labels).min() > 30


def test_the_digits_are_those_of_the_published_collection():
    datasets = pytest.importorskip("sklearn.datasets")
    published, digits = datasets.load_digits(), data.load("digits")
    ours = torch.cat([digits.images, digits.test_images])[:, 0].double() * 16 / 255
    assert np.array_equal(ours.round().numpy(), published.images)
    assert np.array_equal(torch.cat([digits.labels, digits.test_labels]), published.target)


def test_the_embedded_file_has_the_digest_that_is_written_down():
    content = files("ladp.data").joinpath("digits.npz").read_bytes()
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == DIGEST


def test_an_unknown_data_set_suggests_the_nearest():
    with pytest.raises(Problem, match="unknown data set 'cifar-10': did you mean 'cifar10'"):
        data.load("cifar-10")


def test_the_directory_is_root_then_environment_then_home(monkeypatch, tmp_path):
    monkeypatch.setenv("LADP_DATA", str(tmp_path))
    assert data.directory() == tmp_path and str(data.directory("here")) == "here"
    monkeypatch.delenv("LADP_DATA")
    assert data.directory().is_absolute()
