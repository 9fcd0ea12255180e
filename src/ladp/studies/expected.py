"""How much noise a method adds before any run: its own plan, asked round by round, with nothing trained."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from ladp.errors import Problem, choose
from ladp.mechanisms.gaussian import GaussianMethod
from ladp.metrics.noise import expected_noise_scale, noise_scale_deviation
from ladp.models import MODELS, create
from ladp.params import Layout
from ladp.privacy.mechanism import Mechanism, Plan, Population, Seen, Training, constant_plan
from ladp.recipe import compose, underlay
from ladp.tables import Entry, load

UNSEEN = GaussianMethod.foreseen


@dataclass(frozen=True)
class Expected:
    """The noise scale to expect, its standard deviation, sigma in the first and the last round (the mean over layers), and what is noised."""

    noise_scale: float
    sd: float
    sigma: float
    last_sigma: float
    noised_layers: int
    noised_numbers: int
    taken: str | None


def expect(mechanism: Mechanism, model: nn.Module, rounds: int, active: int, training: Training = Training(), records: int = 500,
           counters: bool = False, clients: int | None = None) -> Expected:  # fmt: skip
    """The noise of `rounds` rounds of `active` out of `clients` clients (by default all of them) with `records` records each.

    With `counters`, each integer buffer is one more number, noised at the round's mean sigma: the paper's figures are met only so.
    """
    layout = Layout.of(model)
    plans = _plans(mechanism, layout, rounds, training, Population(clients or active, active, records))
    sizes, sigma = [len(layer) for layer in plans[0].layers], np.array([plan.sigma[0].tolist() for plan in plans])
    level = sigma.mean(1, keepdims=True)
    extra = [model.get_buffer(name).numel() for name in layout.counters if counters]
    sizes, sigma = sizes + extra, np.hstack([sigma, level.repeat(len(extra), 1)])
    scale, deviation = (measure(sizes, sigma, rounds, active) for measure in (expected_noise_scale, noise_scale_deviation))
    return Expected(scale, deviation, level[0].item(), level[-1].item(), len(sizes), sum(sizes), mechanism.foreseen if mechanism.peeks else None)


def outline(model: str, classes: int, channels: int = 3, size: int = 32) -> nn.Module:
    """A network that has shapes but no weights; one from elsewhere may need its numbers, and gets them."""
    with torch.device("meta" if model in MODELS else "cpu"):
        return create(model, classes, channels, size)


def _plans(mechanism: Mechanism, layout: Layout, rounds: int, training: Training, population: Population) -> list[Plan]:
    """The plan of one client that takes part in every round, each round given what the plan before it left to remember."""
    current, memory, plans = torch.empty(layout.size, device="meta"), None, []
    if width := mechanism.remembers(layout):
        memory = torch.zeros(1, width)
    shared, records = torch.zeros(mechanism.announces(layout), dtype=torch.float64), population.smallest
    client = torch.tensor([training.steps(records)]), torch.tensor([records])
    for number in range(1, rounds + 1):
        seen = Seen(number, rounds, layout, current, current if number > 1 else None, training, population, (0,), *client, torch.tensor([number - 1]), shared)
        plans.append(_plan(mechanism, seen, memory))
        memory = memory if plans[-1].memory is None else plans[-1].memory
    return plans


def _plan(mechanism: Mechanism, seen: Seen, memory: Tensor | None) -> Plan:
    """What the mechanism plans from the round's number and shapes alone; weights have no values here, so whoever asks for one is refused."""
    if mechanism.peeks:
        return _constant(mechanism, seen)
    try:
        plan = mechanism.plan(seen, None, memory)
        plan.sigma.tolist()
    except (RuntimeError, NotImplementedError) as error:
        why = str(error).splitlines()[0]
        raise Problem(f"the noise of method {mechanism.name!r} follows the global models, which only a run has ({why}): use `ladp run`") from error
    return plan


def _constant(mechanism: Mechanism, seen: Seen) -> Plan:
    if not isinstance(mechanism, GaussianMethod) or getattr(mechanism, "form", "as-run") == "faithful":
        raise Problem(f"the noise of method {mechanism.name!r} follows the private weights, which only a run has: use `ladp run`")
    return constant_plan(mechanism, seen, mechanism.foresee(seen))


def beside(method: str = "full", preset: str = "as-run") -> list[dict]:
    """What is to be expected beside what the paper prints, for every noise scale of a method in its tables."""
    entries = [entry for name in ("noise", "heterogeneity") for entry in load(name).find(quantity="noise_scale")]
    choose("method of the paper's noise tables", method, dict.fromkeys(entry.where["method"] for entry in entries))
    return [_row(entry, preset) for entry in entries if entry.where["method"] == method]


def _row(entry: Entry, preset: str) -> dict:
    where = {axis: entry.where[axis] for axis in ("model", "data", "distribution", "method", "epsilon")}
    recipe = compose(underlay(preset, {"method": {"name": where["method"], "epsilon": where["epsilon"]}}))
    classes = load("combinations").find(data=where["data"])[0].value
    found = expect(recipe.method, _outline(where["model"], int(classes)), recipe.rounds, recipe.active, recipe.training, counters=recipe.method.state == "all", clients=recipe.clients)
    compared = {"expected": found.noise_scale, "sd": found.sd, "ratio": entry.value / found.noise_scale, "deviations": (entry.value - found.noise_scale) / found.sd}
    return {"table": entry.table, **where, "printed": entry.printed, "paper": entry.value, **compared, "taken": found.taken, "mark": entry.mark}


_outline = lru_cache(outline)
