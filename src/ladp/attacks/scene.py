"""A run as an attack finds it: its rounds played again, its last state, and a folder to keep things in."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as unpack
from torch import Tensor, nn

from ladp import data, experiment, folder, training
from ladp.data import Dataset
from ladp.errors import Problem
from ladp.federation import Round, State, begin, federate
from ladp.keys import Key
from ladp.recipe import Recipe, load
from ladp.report.runs import read_rounds
from ladp.training.local import normalise
from ladp.training.work import Work


@dataclass(frozen=True, eq=False)
class Scene:
    """A run folder, what it was made with, and where the attack keeps its own (`out`, with the digest of the attack's options)."""

    run: Path
    out: Path
    digest: str
    recipe: Recipe
    dataset: Dataset
    work: Work
    engine: str

    @staticmethod
    def of(run: Path, out: Path, digest: str, read: experiment.Read = data.load) -> "Scene":
        """Everything read and checked; nothing is written."""
        recipe = load(run / folder.RECIPE)
        dataset = read(recipe.data, recipe.root, recipe.validation, recipe.features)
        about = folder.get_json(run / folder.ABOUT) if (run / folder.ABOUT).exists() else {}
        work, engine = experiment.prepare(recipe, about.get("precision"), lambda *_: dataset)
        return Scene(run, out, digest, recipe, dataset, work, engine)

    @property
    def key(self) -> Key:
        """Where the attack's own random numbers come from: none of the run's."""
        return self.work.key.at("attack", self.digest)

    def rounds(self, after: State | None = None, until: int | None = None) -> Iterator[Round]:
        """The run's rounds, played again after a state: on a CPU the same uploads and models to the last bit. Nothing of the run's folder is touched, and no ledger:
        what is sent again is what was sent before."""
        last, state = self.recipe.rounds if until is None else until, after or begin(self.work)
        if state.round >= last:
            return
        with closing(training.start(self.work, self.engine)) as engine:
            for event in federate(self.work, engine, state, self.recipe.rounds, self.recipe.mean, self._gate, self._past(state.round)):
                yield event
                if event.state.round == last:
                    return

    @cached_property
    def log(self) -> dict[int, dict[str, Any]]:
        """What the run wrote of its rounds."""
        path = self.run / folder.ROUNDS
        return {record["round"]: record for record in read_rounds(path)[0]} if path.exists() else {}

    def _gate(self, number: int, cohort: list[int], z: float) -> tuple[list[int], list[int]]:
        """Who took part in a run under a budget is what its log says."""
        return (self.log[number]["clients"], self.log[number]["refused"]) if number in self.log else (cohort, [])

    def _past(self, done: int) -> Counter[int] | None:
        """How often each client had taken part by then; None where the log does not tell."""
        told = all(number in self.log for number in range(1, done + 1))
        return Counter(client for number in range(1, done + 1) for client in self.log[number]["clients"]) if told else None

    def final(self) -> State:
        """The state that the run has come to."""
        path = self.run / folder.CHECKPOINT
        if not path.exists():
            raise Problem(f"{self.run} has no {folder.CHECKPOINT} yet: `ladp resume {self.run}` first")
        return folder.load_state(path, self.recipe.digest, self.work.device)[0]

    def model(self, row: Tensor, counts: Tensor) -> nn.Module:
        """A network of its own that holds these weights, ready to classify."""
        model = deepcopy(self.work.model).to(self.work.device, self.work.dtype)
        self.work.layout.write(row, model)
        self.work.layout.recount(counts, model)
        return model.eval()

    def take(self, indices: Tensor, test: bool = False) -> tuple[Tensor, Tensor]:
        """Normalised images [n, C, H, W] in [-1, 1], and their labels, of the training or the test records."""
        images, labels = (self.work.test_images, self.work.test_labels) if test else (self.work.images, self.work.labels)
        return normalise(images[indices].to(self.work.device), self.work.dtype), labels[indices].to(self.work.device)

    def save(self, state: State, own: Mapping[str, Tensor]) -> None:
        """Keep the run's state and the attack's own tensors together: a pair is whole, or the one before stands."""
        content = folder.save({name: tensor.detach().cpu().contiguous() for name, tensor in own.items()})
        kept = self.out / f"attack-{state.round}.safetensors"
        folder.put(kept, content)
        folder.save_state(self.out / folder.CHECKPOINT, state, self.digest, sha256(content).hexdigest())
        for path in self.out.glob("attack-*.safetensors"):
            if path != kept:
                path.unlink()

    def recall(self) -> tuple[State | None, dict[str, Tensor]]:
        """Where the attack was cut off, if it was."""
        path = self.out / folder.CHECKPOINT
        if not path.exists():
            return None, {}
        state, digest = folder.load_state(path, self.digest, self.work.device)
        content = (self.out / f"attack-{state.round}.safetensors").read_bytes()
        if sha256(content).hexdigest() != digest:
            raise Problem(f"{self.out} is damaged: its attack-{state.round}.safetensors is not the one that was saved; delete the folder to begin again")
        return state, {name: tensor.to(self.work.device) for name, tensor in unpack(content).items()}
