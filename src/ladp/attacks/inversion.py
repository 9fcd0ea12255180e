"""Gradient inversion: what the server can see of the records that an upload was made of.

Geiping, Bauermeister, Droege & Moeller, Inverting Gradients: How Easy Is It to Break Privacy in Federated Learning? (NeurIPS 2020).
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

import torch
from torch import Tensor

from ladp.attacks import labels as label
from ladp.attacks.attack import Attack, Findings, Step, option, refuse_unless
from ladp.attacks.evidence import conclude
from ladp.attacks.scene import Scene
from ladp.attacks.search import Search, Settings
from ladp.attacks.sent import Sent, send
from ladp.attacks.simulation import Simulation
from ladp.errors import Problem, choose
from ladp.federation import State, begin

LABELS = ("recovered", "given")
KEEP_SECONDS = 20.0
NEWS = 25  # steps
NOISE = 256  # images
OWN = "the uploads are the run's own, each made of all records that its client used in round {round}"
MADE = (
    "the uploads are not the run's: at its global model before round {round} each client trained on {records} of its records, by the run's training, method, planned noise and "
    "noise key; the run's own are made of all records (records=0)"
)
DRAWN = "the attacker knows which records each step drew"


@dataclass(frozen=True)
class Inversion(Attack):
    """Gradient inversion: the images and labels that an upload was made of (Geiping et al. 2020)."""

    name: ClassVar[str] = "inversion"
    view: ClassVar[str] = "server"
    round: int = option(1, "The round whose uploads are attacked.")
    records: int = option(1, "How many of its records an attacked client trains on in that round; 0 takes the run's own uploads, made with all of them.")
    victims: int = option(4, "How many clients of the cohort have their images reconstructed; labels are recovered for all of them.")
    labels: str = option("recovered", "Labels are recovered from the upload, or given to the attacker as they are: recovered or given.")
    restarts: int = option(3, "Searches from different starts; the best by objective is kept.")
    steps: int = option(800, "Steps of each search.")
    lr: float = option(0.3, "How far the first steps go, in images from -1 to 1.")
    tv: float = option(0.001, "Weight of total variation in the objective.")

    def __post_init__(self) -> None:
        choose("labels", self.labels, LABELS)
        for name in ("round", "victims", "restarts", "steps"):
            refuse_unless(getattr(self, name) >= 1, self, name, "at least 1")
        refuse_unless(self.records >= 0, self, "records", "at least 0")
        refuse_unless(0 < self.lr < float("inf"), self, "lr", "positive")
        refuse_unless(0 <= self.tv < float("inf"), self, "tv", "at least 0")

    def carry_out(self, scene: Scene) -> Iterator[Step | Findings]:
        self._refuse(scene)
        state, kept = scene.recall()
        for state in self._approach(scene, state):
            yield Step(0, self.victims * self.restarts * self.steps, f"round {state.round} of {self.round}")
        sent = self._receive(scene, state)
        counted = [self._count(scene, one) for one in sent]
        found = [kept[f"found{k}"] for k in range(self.victims) if f"found{k}" in kept]
        for k in range(len(found), self.victims):
            search, simulation = self._search(scene, sent[k], counted[k], k)
            if "facts" in kept:  # of the one that was cut off
                search.unpack(kept)
                kept = {}
            yield from self._follow(scene, state, search, simulation, found)
            found.append(search.best)
        yield conclude(scene, sent, counted, found, self._notes(scene))

    def _refuse(self, scene: Scene) -> None:
        recipe = scene.recipe
        if recipe.features is not None:
            raise Problem(f"attack 'inversion' looks for pictures, and this run trains on features {recipe.features!r}: attack a run without features")
        refuse_unless(self.round <= recipe.rounds, self, "round", f"at most {recipe.rounds}, the rounds of the run")
        refuse_unless(self.victims <= recipe.active, self, "victims", f"at most {recipe.active}, the clients of a cohort")

    def _approach(self, scene: Scene, state: State | None) -> Iterator[State]:
        """The states before the attacked round; long ways are kept."""
        state, due = state or begin(scene.work), monotonic() + KEEP_SECONDS
        yield state
        if state.round < self.round - 1:
            for event in scene.rounds(state, self.round - 1):
                if monotonic() > due:
                    scene.save(event.state, {})
                    due = monotonic() + KEEP_SECONDS
                yield event.state

    def _receive(self, scene: Scene, state: State) -> list[Sent]:
        """What each client of the cohort sent."""
        with closing(scene.rounds(state, self.round)) as rounds:
            event = next(rounds)
            refuse_unless(self.victims <= len(event.cohort), self, "victims", f"at most {len(event.cohort)}, the clients that took part in round {self.round}")
            return [send(scene, state, event, k, self.records) for k in range(len(event.cohort))]

    def _count(self, scene: Scene, sent: Sent) -> Tensor | None:
        """How many records of each class an upload seems to be made of; None where its model has no layer that tells."""
        work, model = scene.work, scene.model(sent.seen.current, sent.counts)
        rise = label.rises(sent.update, model, work.layout, len(scene.dataset.classes))
        if rise is None:
            return None
        noise = torch.randn(NOISE, *work.images.shape[1:], generator=scene.key.at("prior").generator(), dtype=torch.float64)
        return label.count(rise, label.priors(model, noise.to(sent.update)), len(sent.records))

    def _search(self, scene: Scene, sent: Sent, counted: Tensor | None, k: int) -> tuple[Search, Simulation]:
        """The k-th victim's, from its beginning."""
        counts = label.tally(scene.work.labels[sent.records], len(scene.dataset.classes)) if self.labels == "given" else counted
        if counts is None:
            raise Problem(f"model {scene.recipe.model!r} does not end in a linear layer, from which labels could be read: --labels given")
        labels = torch.arange(len(counts)).repeat_interleave(counts).to(sent.update.device)
        settings = Settings(self.restarts, self.steps, self.lr, self.tv)
        shape = (len(labels), *scene.work.images.shape[1:])
        return Search.begin(settings, shape, scene.key.at("victim", k), sent.update), Simulation.of(scene, sent, labels)

    def _follow(self, scene: Scene, state: State, search: Search, simulation: Simulation, found: list[Tensor]) -> Iterator[Step]:
        """A search from where it stands to its end, kept now and then."""
        due = monotonic() + KEEP_SECONDS
        for done in search.go(simulation):
            if monotonic() > due:
                scene.save(state, {f"found{k}": images for k, images in enumerate(found)} | search.pack())
                due = monotonic() + KEEP_SECONDS
            if done % NEWS == 0 or done == search.total:
                yield Step(len(found) * search.total + done, self.victims * search.total, f"client {simulation.sent.client}, objective {search.now:.3g}")

    def _notes(self, scene: Scene) -> list[str]:
        """Whose uploads these are, and what the attacker was told."""
        recordwise, told = scene.work.recordwise, "; the labels were given to it" if self.labels == "given" else ""
        said = [OWN.format(round=self.round) if self.records == 0 else MADE.format(round=self.round, records=self.records)]
        if recordwise:
            said.append(DRAWN if self.records == 0 else f"the attacked records take part in every step, with the noise and the divisor of a run that draws each with probability {scene.work.budget.rate:g}")
        said.append(f"the attacker knows the model, training, the number of records and how much noise is on each layer{told}")
        if scene.work.training.augment:
            said.append("the run crops and mirrors at random, which the attacker leaves out: scores are against the records as they are stored")
        return [*said, f"PSNR and SSIM must be read beside the controls, which need no upload; recognised: closest to its own of all {len(scene.work.labels):,} training records"]
