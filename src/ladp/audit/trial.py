"""One audit: what is asked of it, what a recipe makes of that, the one training run, and the findings."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ladp import accounts, experiment, folder
from ladp.audit.canaries import Canaries
from ladp.audit.laws import Broken
from ladp.audit.picture import histogram
from ladp.audit.watch import FULL, ClientWatch, RecordWatch, Watched
from ladp.data.split import Split
from ladp.errors import Problem, choose
from ladp.federation import begin, federate
from ladp.keys import Key
from ladp.mechanisms.gaussian import GaussianMethod
from ladp.privacy.accounting import UNITS, VIEWS
from ladp.privacy.audit import Refuted, judge
from ladp.privacy.mechanism import Guarantee
from ladp.recipe import Recipe, load
from ladp.training.work import Work
from ladp.version import VERSION

KINDS = ("gradient", "record")
MOST, SHARE = 1000, 0.2  # canaries, if nothing else is said: no more, and m delta no more than this part of the error
LEGIBLE, CROWDED = 4.5, 16  # a bit of a message is so many standard deviations long, and has so many columns at least
FOUND, PICTURE = "audit.json", "scores.svg"


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
        if self.unit is not None:
            choose("unit", self.unit, UNITS)
        if self.view is not None:
            choose("view", self.view, VIEWS)
        choose("kind of canary", self.kind, KINDS)
        for name in ("canaries", "rounds", "bits"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise Problem(f"{name} must be at least 1, got {value}")
        if not 0 < self.confidence < 1:
            raise Problem(f"confidence must lie strictly between 0 and 1, got {self.confidence}")


@dataclass(frozen=True, eq=False)
class Findings:
    """What was refuted, what is certified and claimed beside it, and the laws that do not hold."""

    refuted: Refuted
    unit: str
    view: str
    certified: Guarantee
    claimed: Guarantee | None
    broken: list[Broken]
    noise: dict[str, float]
    alike: tuple[float, float]
    canaries: Canaries
    scores: torch.Tensor
    facts: dict[str, Any]

    @property
    def failed(self) -> list[str]:
        """What must not be: more refuted than is certified, or a law broken."""
        over = f"at least ε = {self.refuted.epsilon:.4g} with confidence {self.refuted.confidence:g}, and ε = {self.certified.epsilon:.4g} is certified"
        return [over] * (self.refuted.epsilon > self.certified.epsilon) + [f"{one.law}: {one.says}" for one in self.broken]


def recipe_of(path: Path) -> Recipe:
    """The recipe of a file or of a run's folder."""
    if path.is_dir() and not (path / folder.RECIPE).exists():
        raise Problem(f"{path} is not a run folder: it has no {folder.RECIPE}; name a recipe file or the folder of a run")
    return load(path / folder.RECIPE if path.is_dir() else path)


def conduct(recipe: Recipe, asked: Audit) -> Iterator[tuple[int, int] | Findings]:
    """Train once with canaries: after every round its number and how many there are, last the findings. No ledger is charged, nothing is written."""
    rounds = asked.rounds or (recipe.rounds if recipe.budget else 1)
    recipe = replace(recipe, rounds=rounds, precision="float32" if recipe.precision == "auto" else recipe.precision)
    work, _ = experiment.prepare(recipe)
    unit, view = _settle(recipe, work, asked)
    canaries = Canaries.draw(Key(asked.seed).at("audit"), _hosts(work, rounds, unit, _number(work, asked)), _bits(work, asked))
    spending, state = accounts.Spending(), begin(work)
    with closing(_engine(recipe, work, canaries, view, asked.kind)) as engine:
        for event in federate(engine.work, engine, state, rounds, recipe.mean):
            spending.add({"clients": event.cohort, "multipliers": event.receipt.multiplier[:, 0].tolist() if work.budget else None})
            yield event.state.round, rounds
        yield _find(recipe, work, engine, asked, unit, view, spending)


