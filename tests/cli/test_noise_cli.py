"""`ladp noise`: the calculator and the table of expected against printed."""

import json

import pytest
from typer.testing import CliRunner

from ladp.cli.noise import app
from ladp.errors import Problem


def ask(line):
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})
    if result.exception:
        raise result.exception
    return result.output


def test_the_case_of_the_paper():
    answer = json.loads(ask("expected --method full --model resnet18 --classes 10 --epsilon 0.2 --rounds 400 --active 10 --preset as-run --json"))
    assert answer["noise_scale"] == pytest.approx(727_906, abs=30) and answer["sigma"] == answer["last_sigma"] and answer["taken"] is None


def test_options_of_the_method_may_be_set_like_those_of_a_run():
    scale = lambda more: json.loads(ask(f"expected --epsilon .5 --json {more}"))["noise_scale"]
    assert scale("--set method.constant=exact") / scale("") == pytest.approx(2.672 / 5.752, rel=1e-3)
    assert scale("--set method.sensitivity=steps --records 2000") / scale("--kappa 4") == pytest.approx(80)


def test_the_method_that_peeks_says_what_it_was_taken_for():
    assert "every layer taken as noised" in json.loads(ask("expected --method ladp --json"))["taken"]


def test_every_cell_of_full_dp_is_expected_beside_the_printed_one():
    rows = json.loads(ask("table --json"))
    assert len(rows) == 20 and {row["method"] for row in rows} == {"full"}
    first = rows[0]
    assert (first["model"], first["data"], first["epsilon"], first["printed"], first["paper"]) == ("resnet18", "cifar10", 0.2, "727,901", 727_901)
    assert first["expected"] == pytest.approx(727_906, abs=1) and first["ratio"] == pytest.approx(1, abs=1e-4)
    text = ask("table")
    assert all(word in text for word in ("727,901", "727,906", "291,163", "0.701"))


@pytest.mark.parametrize("line, complaint", [
    ("table --method foll", "did you mean 'full'"), ("table --preset as-ran", "did you mean 'as-run'"), ("expected --rounds 0", "rounds must be at least 1, got 0"),
    ("expected --set method.epsilom=1", "did you mean 'epsilon'"), ("expected --set x", "--set takes table.name=value"),
])
def test_inputs_out_of_range_are_named(line, complaint):
    with pytest.raises(Problem, match=complaint):
        ask(line)
