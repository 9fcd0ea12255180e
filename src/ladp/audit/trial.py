"""One audit: what is asked of it, what a recipe makes of that, and the one training run."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ladp import accounts, experiment, folder
from ladp.audit.canaries import Canaries
from ladp.audit.findings import Findings
from ladp.audit.planting import colluding, delta_of, hosts, legible, planted, reach
from ladp.audit.steps import RecordWatch
from ladp.audit.updates import ClientWatch
from ladp.audit.watch import Watched
from ladp.errors import Problem, choose
from ladp.federation import begin, federate
from ladp.keys import Key
from ladp.privacy.accounting import UNITS, VIEWS
from ladp.privacy.audit import judge
from ladp.recipe import Recipe, load
from ladp.training.work import Work
from ladp.version import VERSION

KINDS = ("gradient", "record")


@dataclass(frozen=True)
class Audit:
    """What is asked for; None leaves it to the recipe. `seed` decides coins and directions, the recipe's seed all else."""

    unit: str | None = None
    view: str | None = None
    canaries: int | None = None
    rounds: int | None = None
    kind: str = "gradient"
    bits: int | None = None
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("unit", UNITS), ("view", VIEWS), ("kind", KINDS)):
            if (value := getattr(self, name)) is not None:
                choose("kind of canary" if name == "kind" else name, value, known)
        for name in ("canaries", "rounds", "bits"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise Problem(f"{name} must be at least 1, got {value}")
        if not 0 < self.confidence < 1:
            raise Problem(f"confidence must lie strictly between 0 and 1, got {self.confidence}")


def recipe_of(path: Path) -> Recipe:
    """The recipe of a file or of a run's folder."""
    if path.is_dir() and not (path / folder.RECIPE).exists():
        raise Problem(f"{path} is not a run folder: it has no {folder.RECIPE}; name a recipe file or the folder of a run")
    return load(path / folder.RECIPE if path.is_dir() else path)


def conduct(recipe: Recipe, asked: Audit = Audit()) -> Iterator[tuple[int, int] | Findings]:
    """Train once with canaries: after every round its number and how many there are, last the findings. No ledger is charged, nothing is written."""
    recipe = replace(recipe, rounds=asked.rounds or (recipe.rounds if recipe.budget else 1), engine="sequential")
    work, _ = experiment.prepare(recipe)
    asked = settle(recipe, work, asked)
    colluders = colluding(work, recipe.rounds) if asked.view == "peer" else frozenset()
    carriers = hosts(work, recipe.rounds, asked.canaries, 1 - asked.confidence, colluders)
    canaries, spending = Canaries.draw(Key(asked.seed).at("audit"), carriers, asked.bits), accounts.Spending()
    with closing(_engine(recipe, work, canaries, asked, colluders)) as engine:
        for event in federate(engine.work, engine, begin(work), recipe.rounds, recipe.mean):
            spending.add({"clients": event.cohort, "multipliers": event.receipt.multiplier[:, 0].tolist() if work.budget else None})
            yield event.state.round, recipe.rounds
        yield _conclude(recipe, work, engine, asked, spending)


def settle(recipe: Recipe, work: Work, asked: Audit) -> Audit:
    """With unit, view and bits as the recipe has them where nothing is said; refused where no number would be comparable."""
    unit, view = "record" if work.recordwise else "client", asked.view or (recipe.budget.view if recipe.budget else "server")
    if asked.unit not in (None, unit):
        what = "the recipe's budget is" if recipe.budget else "without a budget whole uploads are audited, which is"
        remedy = f"take --unit {unit}, or give the recipe a [budget] with unit = '{asked.unit}'"
        raise Problem(f"unit {asked.unit!r} asked for, but {what} of unit {unit!r}: {remedy}")
    if view == "peer" and (most := recipe.budget.colluders if recipe.budget else 1) >= work.active:
        raise Problem(f"{most} colluders in a cohort of {work.active}: peers would see an upload by itself; take --view server, or more active clients")
    if unit == "record" and asked.bits not in (None, 1):
        raise Problem(f"a record is in or out, which is one bit, got bits {asked.bits}: leave --bits out")
    if asked.kind == "record" and (unit == "client" or recipe.training.augment or recipe.budget.copies > 1):
        raise Problem("canaries of kind 'record' need a budget of unit record without augmentation, so that their gradients are known: take --kind gradient")
    return replace(asked, unit=unit, view=view, bits=asked.bits or (1 if work.budget else legible(work)))


def _engine(recipe: Recipe, work: Work, canaries: Canaries, asked: Audit, colluders: frozenset[int]) -> Watched:
    parts = (canaries, asked.view, recipe.mean, colluders)
    if not work.recordwise:
        return ClientWatch(work, *parts, reach=reach(work))
    if asked.kind == "gradient":
        return RecordWatch(work, *parts)
    return RecordWatch(planted(work, canaries), *parts, first=len(work.labels))


def _conclude(recipe: Recipe, work: Work, engine: Watched, asked: Audit, spending: accounts.Spending) -> Findings:
    coins, noise, evidence = engine.canaries.coins, engine.noise, engine.evidence
    refuted = judge(evidence.guesses(), delta_of(work), asked.confidence, coins.shape[1])
    facts = {
        "digest": recipe.digest, "method": recipe.method.name, "model": recipe.model, "data": recipe.data,
        "rounds": recipe.rounds, "clients": recipe.clients, "active": recipe.active,
        "kind": asked.kind if work.recordwise else "update", "seed": recipe.seed, "audit_seed": asked.seed,
        "version": VERSION, "torch": torch.__version__, "device": experiment.device_name(work.device), "precision": work.precision,
    }  # fmt: skip
    proved = (accounts.certified(work, spending, asked.view), accounts.claimed(work))
    return Findings(refuted, asked.unit, asked.view, *proved, noise.broken(), noise.ratios(), (noise.alike, noise.limit), coins, evidence.scores, facts)
