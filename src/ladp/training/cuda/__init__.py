"""The stacked engine's parts: a model as a program over all clients at once, and Triton kernels for its steps."""

from importlib.util import find_spec


def kernels(device: str) -> bool:
    """Whether `device` can run the Triton kernels."""
    return device.startswith("cuda") and find_spec("triton") is not None
