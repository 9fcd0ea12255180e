"""The paper's metrics of real runs."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ladp import experiment
from ladp.cli.tables import app
from ladp.errors import Problem
from ladp.mechanisms import Full, LaDP, NoNoise
from ladp.privacy.gaussian import constant
from ladp.tables.totals import totals


@pytest.fixture
def run(recipe, tmp_path):
    def make(method, **changes):
        out = tmp_path / method.name
        experiment.run(replace(recipe, method=method, **changes), out)
        return out

    return make


def test_full_dp_costs_its_own_epsilon_for_every_epoch_and_honest_client(run, recipe):
    found = totals(run(Full(epsilon=0.3, state="all", layers="module"), norm="batch"))
    spent = found["accumulated"]
    batches = spent["T"] / spent["clients"] / recipe.rounds
    assert spent["clients"] == 3 and spent["records"] == 144 and spent["q"] == 20 / 144 and batches == 8, "1,437 records on ten clients; one client is the curious one"
    assert spent["mean"]["epsilon"] == pytest.approx(6 * 3 * 8 * 20 / 144 * 0.3) == pytest.approx(spent["largest"]["epsilon"])
    assert spent["mean"]["meaningless"] is False and spent["bare"] == []
    assert found["noise_per_coordinate"] == pytest.approx(0.01 * constant(0.3, 0.02, "classical") / 0.3 / 4, rel=0.005)


@pytest.mark.parametrize("rule", ["as-run", "theorem", "steps"])
def test_whatever_the_sensitivity_full_dp_is_charged_what_it_claims(run, rule):
    spent = totals(run(Full(epsilon=0.3, sensitivity=rule)))["accumulated"]
    assert spent["mean"]["epsilon"] == pytest.approx(spent["q"] * spent["T"] * 0.3, rel=0.02)


def test_the_totals_are_those_of_the_result(run):
    out = run(LaDP(importance="q0.3"))
    found, result = totals(out), json.loads((out / "result.json").read_text())
    assert (found["noise_scale"], found["seconds"]) == pytest.approx((result["noise_scale"], result["seconds"]))
    assert found["rounds"] == 6 and found["method"] == "ladp" and "ladp" in found["distrusted"]
    assert found["accumulated"]["bare"], "layers below R leave without noise, and are named"


def test_the_papers_method_costs_more_than_full_dp_by_the_papers_own_accountant(run):
    """With every P at B: its constant is smaller, so is its noise, so the epsilon read off the noise is larger."""
    ladp, full = (totals(run(method))["accumulated"] for method in (LaDP(epsilon=0.5), Full(epsilon=0.5)))
    assert ladp["mean"]["epsilon"] / full["mean"]["epsilon"] == pytest.approx(2.8758 / 1.5219, rel=1e-3)


def test_a_method_without_a_sensitivity_has_no_budget(run):
    found = totals(run(NoNoise()))
    assert found["accumulated"] is None and found["noise_scale"] == 0 == found["noise_per_coordinate"]


def test_the_command_line_says_what_not_to_trust(run):
    out = run(Full(epsilon=0.3))
    ask = lambda *flags: CliRunner().invoke(app, ["metrics", str(out), *flags], env={"COLUMNS": "200"}).output
    assert json.loads(ask("--json"))["accumulated"] == totals(out)["accumulated"]
    assert "ladp: its sigma depends on the private weights" in ask() and "the paper's sequential accountant" in ask()


def test_a_run_without_rounds_is_refused(run, recipe, tmp_path):
    out = experiment.create(recipe, tmp_path / "empty")
    (out / "run.json").write_text(json.dumps({"method": "ladp", "rounds": 6, "seed": 0}))
    with pytest.raises(Problem, match="has no round yet"):
        totals(out)
