import pytest
import torch
from torch import nn

from ladp import models
from ladp.errors import Problem
from ladp.params import Layout


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.a = nn.Linear(3, 3, bias=False)
        self.b = nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("scratch", torch.zeros(4), persistent=False)


def test_a_row_holds_every_float_of_the_state_once_and_nothing_else():
    layout = Layout.of(Tied())
    assert [e.name for e in layout.entries] == ["scale", "a.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    assert layout.counters == ("norm.num_batches_tracked",)
    assert layout.size == 1 + 9 + 4 * 3


def test_what_is_read_from_a_model_and_written_to_another_is_the_same_state():
    torch.manual_seed(0)
    one, other = models.create("resnet18", size=8), models.create("resnet18", size=8)
    one.train()(torch.randn(4, 3, 8, 8))
    layout = Layout.of(one)
    layout.write(layout.read(one), other)
    layout.recount(layout.count(one), other)
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items())


def test_views_name_the_parts_of_a_stack_without_copying():
    layout = Layout.of(models.create("cnn-small", channels=1, size=8))
    rows = torch.randn(3, layout.size)
    view = layout.views(rows)["fc2.weight"]
    assert view.shape == (3, 10, 64) and view.untyped_storage().data_ptr() == rows.untyped_storage().data_ptr()


@pytest.mark.parametrize("norm,by,state,count", [("batch", "tensor", "trainable", 62), ("batch", "tensor", "all", 102), ("batch", "module", "trainable", 41), ("batch", "module", "all", 41), ("group", "module", "all", 41)])
def test_layers_are_tensors_or_modules_of_the_trainable_or_of_all_state(norm, by, state, count):
    layout = Layout.of(models.create("resnet18", norm=norm))
    layers = layout.layers(by, state)
    assert len(layers) == count
    covered = sum(len(layer) for layer in layers)
    assert covered == sum(len(e) for e in layout.entries if e.trainable or state == "all")


def test_a_row_of_another_model_is_refused_with_both_sizes():
    layout = Layout.of(models.create("cnn-small", channels=1, size=8))
    with pytest.raises(Problem, match="12 numbers but the model has 13,706"):
        layout.write(torch.zeros(12), models.create("cnn-small", channels=1, size=8))


def test_a_model_without_weights_is_refused():
    with pytest.raises(Problem, match="no trainable parameters"):
        Layout.of(nn.ReLU())
