"""Small audits that everything here uses: a linear model on the digits, under a budget of 1, and as the paper ran it."""

from dataclasses import replace

import pytest

import ladp
from ladp.audit.findings import Findings
from ladp.audit.trial import Audit, conduct
from ladp.data.partition import Draw
from ladp.mechanisms import METHODS
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Training
from ladp.recipe import Recipe

COMMON = dict(method=METHODS["certified"](), model="linear", mean="equal", device="cpu")
CLIENT = Recipe(**COMMON, clients=150, active=150, rounds=2, partition=Draw(size=5), budget=Budget(epsilon=1.0, unit="client", view="server"))
RECORD = Recipe(**COMMON, clients=5, active=5, rounds=6, training=Training(lr=0.5), budget=Budget(epsilon=1.0, unit="record", view="server", rate=0.5))


@pytest.fixture
def recipe_of():
    """A recipe of a unit and a view, with some of its fields and of its budget's changed."""

    def make(unit: str, view: str, budget: dict | None = None, **changes) -> Recipe:
        base = CLIENT if unit == "client" else RECORD
        return replace(base, budget=replace(base.budget, view=view, **(budget or {})), **changes)

    return make


@pytest.fixture
def as_run():
    """The paper's method, or Full DP, as the paper ran it."""
    return lambda method, epsilon=0.2: Recipe(method=METHODS[method](epsilon=epsilon), training=ladp.Training(batch=10), device="cpu")


def audit(recipe: Recipe, **asked) -> Findings:
    """The findings of one audit."""
    *_, found = conduct(recipe, Audit(**asked))
    return found
