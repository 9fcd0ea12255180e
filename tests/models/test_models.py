import pytest
import torch
from torch import nn

from ladp import models
from ladp.errors import Problem


def weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    "name,classes,count",
    [("cnn", 10, 541_094), ("cnn", 100, 586_184), ("resnet18", 10, 11_173_962), ("resnet152", 100, 58_341_028)],
)
def test_the_papers_networks_have_the_papers_number_of_weights(name, classes, count):
    with torch.device("meta"):
        assert weights(models.create(name, classes=classes)) == count


def test_models_for_scattering_features_have_the_published_number_of_weights():
    with torch.device("meta"):
        assert [weights(models.create(name, 10, 243, 8)) for name in ("linear", "scatter-cnn")] == [155_530, 187_210]
    assert models.create("scatter-cnn", 7, 81, 3)(torch.randn(2, 81, 3, 3)).shape == (2, 7)
    with pytest.raises(Problem, match="1x1 are too small"):
        models.create("scatter-cnn", 10, 81, 1)


def test_a_linear_model_begins_without_an_opinion():
    assert torch.equal(models.create("linear", 5, 2, 4)(torch.randn(3, 2, 4, 4)), torch.zeros(3, 5))


def test_resnet18_has_the_122_state_entries_that_the_paper_noised():
    with torch.device("meta"):
        assert len(models.create("resnet18").state_dict()) == 122


@pytest.mark.parametrize("name,channels,size", [("cnn-small", 1, 8), ("cnn", 1, 28), ("cnn", 3, 32), ("resnet18", 1, 28)])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_every_network_takes_other_images_with_either_normalisation(name, channels, size, norm):
    model = models.create(name, classes=7, channels=channels, size=size, norm=norm)
    kinds = {type(m) for m in model.modules()}
    assert model(torch.randn(2, channels, size, size)).shape == (2, 7)
    assert (nn.BatchNorm2d in kinds, nn.GroupNorm in kinds) == (norm == "batch", norm == "group")


def test_any_module_can_be_named_by_its_path():
    assert isinstance(models.create("torch.nn:Flatten"), nn.Flatten)
    assert isinstance(models.create("torch.nn.Flatten"), nn.Flatten)


@pytest.mark.parametrize(
    "name,options,words",
    [
        ("resnet81", {}, "did you mean 'resnet18'"),
        ("nowhere.at:All", {}, "cannot be imported"),
        ("json:dumps", {}, "cannot be made"),
        ("json:JSONDecoder", {}, "not a torch.nn.Module"),
        ("resnet18", {"dropout": 0.5}, "no option 'dropout'"),
        ("cnn", {"size": 4}, "too small"),
        ("cnn", {"norm": "bach"}, "did you mean 'batch'"),
        ("cnn", {"classes": 1}, "classes must be at least 2, got 1"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(name, options, words):
    with pytest.raises(Problem, match=words):
        models.create(name, **options)
