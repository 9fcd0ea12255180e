import tomllib
from dataclasses import FrozenInstanceError, replace

import pytest

from ladp.data.partition import create
from ladp.errors import Problem
from ladp.mechanisms import Full, LaDP
from ladp.recipe import PRESETS, Recipe, compose, dump, load, underlay


def test_a_recipe_is_frozen_and_comes_back_from_its_own_toml():
    recipe = Recipe(method=LaDP(bound="q0.1"), partition=create("dirichlet", alpha=0.3), norm="group", data="cifar10", root='a "b"\\c', seed=9)
    assert compose(tomllib.loads(dump(recipe))) == recipe
    with pytest.raises(FrozenInstanceError):
        recipe.seed = 1


def test_the_digest_changes_with_what_decides_the_result_and_with_nothing_else():
    recipe = Recipe()
    same = [replace(recipe, root="x"), replace(recipe, engine="sequential"), replace(recipe, device="cpu"), replace(recipe, workers=3)]
    other = [replace(recipe, seed=1), replace(recipe, rounds=31), replace(recipe, method=LaDP(epsilon=0.4)), replace(recipe, partition=create("iid")), replace(recipe, precision="float64")]
    assert {r.digest for r in same} == {recipe.digest}
    assert len({r.digest for r in other} | {recipe.digest}) == len(other) + 1


def test_the_as_run_preset_is_what_the_paper_ran():
    recipe = compose(underlay("as-run", {"run": {"data": "cifar10"}, "method": {"name": "full", "epsilon": 0.2}}))
    assert (recipe.clients, recipe.active, recipe.rounds, recipe.mean, recipe.model) == (100, 10, 400, "equal", "cnn")
    assert recipe.method == Full(epsilon=0.2, delta=0.02, sensitivity="as-run", kappa=0.01, state="all")
    assert recipe.partition == create("isolation-overlap") and recipe.training.augment
    assert (recipe.training.epochs, recipe.training.batch, recipe.training.lr, recipe.training.clip) == (2, 50, 0.1, 20.0)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", ["none", "full", "ladp"])
def test_every_preset_goes_with_every_method_and_yields_to_the_users_options(preset, method):
    recipe = compose(underlay(preset, {"run": {"rounds": 3}, "method": {"name": method}, "partition": {"name": "dirichlet", "alpha": 1.0}}))
    assert (recipe.rounds, recipe.method.name, recipe.partition) == (3, method, create("dirichlet", alpha=1.0))


@pytest.mark.parametrize(
    "tables,words",
    [
        ({"run": {"clints": 3}}, "option of the recipe 'clints': did you mean 'clients'"),
        ({"runn": {}}, "did you mean 'run'"),
        ({"run": {"data": "cifar"}}, "did you mean 'cifar1"),
        ({"method": {"name": "lapd"}}, "did you mean 'ladp'"),
        ({"method": {"name": "full", "bound": 1.0}}, "option of method 'full' 'bound'"),
        ({"method": {"name": "full", "epsilon": 0}}, "epsilon.*0"),
        ({"method": {"name": "full", "epsilon": "much"}}, "epsilon of method 'full' must be float, got 'much'"),
        ({"run": {"rounds": 2.5}}, "rounds of the recipe must be int, got 2.5"),
        ({"run": {"rounds": True}}, "rounds of the recipe must be int, got True"),
        ({"run": {"rounds": 0}}, "rounds must be at least 1, got 0"),
        ({"run": {"active": 30, "clients": 20}}, "30 active clients asked for, but there are 20"),
        ({"run": {"method": "ladp"}}, r"give it a table of its own, \[method\]"),
        ({"run": {"mean": "median"}}, "unknown mean 'median'"),
        ({"training": {"clip": -2.0}}, "clip must be positive, got -2.0"),
        ({"partition": {"name": "isolaton"}}, "did you mean 'isolation'"),
        ({"partition": {"name": "dirichlet", "beta": 1}}, "option of partition 'dirichlet' 'beta'"),
    ],
)
def test_what_is_unknown_or_wrong_in_a_recipe_is_refused_by_name(tables, words):
    with pytest.raises(Problem, match=words):
        compose(tables)


def test_a_file_that_is_missing_or_not_toml_is_named(tmp_path):
    with pytest.raises(Problem, match="nothing.toml cannot be read"):
        load(tmp_path / "nothing.toml")
    (tmp_path / "bad.toml").write_text("[run\n")
    with pytest.raises(Problem, match="bad.toml is not TOML"):
        load(tmp_path / "bad.toml")
