"""The paper's metrics of a run folder: noise scale, accumulated budget and training duration, from its records."""

from pathlib import Path

import torch
from safetensors import safe_open

from ladp.errors import Problem
from ladp.folder import MODEL
from ladp.mechanisms import METHODS
from ladp.mechanisms.gaussian import SENSITIVITIES, GaussianMethod
from ladp.metrics.budget import distrusted, records_a_client, spent
from ladp.metrics.duration import training_seconds
from ladp.metrics.noise import noise_per_coordinate, noise_scale
from ladp.recipe import Recipe, compose
from ladp.report.runs import Run, read

READINGS = ("largest", "mean", "summed")  # of layers that differ in noise: see ladp.privacy.naive.Spent
STATISTICS = ("running_mean", "running_var")


def totals(folder: Path | str) -> dict:
    """What the paper's tables and curves would show of a run; None where the folder or the method does not tell."""
    run = read(folder)
    if not run.rounds:
        raise Problem(f"{folder} has no round yet: nothing can be summed up")
    recipe, sizes = compose(run.recipe), _sizes(run)
    shown = {"folder": str(folder), "method": run.facts["method"], "rounds": len(run.rounds), "noise_scale": noise_scale(run.rounds)}
    shown |= {"noise_per_coordinate": sizes and noise_per_coordinate(run.rounds, sizes), "seconds": training_seconds(run.rounds)}
    return shown | {"accumulated": _accumulated(run, recipe), "distrusted": distrusted(METHODS)}


def _accumulated(run: Run, recipe: Recipe) -> dict | None:
    """The paper's accountant with its q and T; None for a method that has no sensitivity, or that takes it from a clip and not as the paper ran it."""
    if not isinstance(recipe.method, GaussianMethod) or run.recipe["method"].get("form", "as-run") != "as-run":
        return None
    size, training = records_a_client(run.rounds, recipe.training), recipe.training
    clients = max(recipe.active - (run.facts.get("curious") is not None), 1)  # as the paper plots it: the honest ones
    facts = {"q": min(training.batch, size) / size, "T": clients * training.steps(size) * len(run.rounds), "clients": clients, "records": size}
    found = spent(run.rounds, _sensitivity(recipe, size), recipe.method.delta, training, clients)
    readings = {name: vars(getattr(found, name)) | {"meaningless": getattr(found, name).meaningless} for name in READINGS}
    return facts | readings | {"bare": list(found.bare)}


def _sensitivity(recipe: Recipe, size: int) -> float:
    """The method's Delta for a client of `size` records."""
    steps = torch.tensor([recipe.training.steps(size)])
    return SENSITIVITIES[recipe.method.sensitivity](recipe.training, steps, recipe.method.kappa).item()


def _sizes(run: Run) -> dict[str, int] | None:
    """How many numbers each layer has, from the final weights; None for a run that has none yet."""
    if not (run.folder / MODEL).exists():
        return None
    with safe_open(run.folder / MODEL, "pt") as file:
        sizes = {name: torch.Size(file.get_slice(name).get_shape()).numel() for name in file.keys()}
    if run.recipe["method"].get("state") != "all":
        sizes = {name: size for name, size in sizes.items() if not name.endswith(STATISTICS)}
    return {layer: sum(size for name, size in sizes.items() if layer in (name, name.rpartition(".")[0])) for layer in run.facts["layers"]}
