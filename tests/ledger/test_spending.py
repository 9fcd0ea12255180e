"""The quick tests say what composing says, and compose seldom."""

from random import Random

import pytest

from ladp.ledger import spending
from ladp.ledger.entry import merge
from ladp.ledger.spending import Gauge, compose, within
from ladp.privacy.accounting import Charge

DELTA = 1e-5


@pytest.fixture
def composed(monkeypatch):
    """Every tally that is really composed."""
    asked = []

    def counting(tally, delta):
        asked.append(tally)
        return compose(tally, delta)

    monkeypatch.setattr(spending, "compose", counting)
    return asked


def test_a_gauge_says_what_composing_says():
    random, gauge = Random(0), Gauge(3.0, DELTA)
    said = set()
    for _ in range(400):
        spent = merge(Charge(random.choice((4.0, 6.0, 9.0)), times=random.randint(1, 6)) for _ in range(random.randint(0, 3)))
        coming = (Charge(random.choice((4.0, 6.0, 9.0)), times=random.randint(1, 3)),)
        true = compose(merge(spent + coming), DELTA).epsilon <= 3.0
        assert gauge.fits(spent, coming) == true
        said.add(true)
    assert said == {True, False}


def test_equal_rounds_are_composed_a_few_times_and_not_every_time(composed):
    gauge, charge, spent = Gauge(5.759, DELTA), Charge(50.0), ()
    while gauge.fits(spent, (charge,)):
        spent = merge((*spent, charge))
    assert spent[0].times == 3999 and compose(spent, DELTA).epsilon <= 5.759 < compose((Charge(50.0, times=4000),), DELTA).epsilon
    assert len(composed) < 40


def test_a_cohort_with_equal_histories_is_composed_once(composed):
    gauge = Gauge(1.0, DELTA)
    assert all(gauge.fits((), (Charge(20.0),)) for _ in range(100)) and len(composed) == 1


def test_rounds_of_other_multipliers_are_not_looked_ahead_of(composed):
    gauge, spent = Gauge(100.0, DELTA), ()
    for round in range(1, 30):
        coming = (Charge(10.0 + round),)
        assert gauge.fits(spent, coming)
        spent = merge(spent + coming)
    assert [len(tally) for tally in composed] == list(range(1, 30))


def test_merged_charges_are_in_order_and_added_up():
    assert merge([Charge(2.0), Charge(1.0, 0.5, 2), Charge(2.0, 1.0, 3)]) == (Charge(1.0, 0.5, 2), Charge(2.0, 1.0, 4))
    assert within((Charge(2.0),), (Charge(2.0, 1.0, 4),)) and not within((Charge(2.0, 0.5),), (Charge(2.0),)) and within((), ())
