"""Run folders: killed, interrupted, damaged, finished."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from itertools import islice

import pytest
from safetensors.torch import load_file

import ladp
from ladp import experiment, folder
from ladp.errors import Problem
from ladp.mechanisms import NoNoise
from ladp.privacy.mechanism import Training


def cut(recipe, out, after):
    """A folder whose run was closed after some rounds."""
    with closing(experiment.play(experiment.create(recipe, out))) as records:
        list(islice(records, after))
    return out


def test_a_run_folder_tells_what_ran_and_what_came_of_it(recipe, tmp_path):
    result = ladp.run(recipe, tmp_path / "a")
    about = json.loads((tmp_path / "a/run.json").read_text())
    records = [json.loads(line) for line in (tmp_path / "a/rounds.jsonl").open()]
    assert about["digest"] == recipe.digest and about["method"] == "ladp" and about["weights"] == 13_706 and about["engine"] == "parallel"
    assert [r["round"] for r in records] == list(range(1, 7))
    assert records[-1]["accuracy"] == result["accuracy"] and result["noise_scale"] == pytest.approx(sum(r["noise_scale"] for r in records))
    assert set(records[0]["noise"]) == set(records[0]["P"]) == set(about["layers"]) and all(v > 0 for v in records[0]["KL"].values())
    assert result["certified"]["epsilon"] == "inf" and len(result["certified"]["reasons"]) == 5
    assert result["claimed"]["epsilon"] == 0.5 and result["claimed"]["delta"] == 0.02


def test_the_final_weights_load_into_the_model_and_have_the_accuracy_that_was_reported(recipe, tmp_path):
    result = ladp.run(replace(recipe, norm="batch"), tmp_path / "a")
    model, dataset = ladp.models.create("cnn-small", channels=1, size=8, norm="batch"), ladp.data.load("digits")
    weights = load_file(tmp_path / "a/model.safetensors")
    assert not model.load_state_dict(weights, strict=False).unexpected_keys
    right = (model.eval()(dataset.test_images / 127.5 - 1).argmax(1) == dataset.test_labels).float().mean().item()
    assert right == pytest.approx(result["accuracy"], abs=1e-6)


def test_the_same_recipe_gives_the_same_digest_and_another_seed_another(recipe, tmp_path):
    digests = [ladp.run(r, tmp_path / str(k))["digest"] for k, r in enumerate((recipe, replace(recipe, engine="sequential"), replace(recipe, seed=1)))]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_run_that_was_cut_off_goes_on_to_the_same_last_bit(recipe, tmp_path, after):
    whole = ladp.run(recipe, tmp_path / "whole")
    out = cut(recipe, tmp_path / "cut", after)
    assert not (out / folder.RESULT).exists()
    result = ladp.finish(out)
    assert result["digest"] == whole["digest"] and result["noise_scale"] == whole["noise_scale"] and result["accumulated"] == whole["accumulated"]
    assert [json.loads(line)["clients"] for line in (out / "rounds.jsonl").open()] == [json.loads(line)["clients"] for line in (tmp_path / "whole/rounds.jsonl").open()]


@pytest.mark.parametrize("moment", [0.0, 0.4, 0.9])
def test_a_run_killed_with_sigkill_goes_on_to_the_same_last_bit(recipe, tmp_path, moment):
    recipe = replace(recipe, rounds=40, norm="batch")
    whole = ladp.run(recipe, tmp_path / "whole")
    out = experiment.create(recipe, tmp_path / "killed")
    program = f"from ladp import experiment; experiment.CHECKPOINT_SECONDS = 0.02; experiment.finish({str(out)!r})"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    deadline = time.monotonic() + 60
    while not (out / folder.CHECKPOINT).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(moment * 0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert ladp.finish(out)["digest"] == whole["digest"]


def test_a_torn_last_line_and_rounds_after_the_checkpoint_are_run_again(recipe, tmp_path):
    whole = ladp.run(recipe, tmp_path / "whole")
    out = cut(recipe, tmp_path / "torn", 3)
    with (out / "rounds.jsonl").open("a") as log:
        log.write('{"round": 4, "clients": [1]}\n{"round": 5, "cli')
    assert ladp.finish(out)["digest"] == whole["digest"]


def test_a_finished_run_is_left_alone(recipe, tmp_path):
    result = ladp.run(recipe, tmp_path / "a")
    before = (tmp_path / "a/rounds.jsonl").stat().st_mtime_ns
    assert ladp.finish(tmp_path / "a") == result and (tmp_path / "a/rounds.jsonl").stat().st_mtime_ns == before


def test_an_occupied_folder_is_refused(recipe, tmp_path):
    ladp.run(replace(recipe, rounds=1), tmp_path / "a")
    with pytest.raises(Problem, match="already holds a run: continue it with `ladp resume"):
        experiment.create(recipe, tmp_path / "a")


def test_a_folder_that_another_process_works_in_is_refused(recipe, tmp_path):
    out = experiment.create(recipe, tmp_path / "a")
    program = f"from ladp import experiment; records = experiment.play({str(out)!r}); next(records); print('at work', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"at work\n"
        with pytest.raises(Problem, match="in use by another process"):
            ladp.finish(out)
        other.communicate(b"\n")
    assert ladp.finish(out)["rounds"] == 6


def test_a_corrupt_checkpoint_is_refused_with_the_remedy_and_the_remedy_works(recipe, tmp_path):
    whole = ladp.run(recipe, tmp_path / "whole")
    out = cut(recipe, tmp_path / "a", 3)
    good = (out / folder.CHECKPOINT).read_bytes()
    for bad in (good[:-100], b"nonsense", good[:-5] + bytes([good[-5] ^ 1]) + good[-4:]):
        (out / folder.CHECKPOINT).write_bytes(bad)
        with pytest.raises(Problem, match="checkpoint .* is corrupt.*delete checkpoint.safetensors"):
            ladp.finish(out)
    (out / folder.CHECKPOINT).unlink()
    assert ladp.finish(out)["digest"] == whole["digest"]


def test_a_changed_recipe_is_refused(recipe, tmp_path):
    out = cut(recipe, tmp_path / "a", 2)
    text = (out / "recipe.toml").read_text()
    (out / "recipe.toml").write_text(text.replace("epsilon = 0.5", "epsilon = 0.6"))
    with pytest.raises(Problem, match="belongs to recipe .* recipe.toml was changed"):
        ladp.finish(out)


def test_what_a_method_remembers_survives_a_resume(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(NoNoise, "remembers", lambda self, layout: 3)
    plain = NoNoise.plan
    from ladp.privacy.mechanism import Plan

    def plan(self, seen, local=None, memory=None):
        found = plain(self, seen, local, memory)
        return Plan(found.layers, found.sigma + 1e-3 * memory[:, :1].double(), memory=memory + seen.round)

    monkeypatch.setattr(NoNoise, "plan", plan)
    recipe = replace(recipe, method=NoNoise())
    whole = ladp.run(recipe, tmp_path / "whole")
    assert whole["noise_scale"] > 0
    assert ladp.finish(cut(recipe, tmp_path / "cut", 3))["digest"] == whole["digest"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_read_only_folder_is_one_clear_line(recipe, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(Problem, match="cannot be written: Permission denied"):
        experiment.create(recipe, tmp_path / "locked/run")


def test_a_full_disk_is_one_clear_line_and_the_run_can_go_on(recipe, tmp_path, monkeypatch):
    whole = ladp.run(recipe, tmp_path / "whole")
    out = cut(recipe, tmp_path / "a", 2)
    with monkeypatch.context() as patch:
        patch.setattr(folder.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(Problem, match="cannot be written: No space left on device.*ladp resume"):
            ladp.finish(out)
    assert not list(out.glob("*.part"))
    assert ladp.finish(out)["digest"] == whole["digest"]


def test_a_model_that_does_not_fit_the_data_is_refused_before_a_folder_is_promised(recipe, tmp_path):
    with pytest.raises(Problem, match=r"'torch.nn:Flatten' has no trainable|must give \(2, 10\)"):
        experiment.create(replace(recipe, model="torch.nn:Flatten"), tmp_path / "a")
    assert not (tmp_path / "a" / folder.RECIPE).exists()


def test_evaluation_may_be_rarer_than_rounds(recipe, tmp_path):
    ladp.run(replace(recipe, evaluate_every=4), tmp_path / "a")
    tested = [r["round"] for r in map(json.loads, (tmp_path / "a/rounds.jsonl").open()) if r["accuracy"] is not None]
    assert tested == [4, 6]


def test_learning_happens(recipe, tmp_path):
    easy = replace(recipe, method=NoNoise(), rounds=15, training=Training(batch=10))
    assert ladp.run(easy, tmp_path / "a")["accuracy"] > 0.85
