"""A cohort trained as one computation gives what its clients give one by one."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ladp.data.partition import create
from ladp.federation import begin, federate
from ladp.mechanisms import Full, LaDP, NoNoise
from ladp.privacy.mechanism import Training
from ladp.training.sequential import Sequential
from ladp.training.stacked import Stacked, steps

CASES = {
    "plain": dict(method=NoNoise()),
    "ladp by module": dict(method=LaDP(layers="module")),
    "BatchNorm, noised too": dict(method=Full(state="all"), norm="batch"),
    "GroupNorm": dict(method=LaDP(), norm="group"),
    "dropout and augmentation": dict(method=LaDP(), dropout=0.4, training=Training(batch=20, augment=True)),
    "a gradient clip that binds": dict(method=NoNoise(), training=Training(batch=20, clip=0.05)),
    "uneven clients": dict(method=LaDP(), partition=create("dirichlet", alpha=0.3), training=Training(batch=20, epochs=2)),
    "residual": dict(method=LaDP(), model="resnet18", clients=40, active=2, rounds=1, training=Training(batch=20, epochs=1)),
    "bottlenecks of the user's own": dict(method=NoNoise(), model=f"{__name__}:Bottlenecks"),
}


class Bottlenecks(nn.Module):
    """Layers that a traced program must order right: a branch, a shortcut, functional ReLU, overlapping pooling, tanh."""

    def __init__(self, classes: int):
        super().__init__()
        self.one, self.two, self.three = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.norm, self.pool, self.tanh = nn.BatchNorm2d(8), nn.MaxPool2d(3, 1, 1), nn.Tanh()
        self.mean, self.flat, self.head = nn.AvgPool2d(2), nn.Flatten(), nn.Linear(48, classes)

    def forward(self, x):
        x = torch.relu(self.one(x))
        return self.head(self.flat(self.mean(self.tanh(self.three(torch.relu(self.norm(self.two(x)) + self.pool(x)))))))


class Odd(nn.Module):
    """A model with a part that no stacked layer stands for."""

    def __init__(self, classes: int):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(64)), nn.Linear(64, classes)

    def forward(self, x):
        return self.head(x.flatten(1) * self.scale)


def states(engine, work, count):
    try:
        return [(r.state, r.losses, r.receipt, engine.evaluate(r.state.current, r.state.counts)) for r in federate(work, engine, begin(work), count)]
    finally:
        engine.close()


@pytest.mark.parametrize("case", CASES)
def test_stacked_and_sequential_rounds_agree_in_float64(recipe, make_work, case):
    recipe = replace(recipe, precision="float64", **CASES[case])
    work, count = make_work(recipe), min(recipe.rounds, 2)
    for (one, losses, receipt, tested), (other, losses2, receipt2, tested2) in zip(states(Sequential(work), work, count), states(Stacked(work), work, count)):
        torch.testing.assert_close(one.current, other.current, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(losses, losses2, rtol=1e-9, atol=1e-11)
        assert torch.equal(one.counts, other.counts) and tested[0] == tested2[0]
        for part, part2 in zip(vars(receipt).values(), vars(receipt2).values()):
            torch.testing.assert_close(part, part2, rtol=1e-6, atol=1e-12, equal_nan=True)


def test_every_stacked_case_has_a_program(recipe, make_work):
    assert all(Stacked(make_work(replace(recipe, **case))).cohort is not None for case in CASES.values())


def test_a_model_that_cannot_be_stacked_is_trained_all_the_same(recipe, make_work):
    work = make_work(replace(recipe, model=f"{__name__}:Odd"))
    engine = Stacked(work)
    assert engine.cohort is None
    for (one, *_), (other, *_) in zip(states(Sequential(work), work, 2), states(engine, work, 2)):
        assert torch.equal(one.current, other.current)


@pytest.mark.parametrize("sizes", [[7], [50, 50], [125, 110, 110, 50, 30, 30, 1], [20] * 3 + [19]])
def test_every_client_takes_its_batches_in_its_own_order(sizes):
    taken = [[] for _ in sizes]
    for first, last, records in steps(sizes, 3, 20):
        for k in range(first, last):
            taken[k].append(records)
    for size, batches in zip(sizes, taken):
        assert batches == ([20] * (size // 20) + [size % 20] * (size % 20 > 0)) * 3


def test_clients_of_one_size_always_step_together():
    assert list(steps([45, 45, 45], 2, 20)) == [(0, 3, 20), (0, 3, 20), (0, 3, 5)] * 2
