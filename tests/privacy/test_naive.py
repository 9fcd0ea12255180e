from math import inf, nan

import pytest

from ladp.errors import Problem
from ladp.privacy.gaussian import sigma_of
from ladp.privacy.naive import accumulated


def test_the_slope_of_the_paper_is_one_budget_an_epoch_a_client():
    sigma, steps = sigma_of(0.2, 0.02, "classical"), 9 * 2 * (2000 // 50)
    assert accumulated(sigma, 0.02, 50, 2000, steps).epsilon == pytest.approx(3.6)
    assert accumulated(sigma, 0.02, 50, 2000, 400 * steps).epsilon == pytest.approx(400 * 3.6)


def test_epsilon_is_read_off_the_noise_that_was_really_added():
    sigma = sigma_of(0.2, 0.02, "classical")
    assert accumulated(2 * sigma, 0.02, 1, 1, 1).epsilon == pytest.approx(0.1)


def test_the_deltas_add_up_past_one_and_are_shown_as_they_are():
    one_client = accumulated(10.0, 0.02, 50, 500, 40 * 10)
    assert one_client.delta == pytest.approx(0.8) and not one_client.meaningless
    whole_run = accumulated(10.0, 0.02, 50, 2000, 400 * 720)
    assert whole_run.delta == pytest.approx(144) and whole_run.meaningless


def test_a_delta_of_exactly_one_is_already_meaningless():
    assert accumulated(1.0, 0.5, 1, 1, 2).meaningless


def test_nothing_is_spent_before_the_first_step():
    assert vars(accumulated(1.0, 0.02, 50, 500, 0)) == {"epsilon": 0.0, "delta": 0.0}


@pytest.mark.parametrize("sigma, delta, batch, size, steps, complaint", [
    (0, 0.02, 50, 500, 1, "sigma must be positive and finite, got 0"),
    (inf, 0.02, 50, 500, 1, "sigma must be positive and finite, got inf"),
    (nan, 0.02, 50, 500, 1, "sigma must be positive and finite, got nan"),
    (1, 0, 50, 500, 1, "delta must lie strictly between 0 and 1, got 0"),
    (1, 1, 50, 500, 1, "delta must lie strictly between 0 and 1, got 1"),
    (1, 0.02, 0, 500, 1, "batch must lie between 1 and the client's 500 records, got 0"),
    (1, 0.02, 501, 500, 1, "batch must lie between 1 and the client's 500 records, got 501"),
    (1, 0.02, 50, 500, -1, "steps must not be negative, got -1"),
])
def test_inputs_out_of_range_are_named(sigma, delta, batch, size, steps, complaint):
    with pytest.raises(Problem, match=complaint):
        accumulated(sigma, delta, batch, size, steps)
