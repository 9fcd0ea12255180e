"""Which labels the records of an upload had, read off the last layer (Zhao et al. 2020; for many records Wainakh et al. 2022).

The loss of a record of class y pulls the bias of class i by 1[i = y] - p_i. An update of N records, c_i of them of class i, is therefore about a (c_i/N - p_i):
only classes that are there can rise, and how much they do counts them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ladp.params import Layout

REACH, TRIES = 40.0, 200  # of the factor a, over the largest rise


def rises(update: Tensor, model: nn.Module, layout: Layout, classes: int) -> Tensor | None:
    """How far each class rose in the last linear layer: its bias or, without one, the sum of its weights' row, [C]; None where there is no such layer."""
    name = next((name for name, module in reversed(list(model.named_modules())) if isinstance(module, nn.Linear) and module.out_features == classes), None)
    if name is None:
        return None
    views, dot = layout.views(update), name + "." if name else ""
    return (views[f"{dot}bias"] if f"{dot}bias" in views else views[f"{dot}weight"].sum(1)).double().cpu()


@torch.no_grad()
def priors(model: nn.Module, images: Tensor) -> list[Tensor]:
    """What p may be: what the global model says of images that are noise, which is about right at the start, and all classes alike, as in what a trained model confuses."""
    said = model(images).double().softmax(1).mean(0).cpu()
    return [said, torch.full_like(said, 1 / len(said))]


def count(rise: Tensor, expected: Sequence[Tensor], records: int) -> Tensor:
    """The numbers c of each class, N together, that explain a rise best: least || rise - a (c/N - p) || over a > 0, c and the given p. [C]

    The rises of all classes add up to 0; what noise makes of that sum tells nothing and is taken away.
    """
    rise = rise - rise.mean()
    best, least = apportion(expected[0], records), float("inf")
    for factor in rise.max().clamp_min(1e-30) * torch.logspace(0, 1, TRIES, base=REACH, dtype=torch.float64):
        for p in expected:
            found = apportion(p + rise / factor, records)
            misfit = float((rise - factor * (found / records - p)).norm())
            if misfit < least:
                best, least = found, misfit
    return best


def apportion(shares: Tensor, records: int) -> Tensor:
    """Whole numbers nearest to shares of so many records; largest remainders first. Shares below 0 are none."""
    wanted = shares.clamp_min(0)
    wanted = wanted * (records / wanted.sum())
    whole = wanted.floor()
    rest = int(records - whole.sum())
    whole[(wanted - whole).argsort(descending=True, stable=True)[:rest]] += 1
    return whole.long()


def tally(labels: Tensor, classes: int) -> Tensor:
    """How many of the labels each class has."""
    return torch.bincount(labels.cpu(), minlength=classes)
