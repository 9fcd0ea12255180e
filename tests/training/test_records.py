"""Per-record gradients: the fast way gives what each record gives by itself, and no record moves a sum by more than its bound."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ladp import models
from ladp.errors import Problem
from ladp.params import Layout
from ladp.training.local import normalise
from ladp.training.quick import quicken
from ladp.training.records import clipped_sums, manner, plain, watch


class Residual(nn.Module):
    """GroupNorm, strides, dilation, a shortcut, ReLU in place, a kernel that is not square, no padding, and a part that is not used."""

    def __init__(self, classes: int = 10):
        super().__init__()
        self.stem, self.norm1 = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.GroupNorm(2, 8)
        self.one, self.norm2 = nn.Conv2d(8, 12, 3, stride=2, padding=1), nn.GroupNorm(3, 12)
        self.short, self.wide = nn.Conv2d(8, 12, 1, stride=2), nn.Conv2d(12, 6, (2, 3), dilation=(2, 1))
        self.relu, self.head, self.unused = nn.ReLU(inplace=True), nn.Linear(6 * 2 * 2, classes), nn.Linear(2, 2)

    def forward(self, x):
        x = self.relu(self.norm1(self.stem(x)))
        x = self.relu(self.norm2(self.one(x)) + self.short(x))
        return self.head(self.relu(self.wide(x)).flatten(1))


class Tied(nn.Module):
    """One module twice, one weight in two modules, and a weight used beside its module."""

    def __init__(self):
        super().__init__()
        self.first, self.twice, self.other, self.head = nn.Linear(64, 12), nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 10)
        self.other.weight = self.twice.weight

    def forward(self, x):
        x = self.other(self.twice(torch.relu(self.twice(self.first(x.flatten(1))))))
        return self.head(x + F.linear(x, self.twice.weight))


class Own(nn.Module):
    """A weight that belongs to no module with a rule."""

    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(64)), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(x.flatten(1) * self.scale)


class Steps(nn.Module):
    """A linear layer that sees the rows of an image as places, and one whose first axis is not the record."""

    def __init__(self, swapped: bool = False):
        super().__init__()
        self.rows, self.head, self.swapped = nn.Linear(8, 5), nn.Linear(40, 10), swapped

    def forward(self, x):
        x = x.squeeze(1).transpose(0, 1) if self.swapped else x.squeeze(1)
        x = torch.tanh(self.rows(x))
        return self.head((x.transpose(0, 1) if self.swapped else x).flatten(1))


MODELS = {
    "cnn-small": lambda: models.create("cnn-small", channels=1, size=8),
    "cnn": lambda: models.create("cnn", channels=1, size=8, dropout=0.0),
    "GroupNorm": lambda: models.create("cnn-small", channels=1, size=8, norm="group"),
    "quick": lambda: quicken(models.create("cnn-small", channels=1, size=8)),
    "residual": Residual,
    "linear alone": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
    "places": Steps,
    "tied": Tied,
    "own": Own,
    "swapped axes": lambda: Steps(swapped=True),
}
SLOW = {"tied", "own", "swapped axes"}


def make(name, n=23, copies=1, seed=0):
    with torch.random.fork_rng():
        torch.random.default_generator.manual_seed(seed)
        model = MODELS[name]().double()
        images, labels = normalise(torch.randint(0, 256, (n * copies, 1, 8, 8), dtype=torch.uint8), torch.float64), torch.randint(0, 10, (n,))
    return model, images, labels


def explicit(model, images, labels, owners, count, layout, layers, scales, copies=1):
    """The same written plainly: one record at a time through torch's own backward."""
    rows = torch.zeros(count, layout.size, dtype=images.dtype)
    for r, (batch, label, k) in enumerate(zip(images.split(copies), labels, owners.tolist())):
        model.zero_grad()
        F.cross_entropy(model(batch), label.repeat(copies)).backward()
        row = torch.zeros(layout.size, dtype=images.dtype)
        for entry in layout.entries:
            tensor = dict(model.named_parameters()).get(entry.name)
            if tensor is not None and tensor.grad is not None:
                row[entry.start : entry.stop] = tensor.grad.flatten()
        square, kept = 0.0, torch.zeros_like(row)
        for j, layer in enumerate(layers):
            if scales[k, j] > 0:
                square += float(row[layer.start : layer.stop].square().sum()) / float(scales[k, j]) ** 2
                kept[layer.start : layer.stop] = row[layer.start : layer.stop]
        rows[k] += kept / max(1.0, square**0.5)
    model.zero_grad()
    return rows


def scaled(layers, count, seed=0, size=0.5):
    """Scales of which some shorten and some do not."""
    return size * torch.rand(count, len(layers), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.01


def test_every_case_goes_the_way_it_is_meant_to():
    for name in MODELS:
        model, images, labels = make(name)
        layout = Layout.of(model)
        clipped_sums(model, images, labels, torch.zeros(23, dtype=torch.int64), 1, layout, layout.layers(), scaled(layout.layers(), 1))
        assert [m.read for m in manner._TRIED[model].values()] == [plain.read if name in SLOW else watch.read], name


@pytest.mark.parametrize("by", ["tensor", "module"])
@pytest.mark.parametrize("name", MODELS)
def test_clipped_sums_are_those_of_one_record_at_a_time(name, by):
    model, images, labels = make(name)
    layout, owners = Layout.of(model), torch.randint(0, 4, (23,), generator=torch.Generator().manual_seed(5))
    owners[owners == 2] = 3  # an owner without records
    layers = layout.layers(by)
    scales = scaled(layers, 5)
    rows, facts = clipped_sums(model, images, labels, owners, 5, layout, layers, scales)
    torch.testing.assert_close(rows, explicit(model, images, labels, owners, 5, layout, layers, scales), rtol=1e-10, atol=1e-12)
    assert not rows[2].any() and not rows[4].any() and not facts[4].any()
    losses = F.cross_entropy(model(images), labels, reduction="none")
    torch.testing.assert_close(facts[:, 0], torch.zeros(5, dtype=torch.float64).index_add_(0, owners, losses.detach()))
