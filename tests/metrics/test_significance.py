"""The U test, and what the paper's printed p-values say about the samples behind them."""

from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from ladp.errors import Problem
from ladp.metrics.significance import p_value, statistic
from ladp.tables import load

PRINTED = [entry for entry in load("p-values").entries if entry.where["model"] != "mean"]


def u_by_counting(ours, theirs):
    return sum((a > b) + 0.5 * (a == b) for a in ours for b in theirs)


def test_p_is_that_of_the_statistic_counted_pair_by_pair():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.6, 1, 16), rng.normal(0, 1, 12)
    u = min(u := u_by_counting(ours, theirs), 16 * 12 - u)
    assert p_value(ours, theirs) == pytest.approx(2 * norm.sf((96 - u - 0.5) / sqrt(16 * 12 * 29 / 12)))
    assert statistic(p_value(ours, theirs), 16, 12) == pytest.approx(u)


def test_the_approximation_is_close_to_counting_every_order():
    ours, theirs = [1, 3, 4, 8, 9], [2, 5, 6, 7, 10, 11]
    low = min(u_by_counting(ours, theirs), u_by_counting(theirs, ours))
    whole = range(1, 12)
    extreme = sum(min(u := sum(r for r in ranks) - 15, 30 - u) <= low for ranks in combinations(whole, 5))
    assert p_value(ours, theirs) == pytest.approx(extreme / comb(11, 5), abs=0.02)


def test_sides_do_not_matter_and_ties_alone_say_nothing():
    assert p_value([1, 2, 3], [2, 5, 6]) == p_value([2, 5, 6], [1, 2, 3])
    assert p_value([1.0] * 5, [1.0] * 5) == 1.0


@pytest.mark.parametrize("mistake", [lambda: p_value([], [1]), lambda: statistic(0, 5, 5), lambda: statistic(1.5, 5, 5)])
def test_inputs_out_of_range_are_named(mistake):
    with pytest.raises(Problem, match="the U test needs values|p must lie"):
        mistake()


def hits(size, other):
    """Printed p-values that are, to the digits printed, those of a whole U without ties."""
    u = np.arange(size * other // 2)
    p = 2 * norm.sf((size * other / 2 - 0.5 - u) / sqrt(size * other * (size + other + 1) / 12))
    return len([entry for entry in PRINTED if any(map(entry.agrees, p[abs(p / entry.value - 1) < 0.01]))])


def test_the_printed_p_values_are_of_sixteen_against_sixteen():
    """Four budgets times four rounds, not five as the table's note says: twenty against twenty could give 6.8e-8."""
    assert len(PRINTED) == 60 and hits(16, 16) == 36
    assert max(hits(n, m) for n in range(5, 26) for m in range(n, 26) if (n, m) != (16, 16)) < 20
    assert min(entry.value for entry in PRINTED) == pytest.approx(p_value(range(16), range(16, 32)), rel=5e-3)
    assert p_value(range(20), range(20, 40)) == pytest.approx(6.8e-8, rel=0.01)


def test_one_budget_out_of_order_costs_sixteen_and_that_is_the_p_printed_most():
    """2.64e-5: of four budgets against four one pair is the wrong way round, in all of its four times four rounds."""
    mine, theirs = [77.82, 82.29, 87.12, 90.06], [63.65, 62.54, 66.79, 78.51]
    u = 16 * u_by_counting(theirs, mine)
    assert u == 16 and statistic(2.64e-5, 16, 16) == pytest.approx(u, abs=0.02)
    assert load("p-values").entry(about="accuracy", model="resnet18", data="cifar10", method="time-varying").printed == "2.64e-5"
