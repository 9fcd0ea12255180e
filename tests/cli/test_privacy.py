import json

import pytest
import typer
from typer.testing import CliRunner

from ladp.cli import noise, privacy
from ladp.errors import Problem

app = typer.Typer()
app.add_typer(privacy.app, name="privacy")
app.add_typer(noise.app, name="noise")


def call(line, code=0):
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "160"})
    if isinstance(result.exception, Problem):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def refuse_constant(name):
    raise AssertionError(f"{name} is not strict JSON")


def ask(line):
    return json.loads(call(line + " --json"), parse_constant=refuse_constant)


@pytest.mark.parametrize("rule, sigma, delta, holds", [("exact", 2.672, 0.02, True), ("classical", 5.752, 1.31e-4, True), ("paper", 3.044, 0.0116, True)])
def test_sigma_comes_with_the_delta_it_really_gives(rule, sigma, delta, holds):
    answer = ask(f"privacy sigma --epsilon .5 --delta .02 --rule {rule}")
    assert answer["sigma"] == pytest.approx(sigma, abs=6e-4) and answer["delta"] == pytest.approx(delta, rel=0.01)
    assert answer["holds"] is holds and answer["requested_delta"] == 0.02
    assert answer["sigma_unit"] == "per unit of L2 sensitivity" and answer["accountant"] == "exact Gaussian, Balle & Wang 2018"


def test_a_broken_promise_is_said_aloud():
    assert ask("privacy sigma --epsilon .5 --delta 1e-5 --rule paper")["holds"] is False
    table = call("privacy sigma --epsilon .5 --delta 1e-5 --rule paper")
    assert any("holds" in line and " no " in line for line in table.splitlines())
    assert "per unit of L2 sensitivity" in table and "Balle & Wang 2018" in table and "0.000556182" in table


def test_the_classical_theorem_says_where_it_ends():
    assert "epsilon < 1" in ask("privacy sigma --epsilon 2 --delta .02 --rule classical")["note"]
    assert ask("privacy sigma --epsilon .5 --delta .02 --rule classical")["note"] == ""


def test_delta_and_epsilon_undo_one_another():
    delta = ask("privacy delta --epsilon 2 --sigma 1")["delta"]
    assert delta == pytest.approx(0.020924, abs=1e-6)
    assert ask(f"privacy epsilon --sigma 1 --delta {delta}")["epsilon"] == pytest.approx(2)


def test_infinity_is_a_string_in_strict_json():
    assert ask("privacy epsilon --sigma 1e-200 --delta .1")["epsilon"] == "inf"


PLAN = "privacy plan --delta 1e-5 --unit record --view peer --clients 100 --active 100 --record-rate 0.1 --local-steps 1 --colluders 1"


def test_a_plan_finds_the_noise_for_a_budget_and_says_what_it_rests_on():
    answer = ask(f"{PLAN} --epsilon 8 --rounds 400")
    assert answer["z"] == pytest.approx(0.143, abs=1e-3) and 7.99 < answer["epsilon"]["peer"] <= 8 and answer["epsilon"]["server"] > 1000
    assert (answer["unit"], answer["view"], answer["delta"]) == ("record", "peer", 1e-5) and "dp-accounting" in answer["accountant"]
    assert answer["cross_check"]["epsilon"] > 8 and answer["participations"] == "every client takes part in all 400 rounds"
    table = call(f"{PLAN} --epsilon 8 --rounds 400 --records 100000000")
    assert "server: 1" in table and "the server is trusted" in table and "publishes one record in full" in table


def test_a_plan_finds_the_rounds_for_a_noise_and_the_cost_of_both():
    rounds = ask(f"{PLAN} --epsilon 8 --z 0.15")["rounds"]
    assert ask(f"{PLAN} --rounds {rounds} --z 0.15")["epsilon"]["peer"] == pytest.approx(8, abs=0.05)


def test_the_naive_budget_shows_its_delta_and_its_warning():
    answer = ask("privacy naive --sigma 14.379093 --delta .02 --batch 50 --size 2000 --steps 288000")
    assert answer["epsilon"] == pytest.approx(1440, rel=1e-5) and answer["delta"] == pytest.approx(144) and answer["meaningless"] is True
    assert "proves nothing" in call("privacy naive --sigma 14.379093 --delta .02 --batch 50 --size 2000 --steps 720")


