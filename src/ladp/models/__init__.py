"""Networks by name; a dotted path names any other nn.Module."""

from collections.abc import Callable
from importlib import import_module
from inspect import signature

from torch import nn

from ladp.errors import Problem, choose
from ladp.models.cnn import CNN, SmallCNN
from ladp.models.features import Linear, ScatterCNN
from ladp.models.resnet import resnet18, resnet152

MODELS: dict[str, Callable[..., nn.Module]] = {
    "cnn-small": SmallCNN,
    "cnn": CNN,
    "resnet18": resnet18,
    "resnet152": resnet152,
    "linear": Linear,
    "scatter-cnn": ScatterCNN,
}


def create(name: str, classes: int = 10, channels: int = 3, size: int = 32, norm: str | None = None, dropout: float | None = None) -> nn.Module:
    """A fresh network for `channels` x `size` x `size` images; `norm` and `dropout` default to what the architecture is known with."""
    if classes < 2:
        raise Problem(f"classes must be at least 2, got {classes}")
    wanted = {k: v for k, v in (("norm", norm), ("dropout", dropout)) if v is not None}
    make = _foreign(name) if ":" in name or "." in name else MODELS[choose("model", name, MODELS)]
    try:
        taken = signature(make).parameters
    except (TypeError, ValueError) as error:
        raise Problem(f"model {name!r} cannot be called ({error}): name a class or a function that makes a torch.nn.Module") from error
    if missing := [k for k in wanted if k not in taken]:
        raise Problem(f"model {name!r} has no option {missing[0]!r}: leave it out")
    try:
        model = make(**{k: v for k, v in dict(classes=classes, channels=channels, size=size, **wanted).items() if k in taken})
    except Problem:
        raise
    except Exception as error:  # whatever a model of the user's own may raise
        raise Problem(f"model {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise Problem(f"model {name!r} made a {type(model).__name__}, not a torch.nn.Module")
    return model


def _foreign(path: str) -> Callable[..., nn.Module]:
    """What `package.module:Class` names; it is called with those of classes, channels, size, norm, dropout that it takes."""
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # its module runs when it is imported, and may raise anything
        raise Problem(f"model {path!r} cannot be imported ({type(error).__name__}: {error}); give it as package.module:Class, on the Python path") from error
