"""Federated learning with local, layer-wise differential privacy.

    import ladp
    result = ladp.run(ladp.Recipe(method=ladp.LaDP(epsilon=0.5)), "runs/first")
"""

from importlib import import_module
from typing import Any

from ladp.version import VERSION as __version__

_HOMES = {  # imported when first asked for, so that `import ladp` stays light
    "Recipe": "ladp.recipe",
    "Training": "ladp.privacy.mechanism",
    "Mechanism": "ladp.privacy.mechanism",
    "NoNoise": "ladp.mechanisms",
    "Full": "ladp.mechanisms",
    "TimeVarying": "ladp.mechanisms",
    "Sensitive": "ladp.mechanisms",
    "DPA": "ladp.mechanisms",
    "AdapLDP": "ladp.mechanisms",
    "LaDP": "ladp.mechanisms",
    "Certified": "ladp.mechanisms",
    "Budget": "ladp.privacy.budget",
    "Server": "ladp.server",
    "Ledger": "ladp.ledger",
    "Problem": "ladp.errors",
    "run": "ladp.experiment",
    "finish": "ladp.experiment",
    "play": "ladp.experiment",
}
_ROOMS = ("attacks", "columns", "data", "experiment", "federation", "keys", "mechanisms", "metrics", "models", "params", "privacy", "recipe", "report", "tables", "training")

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"ladp.{name}")
    raise AttributeError(f"module 'ladp' has no attribute {name!r}")
