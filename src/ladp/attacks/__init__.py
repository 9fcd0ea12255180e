"""What an adversary gets out of a run: attacks by name, and how one is carried out and kept.

    for event in ladp.attacks.carry_out(ladp.attacks.create("membership"), "runs/first"): ...
"""

from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ladp import folder
from ladp.attacks.attack import Attack, Findings, Step
from ladp.attacks.scene import Scene
from ladp.errors import Problem, choose
from ladp.experiment import device_name
from ladp.recipe import load
from ladp.report.attacks import FINDINGS, FOLDER, read
from ladp.version import VERSION

ATTACKS: dict[str, str] = {  # name: where it lives, "module:Class"; imported when chosen
    "gan": "ladp.attacks.gan:Gan",
    "inversion": "ladp.attacks.inversion:Inversion",
    "membership": "ladp.attacks.membership:Membership",
    "source": "ladp.attacks.source:Source",
}


def kind(name: str) -> type[Attack]:
    """The class of an attack."""
    module, _, title = ATTACKS[choose("attack", name, ATTACKS)].partition(":")
    return getattr(import_module(module), title)


def create(name: str, **options: Any) -> Attack:
    """An attack with its options."""
    try:
        return kind(name)(**options)
    except TypeError as error:
        raise Problem(f"attack {name!r}: {error}; see `ladp attack {name} --help`") from error


def carry_out(attack: Attack, run: str | Path) -> Iterator[Step | dict[str, Any]]:
    """Attack a run folder; the last thing yielded is what is kept in RUN/attacks/<name>-<digest>/findings.json. One that was finished before is only read."""
    run = Path(run)
    if not (run / folder.RECIPE).exists():
        raise Problem(f"{run} is not a run folder: it has no {folder.RECIPE}; `ladp run --out {run}` makes one")
    digest = attack.digest(load(run / folder.RECIPE).digest)
    out = run / FOLDER / f"{attack.name}-{digest[:8]}"
    if (known := recall(out)) is not None:
        yield known
        return
    with folder.writing(out, "choose a run folder that can be written"):
        out.mkdir(parents=True, exist_ok=True)
    with folder.alone(out):
        began, scene = perf_counter(), Scene.of(run, out, digest)
        for event in attack.carry_out(scene):
            yield keep(scene, attack, event, perf_counter() - began) if isinstance(event, Findings) else event


def keep(scene: Scene, attack: Attack, findings: Findings, seconds: float) -> dict[str, Any]:
    """The pictures, then the record that tells of them."""
    for name, picture in findings.pictures.items():
        folder.put(scene.out / f"{name}.svg", picture.encode())
    record = {
        "attack": attack.name, "view": attack.view, "digest": scene.digest, "options": asdict(attack), "recipe": scene.recipe.digest, "seed": scene.recipe.seed,
        "method": scene.recipe.method.name, "version": VERSION, "torch": torch.__version__, "device": device_name(scene.work.device), "seconds": seconds,
        "scores": findings.scores, "notes": list(findings.notes), "pictures": list(findings.pictures), "out": str(scene.out),
    }  # fmt: skip
    folder.put_json(scene.out / FINDINGS, record)
    return record


def recall(out: Path) -> dict[str, Any] | None:
    """What an attack found before; None if it was not finished."""
    return {**read(out / FINDINGS), "out": str(out)} if (out / FINDINGS).exists() else None
