"""No protection: federated averaging (McMahan et al. 2017)."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from ladp.privacy.mechanism import Guarantee, Mechanism, Plan, Seen, constant_plan


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """The upload is the trained model."""

    name: ClassVar[str] = "none"

    def plan(self, seen: Seen, local: Tensor | None = None, memory: Tensor | None = None) -> Plan:
        return constant_plan(self, seen, torch.zeros(len(seen.steps)))

    def certify(self) -> Guarantee:
        return Guarantee(inf, None, "record", "server", "none applies", ("nothing is noised",))
