"""Without noise losses tell whose record it is, with strong noise they do not; chance counts all owners; the run stays as it was."""

import shutil
from dataclasses import replace
from hashlib import sha256

import pytest
from scipy.stats import binomtest

from ladp import attacks
from ladp.attacks import source
from ladp.attacks.source import Source
from ladp.data.partition import create
from ladp.errors import Problem
from ladp.mechanisms import Full, NoNoise
from ladp.metrics.interval import wilson
from ladp.privacy.mechanism import Training
from ladp.recipe import Recipe

SKEWED = Recipe(
    method=NoNoise(), clients=10, active=4, rounds=4, training=Training(epochs=3, batch=20), partition=create("dirichlet", alpha=0.1), device="cpu", engine="sequential"
)


def carry_out(attack, run):
    return [*attacks.carry_out(attack, run)][-1]


def test_without_noise_a_records_client_is_found_and_the_run_is_not_touched(make):
    run = make(SKEWED)
    digests = lambda: {path: sha256(path.read_bytes()).hexdigest() for path in run.iterdir() if path.is_file()}  # noqa: E731
    before = digests()
    scores = carry_out(Source(rounds=0), run)["scores"]
    assert scores["right_interval"][0] > scores["chance"] + 0.2 and scores["chance"] == pytest.approx(0.25)
    assert scores["by_round"]["round"] == [1, 2, 3, 4] and scores["asked"] == sum(scores["by_round"]["asked"])
    assert digests() == before


def test_with_strong_noise_it_is_not(make):
    scores = carry_out(Source(rounds=0), make(replace(SKEWED, method=Full(epsilon=0.02))))["scores"]
    assert scores["right"] < scores["chance"] + 0.12


def test_a_record_that_all_hold_is_always_given_to_an_owner_and_chance_says_so(make):
    run = make(replace(SKEWED, partition=create("draw", size=1437), rounds=1, training=Training(epochs=1)))
    scores = carry_out(Source(rounds=1), run)["scores"]
    assert scores["right"] == scores["calibrated"] == scores["chance"] == 1


def test_where_clients_overlap_chance_is_the_mean_share_of_owners(make):
    scores = carry_out(Source(rounds=0, records=100), make(replace(SKEWED, partition=create("draw", size=400), training=Training(epochs=1))))["scores"]
    expected = (1 + 3 * 400 / 1437) / 4  # one owner for certain, each of the other three with probability 400/1437
    assert scores["chance"] == pytest.approx(expected, abs=0.02) and scores["right"] > scores["chance"] - 0.03


def test_rounds_are_spread_evenly_and_the_last_is_among_them(make):
    assert carry_out(Source(rounds=2, records=1), make(SKEWED))["scores"]["by_round"]["round"] == [2, 4]
    assert carry_out(Source(rounds=3, records=1), make(SKEWED))["scores"]["by_round"]["round"][-1] == 4
    assert carry_out(Source(rounds=9, records=1), make(SKEWED))["scores"]["by_round"]["round"] == [1, 2, 3, 4]


def test_cut_off_it_goes_on_to_the_same_findings(make, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "KEEP_SECONDS", 0.0)
    whole = carry_out(Source(rounds=0, records=5), make(SKEWED))
    run = shutil.copytree(make(SKEWED), tmp_path / "run", ignore=shutil.ignore_patterns("attacks"))
    events = attacks.carry_out(Source(rounds=0, records=5), run)
    assert [next(events).done for _ in range(2)] == [1, 2]
    events.close()
    events = attacks.carry_out(Source(rounds=0, records=5), run)
    assert next(events).done == 3
    again = [*events][-1]
    assert {**again, "seconds": 0, "out": ""} == {**whole, "seconds": 0, "out": ""}


@pytest.mark.parametrize("right, asked", [(0, 10), (3, 10), (10, 10), (290, 1000)])
def test_the_interval_is_that_of_scipy(right, asked):
    expected = binomtest(right, asked).proportion_ci(0.95, "wilson")
    assert wilson(right, asked) == pytest.approx((expected.low, expected.high), abs=1e-12)
    for end in wilson(right, asked):
        assert (right / asked - end) ** 2 == pytest.approx(1.959963984540054**2 * end * (1 - end) / asked, abs=1e-12)


def test_what_cannot_be_asked_is_refused(make):
    with pytest.raises(Problem, match="rounds of attack 'source' must be at least 0, got -1"):
        Source(rounds=-1)
    with pytest.raises(Problem, match="one client"):
        carry_out(Source(rounds=1), make(replace(SKEWED, active=1, rounds=1)))
    with pytest.raises(Problem, match="records .* at least 1, got 0"):
        Source(records=0)
    with pytest.raises(Problem, match="no more right ones"):
        wilson(3, 2)
