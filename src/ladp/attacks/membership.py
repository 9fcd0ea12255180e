"""Membership inference: was this record one of those that were trained on?"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ladp import folder
from ladp.attacks import lira, pictures
from ladp.attacks.attack import Attack, Findings, Step, option, refuse_unless
from ladp.attacks.confidence import loss, models, spread, uploads
from ladp.attacks.rates import LEVELS, curve, pooled, rates, threshold
from ladp.attacks.scene import Scene
from ladp.attacks.shadows import Shadows
from ladp.attacks.targets import Targets, cohorts, held, taking_part
from ladp.errors import Problem

Pair = tuple[NDArray, NDArray]  # scores of members, and of others
SHIFT = "members are training records and the others test records, and a score sees any other difference between the two as well: a run with validation > 0 has none"
SHARED = "the adversary knows the recipe and all records, but neither which half of the targets was trained on nor the seed; shadows are trained on as many records as the run"
COIN = "by coin: each shadow in turn is attacked with the others, so that a coin decided who is a member; its intervals are over shadows, which share what they are attacked with"


@dataclass(frozen=True)
class Membership(Attack):
    """Tell records that were trained on from others: by their loss (Yeom et al. 2018), or by a likelihood ratio from shadow federations (LiRA, Carlini et al. 2022)."""

    name: ClassVar[str] = "membership"
    how: str = option("loss", "loss, a threshold on it; or lira, which also trains shadow federations")
    seen: str = option("models", "models, the global models that all peers are sent; or uploads, what one client sends the server")
    client: int | None = option(None, "whose records are the members; by default all clients' that took part, for uploads those of the client that did so most often")
    records: int = option(0, "members and others to ask for, at most so many of each; 0: all")
    observed: int = option(1, "models or uploads that are seen, evenly spread over the run, the last among them; 0: all")
    shadows: int = option(16, "shadow federations of lira, an even number")
    variance: str = option("fixed", "of lira's Gaussians: fixed, one for all records, or record, one for each")

    def __post_init__(self) -> None:
        for name, known in (("how", ("loss", "lira")), ("seen", ("models", "uploads")), ("variance", lira.VARIANCES)):
            refuse_unless(getattr(self, name) in known, self, name, " or ".join(known))
        for name in ("records", "observed"):
            refuse_unless(getattr(self, name) >= 0, self, name, "at least 0")
        refuse_unless(self.shadows >= 6 and self.shadows % 2 == 0, self, "shadows", "even and at least 6")
        if self.how == "lira" and self.seen == "uploads":
            raise Problem("lira is for the models of a federation, and uploads are one client's: take --how loss, or --seen models")

    @property
    def view(self) -> str:
        """Peers see models, the server sees uploads."""
        return "peer" if self.seen == "models" else "server"

    def carry_out(self, scene: Scene) -> Iterator[Step | Findings]:
        """Score every target, then say how well the scores tell members from others."""
        last = scene.final().round
        if last < scene.recipe.rounds:  # what is found is kept, and must not be of half a run
            raise Problem(f"{scene.run} is at round {last} of {scene.recipe.rounds}: `ladp resume {scene.run}` first")
        clients, numbers = self._watched(scene, last)
        targets = Targets.draw(scene, clients, self.records, self.how == "lira")
        images, labels = targets.take(scene)
        sight = (images, labels) if self.seen == "models" else (clients[0], images, labels)
        phi = yield from (models if self.seen == "models" else uploads)(scene, numbers, *sight)
        scored, coins = self._losses(phi), {}
        if self.how == "lira":
            ratios, coins = yield from self._ratios(Shadows(scene, targets, self.shadows), numbers, phi, images, labels)
            scored |= ratios
        yield findings(self, scene, numbers, {name: targets.parts(scores) for name, scores in scored.items()}, coins)

    def _watched(self, scene: Scene, last: int) -> tuple[list[int], list[int]]:
        """Whose records are the members, and the rounds whose models or uploads are seen."""
        if self.seen == "models":
            return taking_part(scene, self.client, last), spread(range(1, last + 1), self.observed)
        present = cohorts(scene, last)
        everyone = taking_part(scene, self.client, last)
        turns = {client: [number for number, cohort in present.items() if client in cohort] for client in everyone}
        client = max(turns, key=lambda each: len(turns[each]))
        return [client], spread(turns[client], self.observed)

    def _losses(self, phi: Tensor) -> dict[str, NDArray]:
        """Small losses speak for members: their mean over what was seen, and the least; of uploads also how much smaller than before the client trained."""
        if self.seen == "uploads":
            before, after = loss(phi[::2]), loss(phi[1::2])
            return {"loss": -after.mean(0).numpy(), "gain": (before - after).mean(0).numpy()}
        losses = loss(phi)
        return {"loss": -losses.mean(0).numpy()} | ({"least_loss": -losses.amin(0).numpy()} if len(phi) > 1 else {})

    def _ratios(self, shadows: Shadows, numbers: list[int], phi: Tensor, images: Tensor, labels: Tensor) -> Generator[Step, None, tuple[dict[str, NDArray], dict[str, Pair]]]:
        """Scores by likelihood ratio of the run's targets; and all scores of every shadow's, parted by whether it held them."""
        yield from shadows.train()
        seen = yield from shadows.watch(numbers, images, labels)
        own, theirs, inside = phi.mean(0).numpy(), seen.mean(1).numpy(), shadows.held
        fit = lira.Fit.of(theirs, inside, self.variance)
        online, offline = map(np.stack, zip(*lira.in_turn(theirs, inside, self.variance)))
        coins = {**{name: np.stack(rows) for name, rows in _columns(map(self._losses, seen)).items()}, "lira_online": online, "lira_offline": offline}
        apart = {name: tuple(scores[part].reshape(len(seen), -1) for part in (inside, ~inside)) for name, scores in coins.items()}
        return {"lira_online": fit.online(own), "lira_offline": fit.offline(own)}, apart


def findings(attack: Membership, scene: Scene, numbers: Sequence[int], scored: Mapping[str, Pair], coins: Mapping[str, Pair]) -> Findings:
    """Rates and curves of every score, beside what the run promises."""
    inside, outside = next(iter(scored.values()))
    scores = {"members": len(inside), "others": len(outside), "rounds_seen": len(numbers), "last_round_seen": numbers[-1], **{name: rates(*pair) for name, pair in scored.items()}}
    drawn = {"roc": pictures.roc("Members found in the run", {name: curve(*pair) for name, pair in scored.items()}, f"{len(inside)} members, {len(outside)} others")}
    notes = [SHIFT] if not scene.recipe.validation else []
    if coins:
        scores["by_coin"] = {name: pooled(*pair) for name, pair in coins.items()}
        drawn["roc-by-coin"] = pictures.roc("Members found in shadows, by coin", {name: curve(*(part.ravel() for part in pair)) for name, pair in coins.items()})
        notes += [SHARED, COIN, *unused(scene, numbers[-1])]
    notes += [f"with {len(outside)} others a false positive rate of {level:.1%} is less than one of them: nothing is said of it" for level in LEVELS if threshold(outside, level) is None]
    return Findings(scores | promises(scene, attack.view), drawn, tuple(notes))


def unused(scene: Scene, last: int) -> list[str]:
    """A warning where clients that take part do not hold everything: then shadows, too, train on less than they are given."""
    trained, given = len(held(scene, taking_part(scene, None, last))), len(scene.dataset)
    return [f"{trained} of {given} training records are held by clients that took part; of shadows all {given} count as held, so that rates by coin are too low"] if trained < given else []


def promises(scene: Scene, view: str) -> dict[str, Any]:
    """What the run claims, and what is certified of it in a view."""
    if not (scene.run / folder.RESULT).exists():
        return {}
    result = folder.get_json(scene.run / folder.RESULT)
    said = {"claimed": result["claimed"], "certified": result.get("views", {}).get(view) or result["certified"]}
    return {name: guarantee and {key: guarantee[key] for key in ("epsilon", "delta", "unit", "view", "accountant")} for name, guarantee in said.items()}


def _columns(rows: Iterable[Mapping[str, NDArray]]) -> dict[str, list[NDArray]]:
    """Dictionaries one below the other: a list for each name."""
    rows = list(rows)
    return {name: [row[name] for row in rows] for name in rows[0]}
