"""Run folders are read as written, and refused by file and line."""

import json
import shutil

import pytest
from invented import make

from ladp.errors import Problem
from ladp.recipe import PLACES
from ladp.report.configuration import ASIDE, gather
from ladp.report.runs import find, read


def test_runs_of_one_recipe_are_one_configuration_over_their_seeds(runs):
    found = gather([runs])
    assert [one.label for one in found] == ["none", "full ε 0.2", "full ε 0.5", "ladp ε 0.2", "ladp ε 0.5"]
    assert all([run.facts["seed"] for run in one.runs] == [0, 1, 2] for one in found)


def test_where_a_run_ran_does_not_make_it_another_configuration():
    assert {f"run.{place}" for place in PLACES} | {"run.seed"} == ASIDE


def test_mean_and_sample_deviation_are_over_seeds(runs):
    full = gather([runs])[1]
    values = [json.loads((run.folder / "result.json").read_text())["accuracy"] for run in full.runs]
    mean = sum(values) / 3
    found = full.spread(lambda run: run.final("accuracy"))
    assert found.mean == pytest.approx(mean)
    assert found.deviation == pytest.approx((sum((value - mean) ** 2 for value in values) / 2) ** 0.5)


def test_recipes_that_share_method_and_epsilon_are_told_apart_by_what_differs(tmp_path):
    make(tmp_path / "a", momentum=0.1)
    make(tmp_path / "b", momentum=0.9)
    assert [one.label for one in gather([tmp_path])] == ["full ε 0.5, momentum 0.1", "full ε 0.5, momentum 0.9"]


def test_a_folder_named_twice_counts_once(runs):
    assert len(find([runs, runs, runs / "none-free-0"])) == 15


def test_a_repeated_seed_is_no_new_evidence(runs):
    shutil.copytree(runs / "full-0.5-0", runs / "again")
    full = gather([runs])[2]
    assert len(full.runs) == 3 and full.remarks == ["seed 0 repeated, not counted"]


def test_an_unfinished_run_is_not_counted_beside_finished_ones(tmp_path):
    make(tmp_path, seed=0)
    make(tmp_path, seed=1, reached=9)
    one = gather([tmp_path])[0]
    assert [run.facts["seed"] for run in one.runs] == [0]
    assert one.remarks == ["seed 1 unfinished, round 9 of 30, not counted"]


def test_an_unfinished_run_alone_is_shown_as_far_as_it_came(tmp_path):
    run = read(make(tmp_path, rounds=8, reached=5, every=3))
    assert run.state == "unfinished, round 5 of 8"
    assert run.final("accuracy") == run.rounds[2]["accuracy"] is not None


def test_a_finished_run_that_diverged_does_not_show_the_loss_of_an_earlier_round(tmp_path):
    folder = make(tmp_path, rounds=3)
    (folder / "result.json").write_text(json.dumps({"accuracy": 0.1, "loss": None}))
    assert read(folder).final("loss") is None


def test_a_torn_last_line_is_left_out_with_a_note(tmp_path):
    folder = make(tmp_path, rounds=4)
    text = (folder / "rounds.jsonl").read_bytes()
    (folder / "rounds.jsonl").write_bytes(text[:-30])
    run = read(folder)
    assert len(run.rounds) == 3 and "torn" in run.notes[0]


def test_a_round_written_twice_counts_as_last_written(tmp_path):
    folder = make(tmp_path, rounds=2)
    with open(folder / "rounds.jsonl", "a") as file:
        file.write(json.dumps({"round": 2, "accuracy": 0.25}) + "\n")
    assert [record["round"] for record in read(folder).rounds] == [1, 2]
    assert read(folder).rounds[1]["accuracy"] == 0.25


def test_a_run_that_was_cut_off_and_went_on_says_so(tmp_path):
    folder = make(tmp_path, rounds=2)
    facts = json.loads((folder / "run.json").read_text()) | {"starts": [{"after_round": 0}, {"after_round": 1, "device": "cpu"}]}
    (folder / "run.json").write_text(json.dumps(facts))
    assert read(folder).notes == ("went on after round 1 on cpu",)


@pytest.mark.parametrize(("name", "content", "said"), [
    ("run.json", b'{\n"method": oops}', "run.json, line 2"),
    ("run.json", b"[]", "run.json, line 1"),
    ("run.json", b"{}", "'method'"),
    ("run.json", b'{"method": "x", "rounds": 1, "seed": 0, "certified": "yes"}', "'certified' must be an object"),
    ("recipe.toml", b"seed = 1\nrounds = = 2\n", "recipe.toml: not a recipe.*line 2"),
    ("rounds.jsonl", b'{"round": 1}\n\xff\xfe\n{"round": 3}\n', "rounds.jsonl, line 2"),
    ("rounds.jsonl", b'{"round": 1}\n{"round": "two"}\n{"round": 3}\n', "rounds.jsonl, line 2"),
    ("result.json", b'{"accuracy": ', "result.json, line 1"),
])
def test_a_corrupt_file_is_refused_by_name_and_line(tmp_path, name, content, said):
    folder = make(tmp_path, rounds=2)
    (folder / name).write_bytes(content)
    with pytest.raises(Problem, match=said):
        read(folder)


def test_a_missing_recipe_is_named(tmp_path):
    folder = make(tmp_path, rounds=2)
    (folder / "recipe.toml").unlink()
    with pytest.raises(Problem, match="recipe.toml"):
        read(folder)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(Problem, match="no run under"):
        find([tmp_path])
    with pytest.raises(Problem, match="no folder"):
        find([tmp_path / "nowhere"])