def _settle(recipe: Recipe, work: Work, asked: Audit) -> tuple[str, str]:
    """Unit and view, refused where no number would be comparable."""
    own = "record" if work.recordwise else "client"
    if asked.unit not in (None, own):
        raise Problem(f"unit {asked.unit!r} asked for, but {_terms(recipe)} of unit {own!r}: take --unit {own}, or a recipe with [budget] unit = {asked.unit!r}")
    view = asked.view or (recipe.budget.view if recipe.budget else "server")
    colluders = recipe.budget.colluders if recipe.budget else 1
    if view == "peer" and colluders >= work.active:
        raise Problem(f"{colluders} colluders in a cohort of {work.active}: peers would see an upload by itself; take --view server, or more active clients")
    if own == "record" and asked.bits not in (None, 1):
        raise Problem(f"a record is in or out, which is one bit, got bits {asked.bits}: leave --bits out, or audit unit 'client'")
    if asked.kind == "record" and (own == "client" or recipe.training.augment or recipe.budget.copies > 1):
        raise Problem("canaries of kind 'record' need a budget of unit record without augmentation, so that their gradients are known: take --kind gradient")
    return own, view


def _terms(recipe: Recipe) -> str:
    return "the recipe's budget is" if recipe.budget else f"without a budget uploads of {recipe.method.name!r} are audited, which are"


def _hosts(work: Work, rounds: int, unit: str, number: int | None) -> list[int]:
    """The clients that carry canaries: those that take part most, each one (unit client), or as evenly as may be (unit record)."""
    drawn = Counter(client for round in range(1, rounds + 1) for client in work.cohort(round))
    ranked = sorted(drawn, key=lambda client: (-drawn[client], client))
    if unit == "client":
        if number is not None and number > len(ranked):
            raise Problem(f"{number} canary clients asked for, but only {len(ranked)} take part in {rounds} rounds: take fewer --canaries, more --rounds, or a recipe with more clients")
        return ranked[: number or _usual(work)]
    most = [client for client in ranked if drawn[client] == drawn[ranked[0]]]
    return [most[i % len(most)] for i in range(number or _usual(work))]


def _number(work: Work, asked: Audit) -> int | None:
    return asked.canaries


def _usual(work: Work) -> int:
    delta = _delta(work)
    return max(1, min(MOST, int(SHARE * 0.05 / delta) if delta else MOST))


def _delta(work: Work) -> float:
    """The delta at which epsilon is to be refuted: the budget's, or that of the method's claim."""
    claim = accounts.claimed(work)
    return (claim.delta or 0.0) if claim else 0.0


