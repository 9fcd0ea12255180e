"""A method as a user would write it, in a file of its own: it remembers, it clips, and its noise grows with each of a client's turns."""

from dataclasses import dataclass
from typing import ClassVar

from ladp.privacy.mechanism import Guarantee, Mechanism, Plan, Seen, constant_plan


@dataclass(frozen=True)
class Drift(Mechanism):
    """sigma = `first` (1 + turns): each client counts its own."""

    name: ClassVar[str] = "drift"
    first: float = 0.01
    clip: float = 0.5

    def remembers(self, layout) -> int:
        return 1

    def plan(self, seen: Seen, local=None, memory=None) -> Plan:
        turns = memory[:, 0].double().cpu()
        plan = constant_plan(self, seen, self.first * (1 + turns))
        return Plan(plan.layers, plan.sigma, memory=memory + 1, clip=plan.sigma.new_full(plan.sigma.shape, self.clip))

    def certify(self) -> Guarantee:
        return Guarantee(float("inf"), None, "client", "server", "none applies", ("an example",))
