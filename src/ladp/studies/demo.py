"""The demo: what local noise costs on the embedded digits, for no protection, Full DP and LaDP-FL at two epsilons, three seeds each, and what a server sees."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ladp import attacks, experiment, folder
from ladp.errors import Problem
from ladp.mechanisms import Full, LaDP, NoNoise
from ladp.privacy.mechanism import Mechanism, Training
from ladp.recipe import Recipe, load

EPSILONS = (0.1, 0.5)
SEEDS = (0, 1, 2)
# As run, kappa = .01 in place of a sensitivity; everything else is the paper's text on 20 clients. The paper does not publish R and B:
# these leave out small layers and raise the noise of those that move least, so that both modules of the method show.
METHODS: tuple[Mechanism, ...] = (NoNoise(), *(Full(epsilon=e) for e in EPSILONS), *(LaDP(epsilon=e, importance=0.5, bound=2e-6) for e in EPSILONS))
ATTACKED = ("none-s0", "full-e0.1-s0", "ladp-e0.1-s0")  # by a server that looks for the record behind an upload
BASE = Recipe(method=NoNoise(), clients=20, active=5, rounds=30, training=Training(batch=10))


def recipes(seeds: tuple[int, ...] = SEEDS) -> dict[str, Recipe]:
    """Folder name to recipe."""
    return {_name(method, seed): replace(BASE, method=method, seed=seed) for method in METHODS for seed in seeds}


def _name(method: Mechanism, seed: int) -> str:
    epsilon = getattr(method, "epsilon", None)
    return "-".join(part for part in (method.name, epsilon and f"e{epsilon:g}", f"s{seed}") if part)


def play(out: Path) -> Iterator[tuple[str, dict]]:
    """Run what is missing under `out`, yielding each run's name and result."""
    for name, recipe in recipes().items():
        where = out / name
        if not (where / folder.RECIPE).exists():
            experiment.create(recipe, where)
        elif load(where / folder.RECIPE) != recipe:
            raise Problem(f"{where} holds another recipe than the demo's: remove {out}, or choose another --out")
        yield name, experiment.finish(where)


def attack(out: Path) -> Iterator[tuple[str, dict]]:
    """Attack some of the runs, yielding each one's name and findings."""
    for name in ATTACKED:
        *_, found = attacks.carry_out(attacks.create("inversion", labels="given", victims=3, restarts=1, steps=400), out / name)
        yield name, found