def _bits(work: Work, asked: Audit) -> int:
    """Under a budget one. Without, as many as the announced noise leaves legible: fixed before anything is trained."""
    if asked.bits or work.budget:
        return asked.bits or 1
    seen = work.see(1, 1, torch.zeros(work.layout.size), None, work.cohort(1)[:1], torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.float64))
    sigma = float(work.mechanism.sigma(seen).max()) if isinstance(work.mechanism, GaussianMethod) else 0.0
    most = max(1, sum(e.stop - e.start for e in work.layout.entries if e.trainable) // CROWDED)
    return max(1, min(most, int((_reach(work) / (LEGIBLE * sigma)) ** 2))) if sigma else most


def _reach(work: Work) -> float:
    """How long an update is sent: under a budget beyond its clip; else eta G_c for every step, as far as clipped gradients may carry the client with the fewest records."""
    return FULL if work.budget else work.training.lr * work.training.clip * work.training.steps(int(work.held.min()))


def _engine(recipe: Recipe, work: Work, canaries: Canaries, view: str, kind: str) -> Watched:
    colluders = work.budget.colluders if work.budget else 1
    if not work.recordwise:
        return ClientWatch(work, canaries, view, recipe.mean, colluders, reach=_reach(work))
    first = len(work.labels) if kind == "record" else None
    return RecordWatch(work if first is None else planted(work, canaries), canaries, view, recipe.mean, colluders, first=first)


@dataclass(frozen=True, eq=False)
class Planted:
    """A split whose clients hold canaries beside their own records, as the coins say; how many records a client holds is public, and stays what it was."""

    split: Split
    canaries: Canaries
    first: int

    @property
    def curious(self) -> int | None:
        return self.split.curious

    def __len__(self) -> int:
        return len(self.split)

    def indices(self, client: int) -> np.ndarray:
        """The client's own records, then its canaries that are in."""
        inside = [self.first + i for i in self.canaries.of(client) if self.canaries.coins[i, 0]]
        return np.concatenate([self.split.indices(client), np.array(inside, dtype=np.int64)])

    def sizes(self) -> np.ndarray:
        """|D_i| without canaries."""
        return self.split.sizes()


def planted(work: Work, canaries: Canaries) -> Work:
    """With canary records behind the training records: test records under a wrong label, which nothing else teaches."""
    random = canaries.key.at("record").numpy()
    picked = torch.from_numpy(random.integers(0, len(work.test_labels), len(canaries.hosts)))
    labels = work.test_labels[picked]
    wrong = (labels + torch.from_numpy(random.integers(1, int(work.labels.max()) + 1, len(labels)))) % (int(work.labels.max()) + 1)
    split = Planted(work.split, canaries, len(work.labels))
    return replace(work, images=torch.cat([work.images, work.test_images[picked]]), labels=torch.cat([work.labels, wrong.to(work.labels)]), split=split)


def _find(recipe: Recipe, work: Work, engine: Watched, asked: Audit, unit: str, view: str, spending: accounts.Spending) -> Findings:
    canaries, noise = engine.canaries, engine.noise
    order, right = engine.evidence.guesses()
    refuted = judge(right, _delta(work), asked.confidence, canaries.coins.shape[1])
    facts = {
        "digest": recipe.digest, "method": recipe.method.name, "model": recipe.model, "data": recipe.data, "rounds": recipe.rounds, "clients": recipe.clients, "active": recipe.active,
        "kind": asked.kind if unit == "record" else "update", "seed": recipe.seed, "audit_seed": asked.seed,
        "version": VERSION, "torch": torch.__version__, "device": experiment.device_name(work.device), "precision": work.precision,
    }  # fmt: skip
    seen = (accounts.certified(work, spending, view), accounts.claimed(work))
    return Findings(refuted, unit, view, *seen, noise.broken(), noise.ratios(), (noise.alike, noise.limit), canaries, engine.evidence.scores(), facts)


def tell(found: Findings) -> dict[str, Any]:
    """The findings as JSON."""
    return {
        "audited": {**asdict(found.refuted), "unit": found.unit, "view": found.view},
        "certified": experiment.guarantee(found.certified),
        "claimed": experiment.guarantee(found.claimed),
        "failed": found.failed,
        "noise": found.noise,
        "alike": {"found": found.alike[0], "limit": found.alike[1]},
        **found.facts,
        "coins": found.canaries.coins.tolist(),
        "scores": found.scores.tolist(),
    }


def write(found: Findings, out: Path) -> Path:
    """`audit.json` and the histogram of the scores, in a folder."""
    with folder.writing(out, "choose another --out"):
        out.mkdir(parents=True, exist_ok=True)
    folder.put(out / PICTURE, draw(found).encode(), "choose another --out")
    folder.put_json(out / FOUND, tell(found))
    return out


def draw(found: Findings) -> str:
    """The scores of the coins that fell 0 and of those that fell 1."""
    scores, coins = found.scores.flatten(), found.canaries.coins.flatten().bool()
    names = ("canary out", "canary in") if found.unit == "record" else ("coin 0", "coin 1")
    title = f"{found.facts['method']}: unit {found.unit}, {found.view} view; ε ≥ {found.refuted.epsilon:.4g} at δ = {found.refuted.delta:g}, confidence {found.refuted.confidence:g}"
    return histogram(title, names, [scores[~coins].tolist(), scores[coins].tolist()])
