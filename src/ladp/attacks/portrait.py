"""What the reconstruction came to: scores of every class beside an untrained generator and real images, and the pictures."""

from typing import Any

import torch

from ladp.attacks.attack import Findings
from ladp.attacks.generator import Generator, forge
from ladp.attacks.likeness import Likeness
from ladp.attacks.pictures import sheet, shown
from ladp.attacks.scene import Scene
from ladp.attacks.trail import Trail
from ladp.training.local import normalise

SHOWN, ROWS = 12, 15
NUMBERS = ("recognised", "distance", "distance_other", "fid", "kid")


def portray(scene: Scene, features: str, samples: int, client: int, owned: list[int], generator: Generator, untrained: Generator, trail: Trail) -> Findings:
    """Only here are the private class's real images looked at, to compare."""
    likeness, private, key = Likeness.of(scene.dataset, features, scene.work.device), trail.private, scene.key
    of = lambda maker, label: likeness.score(forge(maker, label, samples, key), label)  # noqa: E731
    held = scene.dataset.test_images[scene.dataset.test_labels == private]
    found = {label: of(generator, label) for label in sorted({*owned, private})}
    scores = {
        "recognised": found[private]["recognised"], "recognised_untrained": (floor := of(untrained, private))["recognised"],
        "private": {"class": scene.dataset.classes[private], "client": client, **found[private]},
        "untrained": floor,
        "real": likeness.score(normalise(held), private),
        "public": {name: sum(found[label][name] for label in owned) / len(owned) for name in NUMBERS},
        "classes": {"name": [scene.dataset.classes[label] for label in found], **{name: [score[name] for score in found.values()] for name in NUMBERS}},
        "rounds": {**trail.columns, **progress(likeness, trail)},
        "judge_accuracy": likeness.judge.network.accuracy,
    }  # fmt: skip
    return Findings(scores, pictures(scene, owned, generator, untrained, trail), notes(likeness))


def progress(likeness: Likeness, trail: Trail) -> dict[str, list[float]]:
    """How much of what was kept on the way is recognised."""
    shares = [likeness.taken(normalise(images))[trail.private] for images in trail.looks.values()]
    return {"looked": list(trail.looks), "recognised": shares}


def pictures(scene: Scene, owned: list[int], generator: Generator, untrained: Generator, trail: Trail) -> dict[str, str]:
    """A row a class as in the paper's figure, the private one in red; and the private class over the rounds."""
    private, classes = trail.private, scene.dataset.classes
    draw = lambda maker, label: shown(forge(maker, label, SHOWN, scene.key))  # noqa: E731
    labels = sorted({*[label for label in owned if label != private][: ROWS - 1], private})
    rows = {classes[label]: draw(generator, label) for label in labels}
    real = {f"real {classes[private]}": scene.dataset.images[scene.dataset.labels == private][:SHOWN]}
    name = f"{scene.recipe.method.name}, seed {scene.recipe.seed}"
    way = {f"untrained": draw(untrained, private), **{f"round {number}": images[:SHOWN] for number, images in trail.looks.items()}}
    last = f"accuracy {trail.accuracy:.1%} after round {trail.records[-1][0]}" if trail.records else "no round was attacked"
    return {
        "classes": sheet(f"Reconstructed from {name}", {**rows, **real}, [classes[private]], f"{last}; red: the private class, which the client has never seen"),
        "progress": sheet(f"Class {classes[private]} over the rounds of {name}", {**way, **real}, (), last),
    }


def notes(likeness: Likeness) -> tuple[str, ...]:
    """What must be known to read the scores."""
    judge = likeness.judge.network
    return (
        f"recognised: share that a classifier of all real training images takes for the class; it is right on {judge.accuracy:.1%} of the test images, and may be deceived by what no eye would be",
        "a worse global model is a worse teacher: compare methods at equal accuracy (--stop-accuracy), with the untrained generator, and with --absent, where nobody holds the class",
        "a class's look is not a record: record-level privacy is not meant to prevent this attack",
        f"fid and kid: {likeness.fidelity.network.about}",
    )
