import pytest

from ladp.errors import Problem
from ladp.metrics.rates import average, improvement, reduction


def test_an_improvement_and_a_reduction_are_in_per_cent_of_theirs():
    assert improvement(77.82, 58.35) == pytest.approx(33.37, abs=0.005)
    assert reduction(275_447, 727_901) == pytest.approx(62.16, abs=0.005)
    assert improvement(50, 100) == -50 == -reduction(50, 100)


def test_an_average_is_of_ratios():
    assert average(improvement, [(20, 10), (90, 60)]) == 75
    assert improvement(20 + 90, 10 + 60) != 75


def test_nothing_is_better_than_zero_by_a_rate():
    with pytest.raises(Problem, match="a rate against 0 has no value"):
        improvement(1, 0)
