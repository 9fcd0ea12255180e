"""Laws of whole runs, for every method in each of its forms: resumed runs and other engines end alike, and counters stay what was counted."""

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
import torch
from variants import VARIANTS

import ladp
from ladp import experiment, folder, training
from ladp.data.partition import create
from ladp.federation import begin, federate
from ladp.params import Layout
from ladp.privacy.mechanism import Training

every = pytest.mark.parametrize("name", [name for name, method in VARIANTS.items() if not method.needs_budget])
REMEMBERING = [name for name, method in VARIANTS.items() if method.remembers(Layout.of(ladp.models.create("cnn-small", channels=1, size=8)))]
GENTLE = {"epsilon": 400.0, "delta": 1e-5}  # so that faithful forms, whose epsilon is a total, still learn
CLOSE = {"full faithful": dict(epsilon=4e4), "time-varying faithful": GENTLE, "dpa faithful": GENTLE, "adapldp faithful": GENTLE, "adapldp intended": GENTLE,
         "sensitive faithful": GENTLE, "sensitive public faithful": GENTLE, "sensitive as-run": dict(reference=2.0, least=0.01, most=10.0)}  # fmt: skip


@pytest.fixture
def short(recipe):
    """Few clients, so that each takes part more than once."""
    return lambda name, **more: replace(recipe, method=replace(VARIANTS[name], **CLOSE.get(name, {})), clients=6, active=3, rounds=5, training=Training(batch=50, epochs=1), engine="sequential", **more)


def rounds(work, engine):
    running = training.start(work, engine)
    with closing(running):
        return [(event.state, event.receipt, event.downlink) for event in federate(work, running, begin(work), 4)]


def same(one, other, close):
    torch.testing.assert_close(one, other, rtol=close, atol=close, equal_nan=True)


@every
def test_engines_agree_in_float64_and_counters_are_never_noised(short, make_work, name):
    work = make_work(short(name, norm="batch", precision="float64", partition=create("iid")), workers=2)
    plain, *others = (rounds(work, engine) for engine in ("sequential", "parallel", "stacked"))
    for close, other in zip((0.0, 1e-7), others, strict=True):
        for (state, receipt, down), (state2, receipt2, down2) in zip(plain, other, strict=True):
            same(state.current, state2.current, close)
            same(receipt.sigma, receipt2.sigma, close), same(receipt.noise, receipt2.noise, close), same(torch.tensor(down), torch.tensor(down2), close)
            same(state.shared, state2.shared, close)
            assert state.memory.keys() == state2.memory.keys()
            [same(state.memory[client], state2.memory[client], close) for client in state.memory]
    steps = work.training.steps(int(work.split.sizes()[0]))
    for state, *_ in (*plain, *others[0], *others[1]):
        assert state.current.isfinite().all() and state.counts.tolist() == [steps * state.round] * len(state.counts)


@pytest.mark.parametrize("name", REMEMBERING)
def test_what_a_method_remembers_survives_a_cut_to_the_last_bit(short, tmp_path, name):
    recipe = short(name)
    whole = ladp.run(recipe, tmp_path / "whole")
    out = experiment.create(recipe, tmp_path / "cut")
    with closing(experiment.play(out)) as records:
        list(islice(records, 3))
    assert ladp.finish(out)["digest"] == whole["digest"]
    state, _ = folder.load_state(out / folder.CHECKPOINT, recipe.digest, "cpu")
    other, _ = folder.load_state(tmp_path / "whole" / folder.CHECKPOINT, recipe.digest, "cpu")
    assert state.memory.keys() == other.memory.keys() and all(torch.equal(state.memory[c], other.memory[c]) for c in state.memory) and torch.equal(state.shared, other.shared)


@pytest.mark.parametrize("name", REMEMBERING)
def test_memory_matters_a_run_without_it_ends_otherwise(short, make_work, name):
    """Else the law of resuming would hold for want of anything to lose."""
    work = make_work(short(name))
    engine = training.start(work, "sequential")
    events = list(federate(work, engine, begin(work), 4))
    forgotten = replace(events[1].state, memory={}, shared=torch.zeros_like(events[1].state.shared))
    assert not torch.equal(list(federate(work, engine, forgotten, 4))[-1].state.current, events[-1].state.current)


def test_a_killed_run_goes_on_with_all_that_its_clients_remember(short, tmp_path):
    recipe = replace(short("adapldp faithful"), rounds=30)
    whole = ladp.run(recipe, tmp_path / "whole")
    out = experiment.create(recipe, tmp_path / "killed")
    program = f"from ladp import experiment; experiment.CHECKPOINT_SECONDS = 0.02; experiment.finish({str(out)!r})"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    deadline = time.monotonic() + 60
    while not (out / folder.CHECKPOINT).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert ladp.finish(out)["digest"] == whole["digest"]


def test_noise_on_the_way_down_is_written_down(short, tmp_path):
    """By NbAFL's condition it is there for few exposures in many rounds, and Full DP as run has none."""
    for name, there in (("full faithful", True), ("full as-run", False)):
        recipe = short(name)
        recipe = replace(recipe, method=replace(recipe.method, epsilon=2.0, exposures=1), rounds=8)
        ladp.run(recipe, tmp_path / name)
        records = [json.loads(line) for line in (tmp_path / name / folder.ROUNDS).open()]
        assert all((record["downlink_noise"] > 0) == there for record in records)
