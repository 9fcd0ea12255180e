"""Faster twins of a model's parts: what they compute is what torch computes."""

import copy

import pytest
import torch
from torch import nn

from ladp import models
from ladp.keys import Key
from ladp.privacy.mechanism import Training
from ladp.training import quick
from ladp.training.local import Schedule, normalise, train
from ladp.training.quick import pool_first, quicken


def client(n=23, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 1, 8, 8), dtype=torch.uint8, generator=generator), torch.randint(0, 10, (n,), generator=generator)


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_pooling_before_relu_changes_no_bit_of_what_is_trained(norm):
    (images, labels), training = client(), Training(epochs=4, batch=10)
    images[::2, :, 2:] = 255  # flat parts, where the largest of a window is not one but four
    plain = models.create("cnn-small", channels=1, size=8, norm=norm)
    other = copy.deepcopy(plain)
    for part in other.features:
        pool_first(part)
    schedule = Schedule.draw(Key(0), 1, 0, 23, training)
    losses = [train(model, normalise(images), labels, schedule, training) for model in (plain, other)]
    kinds = [[type(layer) for layer in model.features[0] if type(layer) in (nn.ReLU, nn.MaxPool2d)] for model in (plain, other)]
    assert kinds == [[nn.ReLU, nn.MaxPool2d], [nn.MaxPool2d, nn.ReLU]]
    assert losses[0] == losses[1] and list(plain.state_dict()) == list(other.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(plain.state_dict().values(), other.state_dict().values()))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("strided", [True, False])
def test_a_linear_layer_and_its_gradients_are_those_of_torch(bias, strided):
    plain = nn.Linear(70, 33, bias=bias)
    twin = quicken(copy.deepcopy(plain))
    x = torch.randn(19, 140)[:, ::2] if strided else torch.randn(19, 70)
    outs, grads = [], []
    for layer in (plain, twin):
        given = x.clone(memory_format=torch.preserve_format).requires_grad_()
        out = layer(given)
        grads.append(torch.autograd.grad(out.square().sum(), [given, *layer.parameters()]))
        outs.append(out)
    assert type(twin) is quick.Linear and torch.allclose(*outs, atol=1e-5)
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-3) for a, b in zip(*grads)) and len(grads[1]) == 2 + bias


def test_a_frozen_weight_gets_no_gradient_and_other_inputs_go_to_torch():
    layer = quicken(nn.Linear(5, 4))
    layer.weight.requires_grad_(False)
    layer(torch.randn(3, 5)).sum().backward()
    assert layer.weight.grad is None and torch.equal(layer.bias.grad, torch.full((4,), 3.0))
    assert layer(torch.randn(2, 3, 5)).shape == (2, 3, 4) and layer.double()(torch.randn(3, 5).double()).dtype == torch.float64


def test_dropout_drops_the_share_it_should_and_keeps_the_mean():
    x, part = torch.ones(400, 500), quicken(nn.Dropout(0.3))
    with Key(0).at("dropout").reign():
        y = part(x)
    kept = y[y > 0]
    assert abs(len(kept) / y.numel() - 0.7) < 5 * (0.21 / y.numel()) ** 0.5 and torch.allclose(kept, torch.tensor(1 / 0.7))
    assert torch.equal(part.eval()(x), x)


def test_a_twin_has_the_same_state_and_a_module_of_another_type_is_left_alone():
    class Own(nn.Linear):
        pass

    model = nn.Sequential(Own(3, 3), nn.Linear(3, 3), nn.Dropout(0.1), nn.Dropout1d(0.1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kinds = [type(part) for part in quicken(model)]
    assert kinds == [Own, quick.Linear, quick.Dropout, nn.Dropout1d]
    assert list(before) == list(model.state_dict()) and all(torch.equal(before[k], v) for k, v in model.state_dict().items())
