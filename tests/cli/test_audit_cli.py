"""`ladp audit`: the table and the JSON, the folder, and exit code 1 where more is refuted than is certified."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ladp.cli import app
from ladp.errors import Problem
from ladp.mechanisms import METHODS
from ladp.privacy import release
from ladp.privacy.budget import Budget
from ladp.recipe import Recipe, dump


@pytest.fixture
def file(tmp_path):
    recipe = Recipe(method=METHODS["certified"](), model="linear", mean="equal", clients=60, active=60, rounds=3, device="cpu", budget=Budget(epsilon=1.0, unit="client", view="server"))
    (tmp_path / "recipe.toml").write_text(dump(recipe))
    return tmp_path / "recipe.toml", recipe


def ask(*words):
    result = CliRunner().invoke(app, ["audit", *map(str, words)], env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_findings_are_printed_and_written_with_all_their_terms(file, tmp_path):
    path, recipe = file
    told = ask(path, "--rounds", 1, "--seed", 4, "--out", tmp_path / "found", "--json")
    assert told.exit_code == 0
    found = json.loads(told.stdout)
    assert found == json.loads((tmp_path / "found/audit.json").read_text())
    assert {"unit", "view", "delta", "confidence", "canaries", "guesses", "right", "epsilon"} <= set(found["audited"])
    assert (found["digest"], found["seed"], found["audit_seed"], found["device"]) == (replace(recipe, rounds=1).digest, 0, 4, "cpu")
    assert found["audited"]["epsilon"] < found["certified"]["epsilon"] <= 1 and found["failed"] == []
    assert len(found["coins"]) == len(found["scores"]) == 60
    picture = (tmp_path / "found/scores.svg").read_text()
    assert picture.startswith("<svg") and "coin 1" in picture and "δ = 1e-05" in picture


def test_more_refuted_than_certified_is_exit_code_1_and_said_aloud(file, tmp_path, monkeypatch):
    monkeypatch.setattr(release, "perturb", lambda rows, layers, sigma, keys: 0 * sigma)
    told = ask(file[0], "--rounds", 1, "--out", tmp_path / "found")
    assert told.exit_code == 1 and "FAILED: ε is at least" in told.stderr and "and 1 is certified" in told.stderr
    assert "60 right of 60, about 60 canaries" in told.stdout and json.loads((tmp_path / "found/audit.json").read_text())["failed"]


@pytest.mark.parametrize("words, complaint", [
    (["--view", "sever"], "did you mean 'server'"), (["--canaries", 0], "canaries must be at least 1"), (["--unit", "record"], "take --unit client"), (["--canaries", 61], "only 60 that do not collude take part"),
])  # fmt: skip
def test_what_cannot_be_audited_is_one_line(file, words, complaint):
    with pytest.raises(Problem, match=complaint):
        ask(file[0], *words)


def test_a_place_without_a_recipe_is_named(tmp_path):
    with pytest.raises(Problem, match="is not a run folder"):
        ask(tmp_path)
