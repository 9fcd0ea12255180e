"""Small real things that many tests use: a digits run that takes a second, a work of two clients."""

from dataclasses import replace

import pytest
import torch

from ladp import experiment
from ladp.mechanisms import LaDP
from ladp.privacy.mechanism import Population, Seen, Training
from ladp.recipe import Recipe

torch.set_num_threads(1)


@pytest.fixture
def recipe() -> Recipe:
    """Six short rounds of LaDP on the digits."""
    return Recipe(method=LaDP(), clients=10, active=4, rounds=6, training=Training(batch=20, epochs=1), device="cpu")


@pytest.fixture
def make_work():
    """A recipe's work, on the CPU, with some of its fields changed."""

    def make(recipe: Recipe, **changes):
        work, _ = experiment.prepare(replace(recipe, device="cpu"))
        return replace(work, **changes)

    return make


@pytest.fixture
def see():
    """What is public at the start of a round: by default the first round, a cohort of two, five steps each."""

    def make(layout, current, previous=None, cohort=2, training=Training(), round=1, **more):
        each = dict(steps=torch.full((cohort,), 5), sizes=torch.full((cohort,), 100), turns=torch.full((cohort,), round - 1), shared=torch.zeros(1, dtype=torch.float64))
        return Seen(round, 10, layout, current, previous, training, Population(100, 10, 100), tuple(range(40, 40 + cohort)), **{**each, **more})

    return make
