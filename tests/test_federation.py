"""Algorithm 1 beside a plain re-implementation of a round."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ladp.data.partition import create
from ladp.errors import Problem
from ladp.federation import VARIANCE_FLOOR, begin, federate, floor_variances
from ladp.mechanisms import Full, NoNoise
from ladp.privacy.mechanism import Plan
from ladp.training.sequential import Sequential


class Recorder(Sequential):
    """Keeps what was uploaded."""

    def round(self, *arguments):
        self.uploads = super().round(*arguments)
        return self.uploads


@pytest.mark.parametrize("weighting", ["size", "equal"])
def test_the_new_global_model_is_the_weighted_mean_of_the_uploads(recipe, make_work, weighting):
    work = make_work(replace(recipe, partition=create("dirichlet", alpha=0.5), precision="float64"))
    engine = Recorder(work)
    for event in federate(work, engine, begin(work), 2, weighting):
        sizes = np.array([len(work.split.indices(c)) for c in event.cohort], float)
        assert len(set(sizes)) > 1
        weights = sizes / sizes.sum() if weighting == "size" else np.full(len(sizes), 1 / len(sizes))
        wanted = (weights[:, None] * engine.uploads.rows.numpy()).sum(0)
        np.testing.assert_allclose(event.state.current.numpy(), wanted, rtol=1e-12)


def test_cohorts_are_drawn_without_replacement_and_uniformly(recipe, make_work):
    work = make_work(recipe)
    cohorts = [work.cohort(t) for t in range(1, 2001)]
    assert all(len(set(c)) == work.active for c in cohorts)
    counts = np.bincount(np.concatenate(cohorts), minlength=10)
    expected, spread = 2000 * 0.4, np.sqrt(2000 * 0.4 * 0.6)
    assert (abs(counts - expected) < 4.5 * spread).all()


def test_what_came_before_does_not_change_a_round(recipe, make_work):
    work = make_work(recipe)
    events = list(federate(work, Sequential(work), begin(work), 4))
    again = list(federate(work, Sequential(work), events[1].state, 4))
    assert [e.state.round for e in again] == [3, 4]
    assert torch.equal(again[-1].state.current, events[-1].state.current)


def test_negative_variances_are_floored_where_statistics_are_noised(recipe, make_work):
    work = make_work(replace(recipe, norm="batch", method=Full(epsilon=0.05, state="all")))
    row = torch.full((work.layout.size,), -1.0)
    floor_variances(work, row)
    floored = {name for name, view in work.layout.views(row).items() if (view == VARIANCE_FLOOR).all()}
    assert floored == {"features.0.1.running_var", "features.1.1.running_var"} and (row == -1).sum() == work.layout.size - 48


def test_integer_buffers_are_averaged_and_rounded_and_never_noised(recipe, make_work):
    work = make_work(replace(recipe, norm="batch", method=Full(epsilon=0.05, state="all"), partition=create("iid")))
    state = list(federate(work, Sequential(work), begin(work), 2))[-1].state
    assert state.counts.dtype == torch.int64 and state.counts.tolist() == [2 * work.training.steps(int(work.split.sizes()[0]))] * len(state.counts)


def test_more_active_clients_than_there_are_is_refused(recipe, make_work):
    work = make_work(recipe, active=11)
    with pytest.raises(Problem, match="11 active clients asked for, but there are 10"):
        next(federate(work, Sequential(work), begin(work), 1))


class Counting(NoNoise):
    """Remembers how often each client took part, and noises nothing."""

    def remembers(self, layout):
        return 2

    def plan(self, seen, local=None, memory=None):
        plan = super().plan(seen, local)
        return Plan(plan.layers, plan.sigma, memory=memory + torch.tensor([1.0, seen.round]))


@pytest.mark.parametrize("engine", ["sequential", "parallel"])
def test_what_a_client_remembers_is_its_own_and_lasts(recipe, make_work, engine):
    from ladp import training

    work = make_work(replace(recipe, method=Counting()))
    running = training.start(work, engine)
    events = list(federate(work, running, begin(work), 5))
    running.close()
    for client, memory in events[-1].state.memory.items():
        took_part = [e.state.round for e in events if client in e.cohort]
        assert memory.tolist() == [len(took_part), sum(took_part)]
