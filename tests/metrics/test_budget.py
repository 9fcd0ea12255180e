"""The paper's accumulated budget of a run, from the sigma of each round and layer."""

import pytest

from ladp.errors import Problem
from ladp.mechanisms import METHODS
from ladp.metrics.budget import distrusted, noised, records_a_client, spent
from ladp.privacy.gaussian import sigma_of
from ladp.privacy.mechanism import Training
from ladp.privacy.naive import spend

SIGMA = 0.01 * sigma_of(0.2, 0.02, "classical")


def record(sigma, selected=None, clients=10, size=2000):
    names = {f"layer{j}": s for j, s in enumerate(sigma)}
    shares = dict(zip(names, selected or [float(s > 0) for s in sigma]))
    return {"sigma": names, "selected": shares, "clients": list(range(clients)), "seconds": 0.5, "examples_per_second": 2 * 2 * size * clients}


def as_plotted(records):
    """Nine honest clients, two epochs, batches of 50: the paper's curves."""
    return spent(records, 0.01, 0.02, Training(), 9)


def test_full_dp_has_the_slope_that_the_paper_reports():
    found = as_plotted([record([SIGMA] * 4)] * 400)
    assert found.mean.epsilon == pytest.approx(400 * 3.6) == pytest.approx(found.largest.epsilon)
    assert found.mean.delta == pytest.approx(144) and found.mean.meaningless and found.bare == ()


def test_a_geometric_schedule_costs_what_the_paper_reports_for_time_varying_dp():
    """sigma_t = sigma .99788^t: 57.3 % more than Full DP."""
    full, fading = (as_plotted([record([SIGMA * r**t]) for t in range(400)]).mean.epsilon for r in (1, 0.99788))
    assert fading / full == pytest.approx(1.573, abs=0.003)


def test_layers_can_be_read_in_three_ways():
    found = as_plotted([record([SIGMA, 2 * SIGMA, 4 * SIGMA])])
    assert (found.largest.epsilon, found.summed.epsilon, found.mean.epsilon) == pytest.approx((3.6, 3.6 * 1.75, 3.6 * 1.75 / 3))
    assert (found.largest.delta, found.summed.delta) == pytest.approx((0.36, 3 * 0.36))


def test_less_noise_is_never_a_smaller_budget():
    """Against the paper, where LaDP-FL has less of both at one sensitivity."""
    least, most = (as_plotted([record([s * SIGMA, 3 * s * SIGMA])]) for s in (0.5, 1))
    assert all(getattr(least, reading).epsilon == pytest.approx(2 * getattr(most, reading).epsilon) for reading in ("largest", "mean", "summed"))


def test_layers_without_noise_are_named_and_not_counted():
    found = as_plotted([record([SIGMA, 0.0, SIGMA]), record([0.0, 0.0, SIGMA])])
    assert found.bare == ("layer1", "layer0") and found.mean.epsilon == pytest.approx(7.2) and found.summed.epsilon == pytest.approx(3 * 3.6)
    nothing = as_plotted([record([0.0, 0.0])])
    assert nothing.bare == ("layer0", "layer1") and nothing.summed.epsilon == 0 == nothing.largest.delta


def test_a_layer_that_some_clients_noised_counts_with_their_sigma():
    assert noised(record([0.4 * SIGMA, SIGMA], [0.4, 1.0]))["layer0"] == pytest.approx(SIGMA)
    assert as_plotted([record([0.4 * SIGMA], [0.4])]).mean.epsilon == pytest.approx(3.6)


def test_the_size_of_a_client_is_read_from_the_examples_of_the_rounds():
    records = [record([SIGMA], size=1800), record([SIGMA], size=2200)]
    assert records_a_client(records, Training()) == 2000
    assert spent(records, 0.01, 0.02, Training(), 9).mean.epsilon == pytest.approx(7.2)


def test_a_batch_larger_than_the_client_is_its_whole_data():
    assert spent([record([SIGMA], size=20)], 0.01, 0.02, Training(), 1).mean.epsilon == pytest.approx(2 * 0.2)


def test_methods_that_peek_are_named_as_not_to_be_trusted():
    assert distrusted(METHODS).keys() == {name for name, kind in METHODS.items() if kind().peeks} == {"ladp", "sensitive"}
    assert "private weights" in distrusted(METHODS)["ladp"] and "full" not in distrusted(METHODS)


def test_inputs_out_of_range_are_named():
    with pytest.raises(Problem, match="sensitivity must be positive, got 0"):
        spent([record([SIGMA])], 0, 0.02, Training(), 1)
    with pytest.raises(Problem, match="no round is recorded"):
        spent([], 1, 0.02, Training(), 1)
    with pytest.raises(Problem, match="delta must lie strictly"):
        spend([{"layer": 1.0}], 1.5, 50, 500, 1)
