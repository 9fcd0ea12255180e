"""Per-record gradients: the fast way gives what each record gives by itself, and no record moves a sum by more than its bound."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ladp import models
from ladp.errors import Problem
from ladp.keys import Key
from ladp.params import Layer, Layout
from ladp.training.local import normalise
from ladp.training.quick import quicken
from ladp.training.records import clipped_sums, kinds, manner, plain, stacked_sums, watch
from ladp.training.records.parts import Dense, Groups, Product
from ladp.training.records.sampling import sample


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
    with Key(seed).reign():
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


@pytest.mark.parametrize("name", MODELS)
def test_clients_with_weights_of_their_own_get_what_they_get_one_by_one(name):
    model, images, labels = make(name, 12)
    layout, rows = Layout.of(model), []
    layers = layout.layers()
    for k in range(3):
        rows.append(layout.read(model) * (1 + 0.1 * k))
    rows, mask, scales = torch.stack(rows), torch.ones(3, 4, dtype=torch.bool), scaled(layers, 3)
    mask[0, 3], mask[2, :] = False, False
    found, facts = stacked_sums(model, rows, images.unflatten(0, (3, 4)), labels.view(3, 4), mask, layout, layers, scales)
    for k, part in enumerate(torch.arange(12).split(4)):
        layout.write(rows[k], model)
        part = part[mask[k]]
        wanted, told = clipped_sums(model, images[part], labels[part], torch.zeros(len(part), dtype=torch.int64), 1, layout, layers, scales[k : k + 1])
        torch.testing.assert_close(found[k], wanted[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(facts[k], told[0])


@pytest.mark.parametrize("ghost", [0, 10**9])
@pytest.mark.parametrize("copies", [1, 3])
def test_norms_are_the_same_whether_gradients_are_written_out_or_not(ghost, copies, monkeypatch):
    monkeypatch.setattr(kinds, "GHOST", ghost)
    model, images, labels = make("residual", 9, copies)
    names = [name for name, _ in model.named_parameters()]
    parts = [way.read(model.eval(), images, labels, names, copies)[1] for way in (watch, plain)]
    groups, weights = Groups.of(torch.arange(9) // 4, "cpu"), torch.rand(9, dtype=torch.float64)
    assert {type(part) for name, part in parts[0].items() if name.endswith("weight") and "norm" not in name and "unused" not in name} == {Product if ghost else Dense}
    for name in names:
        one, other = (way[name] for way in parts)
        torch.testing.assert_close(one.squares(), other.squares(), rtol=1e-10, atol=1e-14)
        torch.testing.assert_close(one.sums(weights, groups), other.sums(weights, groups), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("owners", [[0] * 4 + [1] * 5 + [3] * 3, [0] * 4 + [2] * 4 + [3] * 4, [0] * 10 + [1, 2], [5] * 12])
def test_sums_by_owner_are_the_same_one_after_the_other_and_together(owners):
    model, images, labels = make("residual", 12)
    names, weights = [name for name, _ in model.named_parameters()], torch.rand(12, dtype=torch.float64)
    parts, groups = watch.read(model, images, labels, names, 1)[1], Groups.of(torch.tensor(owners), "cpu")
    for name in names:
        one, other = (parts[name].sums(weights, replace(groups, together=t)) for t in (False, True))
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)
        assert one.shape == (len(set(owners)), model.get_parameter(name).numel())


def sums(model, images, labels, owners=None, count=1, layers=None, scales=None, **options):
    layout = Layout.of(model)
    layers = layers or layout.layers()
    owners = torch.zeros(len(labels), dtype=torch.int64) if owners is None else owners
    scales = torch.full((count, len(layers)), 0.3, dtype=torch.float64) if scales is None else scales
    return clipped_sums(model, images, labels, owners, count, layout, layers, scales, **options)


@pytest.mark.parametrize("name", ["cnn-small", "residual", "own"])
def test_adding_or_removing_a_record_moves_its_owner_by_at_most_one_in_the_scaled_norm_and_nobody_else(name):
    model, images, labels = make(name)
    images *= 20  # gradients far beyond the bound
    layers, owners = Layout.of(model).layers(), torch.arange(23) % 3
    scales = scaled(layers, 3)
    rows, facts = sums(model, images, labels, owners, 3, layers, scales)
    moves = []
    for r in range(0, 23, 4):
        rest = torch.arange(23) != r
        moved = rows - sums(model, images[rest], labels[rest], owners[rest], 3, layers, scales)[0]
        length = lambda k: sum((moved[k, l.start : l.stop].norm() / scales[k, j]) ** 2 for j, l in enumerate(layers)) ** 0.5  # noqa: E731
        moves.append(float(length(r % 3)))
        assert moves[-1] <= 1 + 1e-9 and max(float(length(k)) for k in range(3) if k != r % 3) < 1e-12
    assert max(moves) > 1 - 1e-9 and facts[:, 1].sum() > 15


def test_a_frozen_layer_is_zero_and_does_not_count_in_the_norm():
    model, images, labels = make("residual")
    layout, owners = Layout.of(model), torch.arange(23) % 2
    layers = layout.layers()
    scales = scaled(layers, 2)
    scales[:, 0], scales[0, 4], scales[1, 7:9] = 0, 0, 0
    rows, _ = sums(model, images, labels, owners, 2, layers, scales)
    torch.testing.assert_close(rows, explicit(model, images, labels, owners, 2, layout, layers, scales), rtol=1e-10, atol=1e-12)
    still = [[not rows[k, l.start : l.stop].any() for l in layers[:9]] for k in range(2)]
    assert still == [[s == 0 for s in line[:9]] for line in scales.tolist()]
    assert not sums(model, images, labels, owners, 2, layers, torch.zeros_like(scales))[0].any()


def test_what_is_not_trained_or_lies_in_no_layer_is_zero():
    model, images, labels = make("cnn-small")
    model.fc1.weight.requires_grad_(False)
    layout = Layout.of(model)
    some = layout.layers()[2:]
    rows, _ = sums(model, images, labels, layers=some, scales=torch.full((1, len(some)), 0.2))
    torch.testing.assert_close(rows, explicit(model, images, labels, torch.zeros(23, dtype=torch.int64), 1, layout, some, torch.full((1, len(some)), 0.2)), rtol=1e-10, atol=1e-12)
    frozen = next(e for e in layout.entries if e.name == "fc1.weight")
    assert not rows[0, : some[0].start].any() and not rows[0, frozen.start : frozen.stop].any() and rows.any()
    assert [p.requires_grad for p in model.parameters()] == [n != "fc1.weight" for n, _ in model.named_parameters()]


@pytest.mark.parametrize("name", ["cnn-small", "residual", "own"])
def test_the_gradients_of_a_records_copies_are_averaged_before_clipping(name):
    model, images, labels = make(name, 9, copies=3)
    owners, layout = torch.tensor([1, 0, 0, 2, 1, 1, 0, 2, 0]), Layout.of(model)
    scales = scaled(layout.layers(), 3)
    rows, _ = sums(model, images, labels, owners, 3, scales=scales, copies=3)
    torch.testing.assert_close(rows, explicit(model, images, labels, owners, 3, layout, layout.layers(), scales, 3), rtol=1e-10, atol=1e-12)
    found, _ = stacked_sums(model, layout.read(model).repeat(3, 1), images.unflatten(0, (3, 9)), labels.view(3, 3), torch.ones(3, 3), layout, layout.layers(), scales, 3)
    wanted, _ = sums(model, images, labels, torch.arange(3).repeat_interleave(3), 3, scales=scales, copies=3)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["residual", "own"])
def test_how_many_records_are_read_at_a_time_changes_nothing(name, monkeypatch):
    model, images, labels = make(name, 40)
    owners = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(1))
    whole = sums(model, images, labels, owners, 3)
    monkeypatch.setattr(manner, "MEMORY", 7 * next(iter(manner._TRIED[model].values())).bytes)
    for one, other in zip(whole, sums(model, images, labels, owners, 3)):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    layout, layers = Layout.of(model), Layout.of(model).layers()
    scales = torch.full((2, len(layers)), 0.3, dtype=torch.float64)
    stacked, _ = stacked_sums(model, layout.read(model).repeat(2, 1), images.unflatten(0, (2, 20)), labels.view(2, 20), torch.ones(2, 20), layout, layers, scales)
    torch.testing.assert_close(stacked.sum(0), whole[0].sum(0), rtol=1e-10, atol=1e-12)


def test_no_records_give_zero_rows():
    model, images, labels = make("cnn-small")
    rows, facts = sums(model, images[:0], labels[:0], count=3)
    assert rows.shape == (3, Layout.of(model).size) and not rows.any() and not facts.any()


@pytest.mark.parametrize("name", ["residual", "quick"])
def test_the_result_in_float32_is_that_in_float64_up_to_rounding(name, monkeypatch):
    model, images, labels = make(name)
    wanted, _ = sums(model, images, labels)
    model, images = model.float(), images.float()
    for manners in ({}, dict.fromkeys([(images.shape[1:], images.dtype, images.device, False)], manner.plainly(model, images[:1]))):
        monkeypatch.setitem(manner._TRIED, model, manners)
        found, _ = sums(model, images, labels)
        assert found.dtype == torch.float32 and float((found - wanted).norm() / wanted.norm()) < 1e-5


def test_in_bf16_the_sums_are_near_and_no_record_is_longer_than_the_bound():
    model, images, labels = make("cnn-small")
    model, images = model.float(), images.float() * 5
    wanted, _ = sums(model, images, labels, torch.arange(23), 23)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = sums(model, images, labels, torch.arange(23), 23)
    assert float((found - wanted).norm() / wanted.norm()) < 0.05
    assert 0.98 < float(found.norm(dim=1).max() / 0.3) <= 1 + 1e-3


def test_every_record_has_its_own_dropout_and_it_is_on():
    model, images, labels = models.create("cnn-small", channels=1, size=8, dropout=0.5), *make("cnn-small", 1)[1:]
    images, labels, names = images.float().repeat(8, 1, 1, 1), labels.repeat(8), ("fc1.weight", "fc2.bias")
    for way in (watch, plain):
        with Key(0).reign():
            losses, parts = way.read(model.train(), images, labels, names, 1)
        assert len(set(losses.tolist())) == 8 and len(set(parts["fc1.weight"].squares().tolist())) == 8
    with Key(0).reign():
        one = sums(model, images, labels)[0]
    with Key(0).reign():
        assert torch.equal(one, sums(model, images, labels)[0])  # the first time, when the way is tried, draws no other numbers


class Mixing(nn.Module):
    """A model of whose records one sees the others."""

    def __init__(self, seen: bool):
        super().__init__()
        self.head, self.seen = nn.Linear(64, 10), seen

    def forward(self, x):
        x = x.flatten(1)
        return self.head(x - 0.5 * (x.mean(0) if self.seen else x.mean(0).detach()))


@pytest.mark.parametrize("seen", [True, False])
def test_a_record_is_never_read_by_the_light_of_others(seen):
    with Key(0).reign():
        model = Mixing(seen).double()
    _, images, labels = make("cnn-small", 6)
    found, _ = sums(model, images, labels, torch.arange(6), 6)
    alone = torch.cat([sums(model, images[r : r + 1], labels[r : r + 1])[0] for r in range(6)])
    torch.testing.assert_close(found, alone, rtol=1e-10, atol=1e-12)


class Counting(nn.Module):
    """A model that keeps a mean of what it has seen."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)
        self.register_buffer("mean", torch.zeros(64))

    def forward(self, x):
        self.mean.lerp_(x.detach().flatten(1).mean(0), 0.1)
        return self.head(x.flatten(1) - self.mean)


