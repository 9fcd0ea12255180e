"""The paper's sequential accountant, kept so that its figures can be reproduced, and not to be trusted.

It reads one epsilon off the actual noise and adds it up by batch: O(epsilon) = q T epsilon (supplement, "sequential accountant method").
Noise is added once a round, not once a batch; the fraction q is taken off every step although the noise never sees a batch; and
the deltas that add up alongside soon reach 1, where (epsilon, delta) says nothing. `ladp.privacy.gaussian` tells what one release costs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from ladp.errors import Problem
from ladp.privacy.gaussian import classical


@dataclass(frozen=True)
class Accumulated:
    """The paper's accumulated budget, neither capped nor corrected."""

    epsilon: float
    delta: float

    @property
    def meaningless(self) -> bool:
        """Whether delta has reached 1: every mechanism, one that publishes the data too, satisfies that."""
        return self.delta >= 1


def accumulated(sigma: float, delta: float, batch: int, size: int, steps: int) -> Accumulated:
    """(q T epsilon, q T delta) after T = `steps` batches, q = batch / |D_i|, epsilon = sqrt(2 ln(1.25/delta)) / sigma.

    sigma is per unit of sensitivity. As plotted in the paper, `steps` counts the batches of all honest active clients.
    """
    if not 0 < sigma < inf:
        raise Problem(f"sigma must be positive and finite, got {sigma}")
    if not 0 < delta < 1:
        raise Problem(f"delta must lie strictly between 0 and 1, got {delta}")
    if not 1 <= batch <= size:
        raise Problem(f"batch must lie between 1 and the client's {size} records, got {batch}")
    if steps < 0:
        raise Problem(f"steps must not be negative, got {steps}")
    passes = batch * steps / size
    # classical(epsilon, delta) = c / epsilon, hence c / sigma is the epsilon whose sigma this is.
    return Accumulated(passes * classical(sigma, delta), passes * delta)


@dataclass(frozen=True)
class Spent:
    """The accumulated budget of noise that differs by layer, in the three readings the paper leaves open, and the layers it is blind to.

    A round costs what its least noised layer costs (`largest`), what its noised layers cost on average (`mean`), or what they cost
    together (`summed`: the naive composition theorem asks for it). `bare` names the layers that left without noise in some round:
    their epsilon is infinite, and the accountant passes over them.
    """

    largest: Accumulated
    mean: Accumulated
    summed: Accumulated
    bare: tuple[str, ...]


def spend(sigmas: Sequence[Mapping[str, float]], delta: float, batch: int, size: int, steps: int) -> Spent:
    """What the accountant reads off the sigma of each layer in each round, `steps` batches a round."""
    cost = lambda sigma: accumulated(sigma, delta, batch, size, steps)  # noqa: E731
    rounds = [[cost(sigma) for sigma in layers.values() if sigma > 0] for layers in sigmas]
    bare = dict.fromkeys(name for layers in sigmas for name, sigma in layers.items() if not sigma > 0)
    readings = ((max, 1), (fmean, 1), (sum, None))
    return Spent(*(_total(rounds, reading, times) for reading, times in readings), tuple(bare))


def _total(rounds: Sequence[Sequence[Accumulated]], reading: Callable[[Sequence[float]], float], times: int | None) -> Accumulated:
    """Over the rounds that added noise; delta is paid once a round, or once a layer where layers are summed."""
    noised = [layers for layers in rounds if layers]
    epsilon = sum(reading([layer.epsilon for layer in layers]) for layers in noised)
    return Accumulated(epsilon, sum(layers[0].delta * (times or len(layers)) for layers in noised))
