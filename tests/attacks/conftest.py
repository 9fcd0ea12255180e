"""Runs to be attacked."""

import pytest

from ladp import experiment


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Run folders by recipe, each made once."""
    made = {}

    def run(recipe):
        if recipe not in made:
            made[recipe] = tmp_path_factory.mktemp("runs") / f"run{len(made)}"
            experiment.run(recipe, made[recipe])
        return made[recipe]

    return run
