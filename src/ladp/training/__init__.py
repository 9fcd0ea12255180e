"""Engines: three ways to train a cohort that give the same uploads. The default goes by device, so nobody has to know."""

from importlib import import_module

import torch

from ladp.errors import Problem, choose
from ladp.training.work import Engine, Work

ENGINES = {  # name: where it lives; imported when chosen
    "sequential": "ladp.training.sequential:Sequential",
    "parallel": "ladp.training.parallel:Parallel",
    "stacked": "ladp.training.stacked:Stacked",
}
PRECISIONS = ("float32", "float64", "bf16")


def start(work: Work, engine: str) -> Engine:
    """The engine, ready for its first round."""
    module, _, name = ENGINES[choose("engine", engine, ENGINES)].partition(":")
    return getattr(import_module(module), name)(work)


def settle(engine: str, device: str, precision: str) -> tuple[str, str, str]:
    """What `auto` means here: stacked in bf16 on CUDA, parallel in float32 on a CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise Problem(f"device {device!r} asked for, but torch {torch.__version__} sees no CUDA device: use --device cpu, or install a CUDA build")
    if device != "cpu" and not device.startswith("cuda"):
        raise Problem(f"unknown device {device!r}: known: auto, cpu, cuda")
    cuda = device.startswith("cuda")
    if engine == "auto":
        engine = "stacked" if cuda else "parallel"
    if engine == "parallel" and cuda:
        raise Problem("engine 'parallel' runs on CPU cores: use --engine stacked or --device cpu")
    if precision == "auto":
        precision = "bf16" if cuda and engine == "stacked" else "float32"
    return choose("engine", engine, ENGINES), device, choose("precision", precision, PRECISIONS)
