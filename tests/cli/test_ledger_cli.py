import csv
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import pytest
import typer
from typer.testing import CliRunner

from ladp import experiment
from ladp.cli import ledger as command
from ladp.errors import Problem
from ladp.ledger import Ledger
from ladp.mechanisms import Full, LaDP
from ladp.privacy.accounting import Charge, epsilon
from ladp.privacy.budget import Budget

app = typer.Typer()
app.add_typer(command.app, name="ledger")


def call(*words):
    result = CliRunner().invoke(app, ["ledger", *map(str, words)], env={"COLUMNS": "160"})
    if isinstance(result.exception, Problem):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with Ledger(path, clock=lambda: 0.0) as ledger:
        for round in (1, 2):
            ledger.charge_all("a/1", round, "client", {client: {"server": (Charge(1.0),), "peer": (Charge(3.0),)} for client in ("9", "10")}, replays={"9": "x"})
        ledger.charge("10", "b/1", 1, "record", {"server": (Charge(2.0, 0.5, 3),)})
    return path


def test_show_says_what_each_client_spent_by_unit_and_view_at_the_delta(path):
    rows = json.loads(call("show", path, "--delta", "1e-3", "--json"))
    assert [(r["client"], r["unit"], r["view"], r["releases"]) for r in rows] == [
        ("9", "client", "server", 2), ("9", "client", "peer", 2), ("10", "client", "server", 2), ("10", "client", "peer", 2),
        ("10", "record", "server", 1), ("10", "record", "peer", 1),
    ]  # fmt: skip
    assert rows[1]["epsilon"] == epsilon([Charge(3.0, times=2)], 1e-3).epsilon and rows[1]["delta"] == 1e-3 and rows[1]["accountant"]
    assert [r["client"] for r in json.loads(call("show", path.parent, "--client", "9", "--json"))] == ["9", "9"]
    assert "exact composition of Gaussians" in call("show", path)


def test_export_gives_every_row_as_csv_and_as_lines_of_json(path):
    lines = [json.loads(line) for line in call("export", path, "--json").splitlines()]
    table = list(csv.DictReader(StringIO(call("export", path))))
    assert [line["sequence"] for line in lines] == [1, 2, 3, 4, 5] == [int(row["sequence"]) for row in table]
    assert lines[4]["server"] == [[2.0, 0.5, 3]] == json.loads(table[4]["server"]) and lines[4]["peer"] is None and lines[0]["replay"] == "x" == table[0]["replay"]
    assert [json.loads(line)["client"] for line in call("export", path, "--format", "json", "--client", "10").splitlines()] == ["10"] * 3


def test_verify_tells_what_a_whole_ledger_holds(path):
    facts = json.loads(call("verify", path, "--json"))
    assert (facts["releases"], facts["clients"], facts["runs"]) == (5, 2, 2) and len(facts["seal"]) == 64
    assert any("client 10" in line and "view server" in line for line in facts["most_spent"])


@pytest.fixture
def run(recipe, tmp_path):
    """A run under a budget, whose ledger another run has charged too, and itself once more than it has receipts for."""
    out = experiment.create(replace(recipe, method=Full(), mean="equal", norm="none", rounds=3, budget=Budget(colluders=2)), tmp_path / "run")
    experiment.finish(out)
    with Ledger(out / "ledger.sqlite") as ledger:
        for name, round in (("another/run", 1), (json.loads((out / "run.json").read_text())["run"], 99)):
            ledger.charge("0", name, round, "client", {"server": (Charge(1.0),)})
    return out


def test_verify_works_the_rows_of_a_run_out_again_from_its_receipts(run):
    facts = json.loads(call("verify", run, "--json"))
    assert facts["receipts"] == 12 and facts["rows_without_receipt"] == 1 and facts["releases"] == 14


def test_a_row_that_nothing_bounds_covers_what_a_method_that_peeks_let_out(recipe, tmp_path):
    experiment.run(replace(recipe, method=LaDP(), mean="equal", norm="none", rounds=2, budget=Budget()), tmp_path / "peeks")
    facts = json.loads(call("verify", tmp_path / "peeks", "--json"))
    assert facts["receipts"] == 8 and facts["rows_without_receipt"] == 0 and "epsilon inf" in facts["most_spent"][0]


@pytest.mark.parametrize("change, complaint", [
    (lambda r: {**r, "multipliers": [z / 2 for z in r["multipliers"]]}, "a row of other charges than z ="),
    (lambda r: {**r, "clients": [77, *r["clients"][1:]]}, "client 77, round 3: the ledger has no row"),
    (lambda r: {**r, "round": 50}, "round 50: the ledger has no row"),
])
def test_an_upload_that_was_not_charged_is_found(run, change, complaint):
    lines = (run / "rounds.jsonl").read_text().splitlines()
    (run / "rounds.jsonl").write_text("".join(line + "\n" for line in [*lines[:-1], json.dumps(change(json.loads(lines[-1])))]))
    with pytest.raises(Problem, match=complaint):
        call("verify", run)


@pytest.mark.parametrize("words, complaint", [
    (("show", "nowhere.sqlite"), "nowhere.sqlite is not there"),
    (("verify", "."), "ledger.sqlite is not there"),
    (("export", "PATH", "--format", "xml"), "unknown format 'xml'"),
    (("show", "PATH", "--delta", "0"), "delta must lie strictly between 0 and 1, got 0"),
    (("show", "PATH", "--client", "11"), "client '11' has released nothing"),
])
def test_what_cannot_be_answered_is_refused_in_one_line_and_makes_no_file(path, words, complaint, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with pytest.raises(Problem, match=complaint):
        call(*(path if word == "PATH" else word for word in words))
    assert not os.listdir(empty)


def test_corruption_is_one_line_and_exit_code_2(path):
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET charges = replace(charges, '3.0', '4.0') WHERE sequence = 2")
    db.close()
    done = subprocess.run([sys.executable, "-c", "from ladp.cli import main; main()", "ledger", "verify", path], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and "release 2 was changed or taken out" in done.stderr
