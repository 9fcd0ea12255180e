"""Every method in every form, and one of a user's own: what the laws are held on."""

from dataclasses import fields
from pathlib import Path

import torch

from ladp import models
from ladp.keys import Key
from ladp.mechanisms import METHODS, find
from ladp.mechanisms.gaussian import FORMS
from ladp.params import Layout
from ladp.privacy.mechanism import Allowance, Mechanism, Seen

FILE = Path(__file__).with_name("drift.py")


def forms() -> dict[str, Mechanism]:
    """A method that the table gains is here at once."""
    found = {}
    for name, kind in METHODS.items():
        options = {f.name for f in fields(kind)}
        found |= {f"{name} {form}": kind(form=form) for form in FORMS} if "form" in options else {name: kind()}
    return found


VARIANTS = forms() | {
    "sensitive public": METHODS["sensitive"](beta=0.0),
    "sensitive public faithful": METHODS["sensitive"](beta=0.0, form="faithful"),
    "adapldp intended": METHODS["adapldp"](form="faithful", rotate="intended"),
    "drift.py:Drift": find(f"{FILE}:Drift")(),
}


class Scene:
    """A cohort of three at the start of a round: what it sees, what it trained, what it remembers. In a later round all have taken part before."""

    def __init__(self, see, method: Mechanism, later: bool = False, size: float = 0.01, **more):
        layout = Layout.of(models.create("cnn-small", channels=1, size=8, norm="batch"))
        generator = torch.Generator().manual_seed(1)
        draw = lambda *shape: torch.randn(*shape, layout.size, generator=generator, dtype=torch.float64)  # noqa: E731
        current = 0.1 * draw()
        self.method, self.current, self.rows = method, current, current + size * draw(3)
        width = method.remembers(layout)
        self.memory = torch.zeros(3, width, dtype=torch.float64) if width else None
        if later and width:
            self.memory = 0.1 + 0.01 * torch.rand(3, width, generator=generator, dtype=torch.float64)
        shared = torch.full((method.announces(layout),), 0.1 if later else 0.0, dtype=torch.float64)
        history = dict(previous=current + 0.01 * draw(), round=3) if later else {}
        if method.needs_budget:
            more["allowance"] = Allowance(torch.full((3,), 0.8, dtype=torch.float64), 1.0, torch.zeros(3, dtype=torch.int64))
        self.seen: Seen = see(layout, current, cohort=3, shared=shared, **history, **more)

    def keys(self, seed: int = 0) -> list[Key]:
        return [Key(seed).at("noise", self.seen.round, client) for client in self.seen.cohort]
