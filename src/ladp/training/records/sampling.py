"""Which records take part in a step: each one by itself, which is what the privacy of sampling is proved for."""

import numpy as np

from ladp.errors import Problem
from ladp.keys import Key


def sample(key: Key, size: int, rate: float) -> np.ndarray:
    """Indices 0..size-1, each there with probability `rate` and independently of all others, in order (Poisson sampling)."""
    if not 0 < rate <= 1:
        raise Problem(f"the record rate must be above 0 and at most 1, got {rate:g}")
    return np.flatnonzero(key.numpy().random(size) < rate)
