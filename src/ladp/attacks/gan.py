"""A curious client reconstructs a class that it has never seen: an ACGAN whose discriminator is the global model of the round (the paper's RQ 2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

import torch
from torch import nn

from ladp.attacks.absence import without
from ladp.attacks.acgan import Game, Rules, last
from ladp.attacks.attack import Attack, Findings, Step, option, refuse_unless
from ladp.attacks.generator import fresh
from ladp.attacks.portrait import Portrait
from ladp.attacks.scene import Scene
from ladp.attacks.trail import Trail
from ladp.data.split import place
from ladp.errors import Problem, choose
from ladp.federation import State
from ladp.keys import Key, one_thread
from ladp.metrics.fidelity import FEATURES

KEEP_SECONDS = 20.0
TEACHERS, REALNESS, FAKES = ("global", "copy"), ("energy", "head"), ("owned", "all")


@dataclass(frozen=True)
class Gan(Attack):
    """Reconstruct a class that the curious client has never seen, with the global model of each round as the discriminator of an ACGAN."""

    name: ClassVar[str] = "gan"
    view: ClassVar[str] = "peer"

    client: int | None = option(None, "The curious client; left out, that of the partition.")
    private: int | None = option(None, "The private class, by number; left out, that of the partition.")
    start: int = option(1, "First round whose global model is used.")
    every: int = option(1, "Use the global model of every so many rounds.")
    stop_accuracy: float | None = option(None, "Stop observing once the global model's test accuracy has come to this.")
    absent: bool = option(False, "True null: nobody holds the private class; its records are taken from all clients and the run is played without them.")
    teacher: str = option("global", "Who tells the generator what its images show: the global model as it came, or the client's copy, which learns and forgets.")
    realness: str = option("energy", "Where p_real comes from: energy, Z / (1 + Z) of the logits, or head, a unit of the client's own on the last hidden layer.")
    fakes: str = option("owned", "Classes of the fakes that the discriminator is shown: owned, those of the client's records, or all.")
    steps: int = option(50, "Steps of the generator in a round.")
    d_steps: int = option(1, "Steps of the discriminator before each step of the generator.")
    batch: int = option(64, "Real images, and fakes, of a step.")
    latent: int = option(100, "Length of the latent vector.")
    width: int = option(64, "Maps of the generator's last hidden layer.")
    lr_g: float = option(1e-3, "Learning rate of the generator (Adam).")
    lr_d: float = option(3e-3, "Learning rate of the discriminator (Adam, new in every round).")
    beta1: float = option(0.5, "First moment's decay, of both.")
    beta2: float = option(0.999, "Second moment's decay, of both.")
    blur: float = option(0.0, "Deviation of noise on all that the discriminator sees, in units of [-1, 1].")
    samples: int = option(1000, "Images generated of each class for the scores; the paper has 10,000.")
    features: str = option("small", "What FID and KID are computed in: small, a classifier of the data set, or inception, as published ones are.")

    def __post_init__(self) -> None:
        choose("teacher", self.teacher, TEACHERS)
        choose("realness", self.realness, REALNESS)
        choose("fakes", self.fakes, FAKES)
        choose("features", self.features, FEATURES)
        for name in ("start", "every", "steps", "d_steps", "latent", "width"):
            refuse_unless(getattr(self, name) >= 1, self, name, "at least 1")
        for name in ("batch", "samples"):
            refuse_unless(getattr(self, name) >= 2, self, name, "at least 2")
        for name in ("lr_g", "lr_d"):
            refuse_unless(0 < getattr(self, name) < 1, self, name, "between 0 and 1")
        for name in ("beta1", "beta2"):
            refuse_unless(0 <= getattr(self, name) < 1, self, name, "at least 0 and below 1")
        refuse_unless(0 <= self.blur <= 2, self, "blur", "from 0 to 2")
        refuse_unless(self.stop_accuracy is None or 0 < self.stop_accuracy <= 1, self, "stop_accuracy", "above 0 and at most 1")

    def carry_out(self, scene: Scene) -> Iterator[Step | Findings]:
        client, private = self.seat(scene)
        game, trail = self.begin(scene, client), Trail(private)
        state, kept = scene.recall()
        if state:
            game.load(kept)
            trail.load(kept)
        for done in self.observe(self.stage(scene, private), game, trail, state):
            yield Step(done, scene.recipe.rounds, trail.news)
        untrained = fresh(scene.work, game.classes, self.latent, self.width, scene.key)
        yield Portrait(scene, game.labels.unique().tolist(), game.generator, untrained, trail, self.absent).find(self.features, self.samples, client)

    def observe(self, stage: Scene, game: Game, trail: Trail, state: State | None) -> Iterator[int]:
        """Round after round: the global model comes, the game is played against it; what lasts is kept every few seconds."""
        due = monotonic() + KEEP_SECONDS
        if self.content(trail):
            return
        for event in stage.rounds(state):
            number = event.state.round
            if number >= self.start and (number - self.start) % self.every == 0:
                model, key = stage.model(event.state.current, event.state.counts), stage.key.at("round", number)
                with one_thread():
                    trail.test(number, model, stage)
                    game.play(model, key)
                    trail.look(number, stage.recipe.rounds, game.generator, stage.key)
            if monotonic() > due or self.content(trail):
                stage.save(event.state, game.save() | trail.save())
                due = monotonic() + KEEP_SECONDS
            yield number
            if self.content(trail):
                return

    def stage(self, scene: Scene, private: int) -> Scene:
        """Where rounds are observed: the run, or the same run without the private class."""
        return without(scene, private) if self.absent else scene

    def content(self, trail: Trail) -> bool:
        """Whether the global model has come to the accuracy up to which it is observed."""
        return self.stop_accuracy is not None and trail.accuracy >= self.stop_accuracy

    def seat(self, scene: Scene) -> tuple[int, int]:
        """Who is curious, and about which class."""
        if scene.recipe.features:
            raise Problem(f"attack 'gan' makes pictures, and the run is on {scene.recipe.features!r} features: attack a run on pixels")
        split, partition = scene.work.split, scene.recipe.partition
        client = split.curious if self.client is None else place("client", self.client, len(split))
        private = getattr(partition, "private", None) if self.private is None else self.private
        if client is None or private is None:
            missing = " and ".join(f"--{name}" for name, value in (("client", client), ("private", private)) if value is None)
            raise Problem(f"partition {type(partition).__name__} of the run has no curious client: say who is curious about which class with {missing}, or attack a run with partition isolation")
        private = place("private", private, len(scene.dataset.classes))
        held = int((scene.work.labels[torch.from_numpy(split.indices(client))] == private).sum())
        if held:
            raise Problem(f"client {client} holds {held} records of class {scene.dataset.classes[private]!r}, which is not private to it: take another --client or --private")
        return client, private

    def begin(self, scene: Scene, client: int) -> Game:
        """The game before its first round; of all records it is given only the client's own."""
        own = scene.take(torch.from_numpy(scene.work.split.indices(client)))
        classes, key = len(scene.dataset.classes), scene.key
        fakes = own[1].unique().cpu() if self.fakes == "owned" else torch.arange(classes)
        rules = Rules(self.steps, self.d_steps, self.batch, self.latent, self.lr_d, self.lr_g, (self.beta1, self.beta2), self.blur, self.teacher)
        generator = fresh(scene.work, classes, self.latent, self.width, key)
        return Game(generator, self.head(scene, key), rules, own, fakes, classes)

    def head(self, scene: Scene, key: Key) -> nn.Linear | None:
        """The client's own unit for real or fake; it lasts, the model beneath it does not."""
        if self.realness == "energy":
            return None
        with key.at("head").reign():
            return nn.Linear(last(scene.work.model).in_features, 1).to(scene.work.device, scene.work.dtype)
