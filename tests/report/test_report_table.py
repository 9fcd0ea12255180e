"""The tables say what the page says, in the signs that their formats allow; the command line prints them."""

import csv
import io
import json
import re
import subprocess
import sys

import pytest
from invented import make
from typer.testing import CliRunner

from ladp import report
from ladp.cli import app
from ladp.cli.report import display
from ladp.report import table

DANGEROUS = "a|b <i> 50% x_y {z} \\ # & $ ~ ^"


def ladp(*arguments) -> subprocess.CompletedProcess:
    program = "from ladp.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, "report", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def rows(runs) -> list[dict]:
    return report.rows([runs])


def test_every_epsilon_carries_delta_unit_view_and_accountant(rows):
    for row in rows:
        for name in ("claimed", "certified"):
            terms = [row[f"{name}_{key}"] for key in ("delta", "unit", "view", "accountant")]
            assert row[f"{name}_epsilon"] is None or None not in terms


def test_rows_are_json_with_infinity_as_a_word(rows):
    assert {row["certified_epsilon"] for row in json.loads(json.dumps(rows, allow_nan=False))} == {"inf"}
    assert all(row["reasons"] for row in rows)


def test_markdown_has_a_line_for_each_row_and_the_reasons_beneath(rows):
    lines = table.markdown(rows).splitlines()
    assert len({line.count("|") for line in lines[:7]}) == 1 and lines[7] == ""
    assert any("no finite ε is certified" in line and "full ε 0.2 and full ε 0.5" in line for line in lines)


def test_csv_gives_every_value_back(rows):
    read = list(csv.DictReader(io.StringIO(table.comma(rows))))
    assert [float(line["accuracy"]) for line in read] == [row["accuracy"] for row in rows]
    assert read[1]["certified_epsilon"] == "inf" and read[1]["seeds"] == "0; 1; 2"


def test_latex_is_plain_ascii(rows):
    text = table.latex(rows)
    assert text.isascii() and text.count(r"\hline") == 3
    assert r"$\infty$" in text and r"$\sigma$ depends" in text


def test_names_are_escaped_in_every_format(rows):
    row = rows[1] | {"label": DANGEROUS}
    assert r"a\|b &lt;i> 50%" in table.markdown([row])
    assert r"a|b \textless{}i\textgreater{} 50\% x\_y \{z\} \textbackslash{} \# \& \$ \textasciitilde{}" in table.latex([row])
    assert next(csv.DictReader(io.StringIO(table.comma([row]))))["label"] == DANGEROUS


def test_the_command_line_writes_the_page_and_shows_the_table(runs, tmp_path):
    done = ladp(runs, "--out", tmp_path / "new" / "page.html", "--title", "Of digits")
    assert done.returncode == 0 and "ladp ε 0.5" in done.stdout and "∞" in done.stdout
    assert "<h1>Of digits</h1>" in (tmp_path / "new" / "page.html").read_text("utf-8")


@pytest.mark.parametrize("width", [80, 107, 108])
def test_the_table_fits_the_terminal_and_breaks_no_word(rows, width, monkeypatch, capsys):
    for name, value in {"COLUMNS": str(width), "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    display(rows)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    top = " ".join(lines[:12]).split()
    assert {word for heading in table.HEADINGS for word in heading.split()} <= set(top)
    assert [line.rstrip()[-1] for line in lines if line.strip().startswith(("full", "ladp"))] == ["3"] * 4


def test_help_shows_the_defaults_that_stand_in_brackets():
    shown = CliRunner().invoke(app, ["report", "--help"], env={"COLUMNS": "200"}).stdout
    assert "[report.html; tables go to standard output]" in shown and "[model and data]" in shown


def test_two_claims_that_nothing_certifies_come_with_a_warning(rows):
    warning = "Equal claimed ε is not equal protection"
    assert table.notes(rows)[-1].startswith(warning)
    assert not [note for note in table.notes(rows[:2]) if warning in note]


def test_the_command_line_prints_json_and_nothing_else(runs, tmp_path):
    found = json.loads(ladp(runs, "--out", tmp_path / "page.html", "--json").stdout)
    assert found["out"] == str(tmp_path / "page.html") and len(found["rows"]) == 5


def test_a_table_goes_to_standard_output_or_to_a_file(runs, tmp_path):
    printed = ladp(runs, "--format", "csv").stdout
    assert ladp(runs, "--format", "csv", "--out", tmp_path / "rows.csv").stdout == f"wrote {tmp_path / 'rows.csv'}\n"
    assert printed == (tmp_path / "rows.csv").read_text("utf-8") == table.comma(report.rows([runs]))


def test_a_method_named_like_terminal_markup_is_printed_as_it_is(tmp_path):
    make(tmp_path, method="[red]x[", rounds=2)
    assert "[red]x[ ε 0.5" in ladp(tmp_path, "--out", tmp_path / "page.html").stdout


@pytest.mark.parametrize(("arguments", "said"), [
    (["nowhere"], "no folder nowhere"), ([".", "--format", "pdf"], "unknown format 'pdf'"), ([".", "--format", "csv", "--title", "x"], "--title")])
def test_a_refusal_is_one_line_and_exit_code_two(arguments, said):
    done = ladp(*arguments)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1
