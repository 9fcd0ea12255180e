"""What the reconstruction came to: scores of every class beside an untrained generator and real images, and the pictures."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ladp.attacks.attack import Findings
from ladp.attacks.generator import Generator, forge
from ladp.attacks.likeness import Likeness
from ladp.attacks.pictures import sheet, shown
from ladp.attacks.scene import Scene
from ladp.attacks.trail import Trail
from ladp.training.local import normalise

SHOWN, ROWS = 12, 15
NUMBERS = ("margin", "distance", "distance_other", "fid", "kid", "recognised")


@dataclass(frozen=True, eq=False)
class Portrait:
    """A trained generator, the untrained one, and what was seen on the way; `owned` are the client's own classes. The private class's real images are looked at only here."""

    scene: Scene
    owned: list[int]
    generator: Generator
    untrained: Generator
    trail: Trail
    absent: bool

    @property
    def names(self) -> tuple[str, ...]:
        return self.scene.dataset.classes

    @property
    def title(self) -> str:
        """Of which run."""
        recipe, private = self.scene.recipe, self.names[self.trail.private]
        return f"{recipe.method.name}, seed {recipe.seed}" + (f", where nobody holds class {private}" if self.absent else "")

    def find(self, features: str, samples: int, client: int) -> Findings:
        """Everything that is kept of the attack."""
        likeness = Likeness.of(self.scene.dataset, features, self.scene.work.device)
        return Findings(self.scores(likeness, samples, client), {"classes": self.classes(), "progress": self.progress()}, notes(likeness))

    def scores(self, likeness: Likeness, samples: int, client: int) -> dict[str, Any]:
        """The private class first, the floor and the ceiling next to it."""
        private, trail = self.trail.private, self.trail
        found = {label: likeness.score(forge(self.generator, label, samples, self.scene.key), label) for label in sorted({*self.owned, private})}
        held = self.scene.dataset.test_images[self.scene.dataset.test_labels == private]
        return {
            "private": {**found[private], "class": self.names[private], "client": client},
            "untrained": likeness.score(forge(self.untrained, private, samples, self.scene.key), private),
            "real": likeness.score(normalise(held), private),
            "public": {name: sum(found[label][name] for label in self.owned) / len(self.owned) for name in NUMBERS},
            "classes": {"name": [self.names[label] for label in found], **{name: [score[name] for score in found.values()] for name in NUMBERS}},
            "rounds": {**trail.columns, "looked": list(trail.looks), "recognised": [likeness.taken(normalise(images))[private] for images in trail.looks.values()]},
            "judge_accuracy": likeness.judge.network.accuracy,
            "accuracy": trail.accuracy,
        }  # fmt: skip

    def classes(self) -> str:
        """A row a class as in the paper's figure, the private one in red, real images of it below."""
        private = self.trail.private
        labels = sorted({*[label for label in self.owned if label != private][: ROWS - 1], private})
        rows = {self.names[label]: self.draw(self.generator, label) for label in labels}
        return sheet(f"Reconstructed from {self.title}", {**rows, **self.real()}, [self.names[private]], f"{self.last()}; red: the private class, which the client has never seen")

    def progress(self) -> str:
        """The private class over the rounds."""
        looks = {f"round {number}": images[:SHOWN] for number, images in self.trail.looks.items()}
        rows = {"untrained": self.draw(self.untrained, self.trail.private), **looks, **self.real()}
        return sheet(f"Class {self.names[self.trail.private]} over the rounds of {self.title}", rows, (), self.last())

    def draw(self, maker: Generator, label: int) -> Tensor:
        return shown(forge(maker, label, SHOWN, self.scene.key))

    def real(self) -> dict[str, Tensor]:
        """The first real images of the private class."""
        private = self.trail.private
        return {f"real {self.names[private]}": self.scene.dataset.images[self.scene.dataset.labels == private][:SHOWN]}

    def last(self) -> str:
        """How good the last global model was that the attack used."""
        return f"accuracy {self.trail.accuracy:.1%} after round {self.trail.records[-1][0]:.0f}" if self.trail.records else "no round was used"


def notes(likeness: Likeness) -> tuple[str, ...]:
    """What must be known to read the scores."""
    judge = likeness.judge.network
    return (
        "margin: by how much the generated images are nearer to real ones of the class than to those of any other; the score that the controls agree on",
        f"recognised: share that a classifier of all real training images takes for the class; it is right on {judge.accuracy:.1%} of the test images, "
        "and deceived, as fid in its features is, by what no eye would be: read neither without margin and the picture",
        "a worse global model is a worse teacher: compare methods at equal accuracy (--stop-accuracy), with the untrained generator, and with --absent, where nobody holds the class",
        "a class's look is not a record: record-level privacy is not meant to prevent this attack",
        f"fid and kid: {likeness.fidelity.network.about}",
    )