class Deciding(nn.Sequential):
    """A model that does this or that, by what the whole batch is like."""

    def forward(self, x):
        return super().forward(x if x.sum() > -1e9 else -x)


def test_a_model_that_mixes_records_or_remembers_them_is_refused_with_the_remedy():
    _, images, labels = make("cnn-small")
    with pytest.raises(Problem, match=r"features\.0\.1 is a BatchNorm2d.*norm = 'group'"):
        sums(models.create("cnn-small", channels=1, size=8, norm="batch").double(), images, labels)
    with pytest.raises(Problem, match="torch cannot take the gradient of Deciding record by record"):
        sums(Deciding(nn.Flatten(), nn.Linear(64, 10)).double(), images, labels)
    with pytest.raises(Problem, match="mean is changed in training.*norm = 'group'"):
        sums(Counting().double(), images, labels)


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_a_scale_that_is_no_scale_is_refused(scale):
    model, images, labels = make("cnn-small")
    with pytest.raises(Problem, match="scale must be finite and at least 0"):
        sums(model, images, labels, scales=torch.full((1, 8), scale))


def test_what_does_not_fit_together_is_refused():
    model, images, labels = make("cnn-small")
    with pytest.raises(Problem, match=r"one row for each of 2 owners and one column for each of 8 layers, got \[1, 8\]"):
        sums(model, images, labels, count=2, scales=torch.ones(1, 8))
    with pytest.raises(Problem, match="owners must lie in 0..1, got 0..2"):
        sums(model, images, labels, torch.arange(23) % 3, 2)
    with pytest.raises(Problem, match="23 images do not belong to 23 labels"):
        sums(model, images, labels, copies=2)
    with pytest.raises(Problem, match="layer 'half' holds a part of 'features.0.0.weight'"):
        sums(model, images, labels, layers=[Layer("half", 0, 7)])


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_opacus_gives_the_same_gradients_and_the_same_clipped_sum():
    opacus = pytest.importorskip("opacus")
    model, images, labels = make("GroupNorm")
    images, layout = images * 10, Layout.of(model)
    rows, _ = sums(model, images, labels, scales=torch.full((1, len(layout.layers())), 0.7))
    theirs = opacus.GradSampleModule(copy.deepcopy(model), loss_reduction="sum")
    optimiser = opacus.optimizers.DPOptimizer(torch.optim.SGD(theirs.parameters(), lr=1.0), noise_multiplier=0.0, max_grad_norm=0.7, expected_batch_size=None, loss_reduction="sum")
    F.cross_entropy(theirs(images), labels, reduction="sum").backward()
    _, parts = watch.read(model, images, labels, [n for n, _ in model.named_parameters()], 1)
    for (name, _), parameter in zip(model.named_parameters(), theirs.parameters()):
        torch.testing.assert_close(parts[name].squares(), parameter.grad_sample.flatten(1).square().sum(1), rtol=1e-9, atol=1e-12)
    optimiser.clip_and_accumulate()
    summed = torch.cat([parameter.summed_grad.flatten() for parameter in theirs.parameters()])
    assert float((rows[0] - summed).norm() / summed.norm()) < 1e-6


