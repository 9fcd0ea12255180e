"""Methods of the user's own: found by their path, kept with the run, refused when they cannot serve."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ladp
from ladp import experiment, folder
from ladp.cli.run import settle
from ladp.errors import Problem
from ladp.mechanisms import find
from ladp.recipe import Recipe, compose, load

DRIFT = Path(__file__).with_name("drift.py")
HEAD = "from dataclasses import dataclass\nfrom typing import ClassVar\nimport ladp\nfrom ladp.mechanisms import Full\n"


def write(folder, body, name="own.py"):
    (folder / name).write_text(HEAD + body)
    return folder / name


def own(recipe, place):
    return replace(recipe, method=find(f"{place}:Drift")(), rounds=3, engine="sequential")


@pytest.fixture
def drift(tmp_path):
    """A file that can be moved and changed."""
    (tmp_path / "drift.py").write_text(DRIFT.read_text() + f"\nPLACE = {str(tmp_path)!r}\n")
    return tmp_path / "drift.py"


def test_a_folder_holds_the_text_of_its_method_and_goes_on_when_the_file_is_gone(recipe, drift, tmp_path):
    chosen = own(recipe, drift)
    whole = ladp.run(chosen, tmp_path / "whole")
    out, text = experiment.create(chosen, tmp_path / "a"), drift.read_bytes()
    drift.unlink()
    assert (out / folder.METHOD).read_bytes() == text and 'name = "method.py:Drift"' in (out / folder.RECIPE).read_text()
    again = "import sys, json, ladp; print(json.dumps(ladp.finish(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", again, str(out)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["digest"] == whole["digest"] and load(out / folder.RECIPE) == chosen
    assert folder.get_json(out / folder.ABOUT)["method"] == "drift"


def test_a_method_that_was_changed_is_refused_by_the_run_that_began_with_it(recipe, drift, tmp_path):
    out = experiment.create(own(recipe, drift), tmp_path / "a")
    (out / folder.METHOD).write_text((out / folder.METHOD).read_text().replace("1 + turns", "2 + turns"))
    with pytest.raises(Problem, match="method.py is not the text that the recipe counts on.*restore it"):
        ladp.finish(out)


def test_the_digest_of_a_recipe_knows_the_text_and_not_the_place(recipe, drift, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = drift.rename(tmp_path / "elsewhere/other.py")
    text = moved.read_text()
    one = own(recipe, moved).digest
    again = moved.rename(tmp_path / "back.py")
    assert own(recipe, again).digest == one
    again.write_text(text.replace("0.01", "0.02"))
    assert own(recipe, again).digest != one


def test_a_recipe_names_a_file_beside_it_and_the_command_line_one_anywhere(drift, tmp_path, monkeypatch):
    (tmp_path / "r.toml").write_text('[method]\nname = "drift.py:Drift"\nfirst = 0.5\n')
    monkeypatch.chdir("/")
    assert load(tmp_path / "r.toml").method.first == 0.5
    given = {"run": {}, "method": {"name": f"{drift}:Drift", "epsilon": None}}
    assert settle(given, ["method.first=2"], "as-run", None).method.first == 2
    assert settle(given, [], None, tmp_path / "r.toml").method.first == 0.5
    with pytest.raises(Problem, match="option of method 'drift' 'epsilon'"):
        settle(given | {"method": {**given["method"], "epsilon": 0.5}}, [], None, None)


def test_the_source_in_a_recipe_must_be_that_of_the_file(drift, tmp_path):
    with pytest.raises(Problem, match="drift.py is not the text that the recipe counts on: its sha256 is"):
        compose({"method": {"name": f"{drift}:Drift", "source": "0" * 64}})
    with pytest.raises(Problem, match="source is for a method of your own, and 'full' is none"):
        compose({"method": {"name": "full", "source": "0" * 64}})


def test_a_class_on_the_python_path_is_found_by_its_module_and_told_by_its_source(tmp_path, monkeypatch, recipe):
    write(tmp_path, "@dataclass(frozen=True)\nclass Mine(Full):\n    weight: float = 2.0\n", "minemodule.py")
    monkeypatch.syspath_prepend(tmp_path)
    chosen = replace(recipe, method=find("minemodule:Mine")(), rounds=1, engine="sequential")
    assert type(find("minemodule.Mine")()) is type(chosen.method) and chosen.method.name == "mine"
    out = experiment.create(chosen, tmp_path / "a")
    assert 'name = "minemodule:Mine"' in (out / folder.RECIPE).read_text() and not (out / folder.METHOD).exists()
    assert load(out / folder.RECIPE) == chosen
    (tmp_path / "minemodule.py").write_text("changed")
    with pytest.raises(Problem, match="minemodule is not the text that the recipe counts on"):
        ladp.finish(out)


def test_expected_noise_of_a_users_method_is_its_own_plan(drift):
    from typer.testing import CliRunner

    from ladp.cli.noise import app

    asked = ["expected", "--method", f"{drift}:Drift", "--model", "cnn-small", "--channels", "1", "--size", "8", "--rounds", "3", "--active", "4", "--json"]
    found = json.loads(CliRunner().invoke(app, asked, catch_exceptions=False).output)
    assert found["sigma"] == pytest.approx(0.01) and found["last_sigma"] == pytest.approx(0.03) and found["taken"] is None


@pytest.mark.parametrize(
    "body, place, words",
    [
        ("class Own: pass", "own.py:Own", r"own.py:Own' is not a subclass of ladp.Mechanism: write class Own\(ladp.Mechanism\)"),
        ("class Own(Full):\n    weight: float = 1.0", "own.py:Own", "is not a dataclass, so 'weight' is no option: write @dataclass"),
        ("@dataclass(frozen=True)\nclass Own(ladp.Mechanism): pass", "own.py:Own", "leaves out certify, plan"),
        ("@dataclass(frozen=True)\nclass Own(Full):\n    weight: tuple = (1, 2)", "own.py:Own", r"option 'weight'.* is \(1, 2\) by default"),
        ("@dataclass(frozen=True)\nclass Own(Full):\n    share: float = 1.0", "own.py:Own", "option 'share' .* would hide what every method does"),
        ("@dataclass(frozen=True)\nclass Own(Full):\n    source: str = 'a'", "own.py:Own", "has an option 'source', which means something else"),
        ("@dataclass(frozen=True)\nclass Own(Full):\n    name: ClassVar[str] = 'full'", "own.py:Own", "cannot be called 'full': it must be a word of its own"),
        ("@dataclass(frozen=True)\nclass Own(Full):\n    name: ClassVar[str] = 'a/b'", "own.py:Own", "cannot be called 'a/b'"),
        ("class Own(Full): pass", "own.py:Owm", "did you mean 'Own'"),
        ("", "own.py:Own", "has no class 'Own', and no other"),
        ("1 / 0", "own.py:Own", "own.py, the file of the method, cannot be imported: ZeroDivisionError"),
        ("class Own(Full): pass", "own.py", "is a file without a class: write .*own.py:Class"),
        ("", "away.py:Own", "away.py, the file of the method, cannot be read: No such file"),
        ("", "no.such:Own", "cannot be imported: ModuleNotFoundError.*file.py:Class"),
    ],
)
def test_what_cannot_serve_is_refused_with_the_remedy(tmp_path, body, place, words):
    write(tmp_path, body + "\n")
    with pytest.raises(Problem, match=words):
        find(place if place.startswith("no") else str(tmp_path / place))


def test_a_class_inside_a_function_is_refused_before_a_folder_is_made(recipe, tmp_path):
    from ladp.mechanisms import Full

    class Hidden(Full):
        """Nobody can find it again."""

    with pytest.raises(Problem, match="Hidden' cannot be found again when the run goes on: define its class at the top"):
        experiment.create(replace(recipe, method=Hidden()), tmp_path / "a")
    assert not (tmp_path / "a" / folder.RECIPE).exists()


def test_a_method_of_ones_own_is_no_other_in_a_recipe(drift):
    chosen = Recipe(method=find(f"{drift}:Drift")(first=0.25))
    assert chosen.method.name == "drift" and Recipe(method=find(f"{drift}:Drift")(first=0.25)) == chosen
