"""Source inference: which client of the cohort a training record belongs to, judged by whose upload has the least loss on it.

Hu, Salcic, Sun, Dobbie & Zhang, Source Inference Attacks in Federated Learning (ICDM 2021).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp.attacks.attack import Attack, Findings, Step, option, refuse_unless
from ladp.attacks.pictures import course
from ladp.attacks.scene import Scene
from ladp.errors import Problem
from ladp.federation import Round, floor_variances
from ladp.metrics.interval import wilson
from ladp.keys import one_thread

KEEP_SECONDS = 20.0
BATCH = 500
FIELDS = ("round", "asked", "right", "calibrated", "chance")  # of a round: whole numbers, and the expected number of right answers of who guesses


@dataclass(frozen=True)
class Source(Attack):
    """Source inference: which client of a cohort owns a record, by whose upload fits it best (Hu et al. 2021)."""

    name: ClassVar[str] = "source"
    view: ClassVar[str] = "server"
    rounds: int = option(10, "How many rounds are attacked, evenly spaced, the last one always; 0, or more than there are, attacks all.")
    records: int = option(20, "How many records of each client of the cohort are asked about; fewer where one of them holds fewer.")

    def __post_init__(self) -> None:
        refuse_unless(self.rounds >= 0, self, "rounds", "at least 0")
        refuse_unless(self.records >= 1, self, "records", "at least 1")

    def carry_out(self, scene: Scene) -> Iterator[Step | Findings]:
        attacked = self._attacked(scene)
        state, kept = scene.recall()
        found, due = kept["found"].cpu().tolist() if kept else [], monotonic() + KEEP_SECONDS
        for event in scene.rounds(state):
            number = event.state.round
            if number in attacked:
                found.append([number, *self._ask(scene, event)])
            if monotonic() > due:
                scene.save(event.state, {"found": torch.tensor(found, dtype=torch.float64).view(-1, len(FIELDS))})
                due = monotonic() + KEEP_SECONDS
            yield Step(number, scene.recipe.rounds, f"right {sum(row[2] for row in found):g} of {sum(row[1] for row in found):g}")
        yield self._conclude(scene, [dict(zip(FIELDS, row)) for row in found])

    def _attacked(self, scene: Scene) -> set[int]:
        """The rounds, counted back from the last in even strides."""
        last = scene.recipe.rounds
        if scene.recipe.active < 2:
            raise Problem("attack 'source' asks which of a cohort's clients owns a record, and the cohorts of this run are of one client: attack a run with active = 2 or more")
        count = min(self.rounds or last, last)
        return {last - step * last // count for step in range(count)}

    def _ask(self, scene: Scene, event: Round) -> tuple[int, int, int, float]:
        """About records of a round's cohort: how many, how many are right, how many are right if every upload's losses are first taken relative to their mean,
        and how many who guesses would have right."""
        held = [scene.work.split.indices(client) for client in event.cohort]
        records = self._draw(scene, event, held)
        owned = torch.from_numpy(np.stack([np.isin(records, own) for own in held]))
        losses = upload_losses(scene, event, torch.from_numpy(records))
        right = [int(owned.gather(0, score.argmin(0, keepdim=True)).sum()) for score in (losses, losses - losses.mean(1, keepdim=True))]
        return len(records), *right, float(owned.double().mean(0).sum())

    def _draw(self, scene: Scene, event: Round, held: list[np.ndarray]) -> np.ndarray:
        """Equally many of each client's records, once each."""
        count, key = min(self.records, *map(len, held)), scene.key.at("records", event.state.round)
        return np.concatenate([key.at(client).numpy().choice(own, count, replace=False) for client, own in zip(event.cohort, held)])

    def _conclude(self, scene: Scene, found: list[dict[str, float]]) -> Findings:
        """All rounds together, and each by itself."""
        total, every = {name: sum(row[name] for row in found) for name in FIELDS[1:]}, [rates(row) for row in found]
        numbers = [int(row["round"]) for row in found]
        by_round = {name: [row[name] for row in every] for name in every[0]}
        scores = {**rates(total), "by_round": {"round": numbers, **by_round}}
        lines = {name: list(zip(numbers, by_round[name])) for name in ("right", "calibrated", "chance")}
        note = f"share of records that are given to an owner, of {int(total['asked'])}"
        return Findings(scores, {"rounds": course(f"Source inference, {scene.recipe.method.name}", lines, scene.recipe.rounds, note)}, self._notes(scene))

    def _notes(self, scene: Scene) -> tuple[str, ...]:
        """What must be known to read the scores."""
        return (
            f"the uploads are the run's own; of every client of the cohort up to {self.records} of its training records are asked about",
            "an answer is right if the client named owns the record; where several of the cohort do, any of them is right, and chance counts them",
            "intervals are Wilson's at 95 %, as if answers were independent of each other, for these uploads; records of a client share its upload and its noise",
        )


@torch.no_grad()
def upload_losses(scene: Scene, event: Round, records: Tensor) -> Tensor:
    """The loss of every upload of a cohort on every record, [K, n]; what is no number counts as the largest there is."""
    rows = []
    for upload in event.uploads:
        row = upload.clone()
        floor_variances(scene.work, row)
        rows.append(record_losses(scene, scene.model(row, event.state.counts), records))
    return torch.stack(rows).nan_to_num(nan=1e30, posinf=1e30)


def record_losses(scene: Scene, model: nn.Module, records: Tensor) -> Tensor:
    """The loss of a model on each record, [n]."""
    with one_thread():
        parts = [F.cross_entropy(model(x).double(), y, reduction="none") for x, y in map(scene.take, records.split(BATCH))]
    return torch.cat(parts).cpu()


def rates(row: dict[str, float]) -> dict[str, Any]:
    """Numbers of right answers as rates, with their intervals."""
    asked = int(row["asked"])
    intervals = {f"{name}_interval": list(wilson(int(row[name]), asked)) for name in ("right", "calibrated")}
    return {**{name: row[name] / asked for name in ("right", "chance", "calibrated")}, **intervals, "asked": asked}