def test_poisson_sampling_takes_each_record_with_its_rate_and_independently():
    draws = np.stack([np.isin(np.arange(400), sample(Key(3).at("records", step), 400, 0.1)) for step in range(2000)])
    share = draws.mean(0)
    assert abs(share.mean() - 0.1) < 5 * (0.09 / draws.size) ** 0.5 and np.abs(share - 0.1).max() < 5.5 * (0.09 / 2000) ** 0.5
    sizes = draws.sum(1)
    assert abs(sizes.var() / (400 * 0.09) - 1) < 5 * (2 / 2000) ** 0.5  # a binomial number, not a fixed one
    correlation = np.corrcoef(draws[:, :60].T) - np.eye(60)
    assert np.abs(correlation).max() < 5.5 / 2000**0.5


def test_a_sample_goes_by_its_key_and_a_rate_of_one_takes_all():
    assert sample(Key(0), 50, 1.0).tolist() == list(range(50)) and sample(Key(0), 0, 0.5).tolist() == []
    assert sample(Key(0).at(1), 500, 0.2).tolist() == sample(Key(0).at(1), 500, 0.2).tolist() != sample(Key(0).at(2), 500, 0.2).tolist()
    for rate in (0.0, -0.1, 1.5, float("nan")):
        with pytest.raises(Problem, match="record rate must be above 0 and at most 1"):
            sample(Key(0), 50, rate)


