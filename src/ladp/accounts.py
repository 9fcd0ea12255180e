"""What a run spends: charged to a ledger before every round, and what that comes to in every view."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ladp import folder
from ladp.federation import Gate
from ladp.ledger import Ledger, Limit
from ladp.ledger.entry import UNBOUNDED, VIEWS, Costs
from ladp.privacy.mechanism import Guarantee
from ladp.recipe import Recipe
from ladp.training.work import Work


@contextmanager
def gate(out: Path, recipe: Recipe, work: Work, run: str) -> Iterator[Gate | None]:
    """What charges each cohort of a run before its round begins, to the recipe's ledger or to one in the run's folder; None where no budget is kept.

    On a CPU a resumed run makes the same release again, bit for bit, so that it is charged once; elsewhere it is charged again.
    """
    if work.budget is None:
        yield None
        return
    with Ledger(recipe.ledger or out / folder.LEDGER) as ledger:
        budget, same = work.budget, None if work.device.startswith("cuda") else f"{recipe.digest}/{torch.__version__}"
        limit = None if work.mechanism.peeks else Limit(budget.epsilon, budget.delta, budget.view, budget.unit)

        def admit(number: int, cohort: list[int], z: float) -> tuple[list[int], list[int]]:
            replays = {str(client): f"{same}/{number}" for client in cohort} if same else {}
            entries, refusals = ledger.admit(run, number, budget.unit, list(map(str, cohort)), lambda those: _costs(work, those, z), limit, replays)
            paid = {entry.client for entry in entries}
            return [client for client in cohort if str(client) in paid], [int(refusal.client) for refusal in refusals]

        yield admit


def _costs(work: Work, cohort: Sequence[str], z: float) -> Mapping[str, Costs]:
    """What each of these clients pays in each view for taking part together; without end where noise depends on private weights."""
    if work.mechanism.peeks:
        return dict.fromkeys(cohort, {"server": UNBOUNDED})
    views = [view for view in VIEWS if view == "server" or work.budget.colluders < len(cohort)]
    return dict.fromkeys(cohort, {view: work.budget.turn(z, len(cohort), view) for view in views})


class Spending:
    """Under a budget, how often each client took part at each z and among how many, from the records of the rounds."""

    def __init__(self) -> None:
        self.turns: dict[int, Counter[tuple[float, int]]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """One round."""
        for client, z in zip(record["clients"], record.get("multipliers") or ()):
            self.turns.setdefault(client, Counter())[z, len(record["clients"])] += 1


def claimed(work: Work) -> Guarantee | None:
    """What one upload is said to cost by the method's own paper; under a budget, what all of a client's uploads are to cost."""
    return work.budget.claim(work.mechanism.peeks, work.active) if work.budget else work.mechanism.claim()


def certified(work: Work, spending: Spending | None = None, view: str | None = None) -> Guarantee:
    """What is proved of one upload; under a budget, of all that the client that spent most has sent, in the budget's view or another."""
    if work.budget is None:
        return work.mechanism.certify()
    turns = spending.turns.values() if spending and spending.turns else None
    return work.budget.certify(work.mechanism.peeks, work.active, turns, view)


def views(work: Work, spending: Spending) -> dict[str, Guarantee]:
    """What is proved in every view, side by side; what no budget bounds is unbounded in all of them, for the same reasons."""
    return {view: certified(work, spending, view) if work.budget else replace(work.mechanism.certify(), view=view) for view in VIEWS}