def test_convergence_reports_why_there_is_no_bound():
    answer = ask("privacy convergence --smoothness 1 --mu .5 --layers 62 --sigma .1438 --size 2359296")
    assert answer["bound"] is None and answer["holds"] is False and "cannot hold here" in answer["reason"]
    assert {c["name"]: c["holds"] for c in answer["conditions"]}["mu > L"] is False
    assert answer["noise"] == pytest.approx(221, abs=1) and "probability 0.95" in answer["noise_bound_holds"]
    assert "cannot hold here" in call("privacy convergence --smoothness 1 --mu .5 --layers 62 --noise 3").replace("\n", " ")


def test_convergence_gives_the_bound_where_its_conditions_are_granted():
    answer = ask("privacy convergence --smoothness .5 --mu 2 --layers 4 --noise .01 --lr .001 --rounds 1 --gap 3")
    assert answer["holds"] is True and answer["bound"] == pytest.approx(0.28 * 3 + 0.03 + 0.0017) and answer["reason"] == ""


def test_convergence_without_a_noise_bound_says_what_to_give():
    with pytest.raises(Problem, match="give --noise, or --sigma and --size"):
        call("privacy convergence --smoothness 1 --mu .5 --layers 62")


def test_the_expected_noise_scale_is_the_one_the_paper_prints():
    answer = ask("noise expected --method full --model resnet18 --classes 10 --epsilon 0.2 --rounds 400 --active 10 --preset as-run")
    assert answer["noise_scale"] == pytest.approx(727_906, abs=30) and answer["sd"] == pytest.approx(7, abs=0.2)
    assert answer["noised_layers"] == 122 and answer["kappa"] == 0.01 and answer["counters"] is True


@pytest.mark.parametrize("options, layers", [("--no-counters", 102), ("--state trainable", 62), ("--state trainable --counters", 82), ("--preset as-printed", 62)])
def test_what_is_noised_can_be_chosen(options, layers):
    assert ask(f"noise expected --model resnet18 {options}")["noised_layers"] == layers


def test_the_methods_differ_by_their_constant_alone():
    scale = {method: ask(f"noise expected --method {method} --epsilon .5")["noise_scale"] for method in ("none", "full", "ladp")}
    assert scale["none"] == 0 and scale["ladp"] / scale["full"] == pytest.approx(1.5219 / 2.8758, rel=1e-4)


def test_a_larger_kappa_scales_the_noise():
    small, large = (ask(f"noise expected --kappa {kappa}")["noise_scale"] for kappa in (0.01, 8))
    assert large == pytest.approx(800 * small) == pytest.approx(ask("noise expected --preset as-printed")["noise_scale"])


@pytest.mark.parametrize("line, complaint", [
    ("privacy sigma --epsilon 0 --delta .02", "epsilon must be positive and finite, got 0"),
    ("privacy sigma --epsilon 1 --delta 1.5", "delta must lie strictly between 0 and 1, got 1.5"),
    ("privacy sigma --epsilon 1 --delta .02 --rule papr", "did you mean 'paper'"),
    ("privacy delta --epsilon 1 --sigma 0", "sigma must be positive and finite, got 0"),
    ("privacy delta --epsilon nan --sigma 1", "epsilon must be positive and finite, got nan"),
    ("privacy plan --delta 1e-5 --rounds 4", "give two of epsilon, rounds and z"),
    ("privacy plan --delta 1e-5 --rounds 400 --epsilon .1 --z-most 1", "cannot be kept with z at most 1: the smallest that can is"),
    ("noise expected --method foll", "did you mean 'full'"),
    ("noise expected --preset as-ran", "did you mean 'as-run'"),
    ("noise expected --model resnet19", "did you mean 'resnet18'"),
    ("noise expected --state some", "unknown state 'some'"),
    ("noise expected --layers rows", "unknown layer rule 'rows'"),
    ("noise expected --kappa 0", "kappa must be positive, got 0"),
    ("noise expected --epsilon -1", "epsilon must be positive and finite, got -1"),
    ("noise expected --active 0", "active must be at least 1"),
])
def test_inputs_out_of_range_are_named(line, complaint):
    with pytest.raises(Problem, match=complaint):
        call(line)