def test_the_way_is_found_whatever_the_weights_are_and_layers_may_be_frozen_at_will():
    model, images, labels = make("swapped axes")
    with torch.no_grad():
        model.head.weight.zero_()  # no gradient at all for what comes before
    sums(model, images, labels)
    assert [m.read for m in manner._TRIED[model].values()] == [plain.read]
    model, images, labels = make("residual")
    layers = Layout.of(model).layers()
    for j in range(len(layers)):
        scales = torch.ones(1, len(layers), dtype=torch.float64)
        scales[0, j] = 0
        rows, _ = sums(model, images, labels, layers=layers, scales=scales)
        assert not rows[0, layers[j].start : layers[j].stop].any() and rows.any()
    assert len(manner._TRIED[model]) == 1


def test_records_that_are_no_images_will_do():
    with Key(0).reign():
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    features, labels, owners = torch.rand(10, 6, dtype=torch.float64), torch.arange(10) % 3, torch.tensor([1, 0] * 5)
    layout, layers = Layout.of(model), Layout.of(model).layers()
    found, _ = sums(model, features, labels, owners, 2)
    scales = torch.full((2, 4), 0.3, dtype=torch.float64)
    torch.testing.assert_close(found, explicit(model, features, labels, owners, 2, layout, layers, scales), rtol=1e-10, atol=1e-12)
