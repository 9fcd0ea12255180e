"""What guesses about canaries prove: an epsilon that a mechanism cannot have had, with confidence.

Each of m canaries carries one of N messages, drawn evenly and by itself (N = 2: a coin); whoever changes one message makes a neighbouring federation. An
adversary sees what was released, names r canaries and guesses their messages. Under (epsilon, delta) the chance of v or more right guesses is at most
(docs/audit.md, Theorem A)

    P[Binomial(r, p) >= v] + m delta (1 - p),   p = e^epsilon / (e^epsilon + N - 1).

With delta = 0 and N = 2 this is Steinke, Nasr & Jagielski 2023; the second term that is in use elsewhere is not relied on (docs/audit.md says why).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log, log1p

import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta, binom

from ladp.errors import Problem

FRACTIONS = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)  # of the canaries that are guessed at: all are tried
NEAREST, POINTS = 1e-6, 400  # where a refuted epsilon is looked for, below the one that delta = 0 would give


@dataclass(frozen=True)
class Refuted:
    """(epsilon, delta) is refuted with `confidence`: `right` of `guesses` about `canaries` of so many `bits` each, the best of `tried` numbers of guesses."""

    epsilon: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    right: int
    bits: int
    tried: int


def p_value(epsilon: float, delta: float, canaries: int, guesses: int, right: int, bits: int = 1) -> float:
    """How likely so many right guesses are at most, if the mechanism is (epsilon, delta)."""
    return float(_p_values(np.array([epsilon]), delta, canaries, guesses, right, bits)[0])


def _p_values(epsilons: np.ndarray, delta: float, canaries: int, guesses: int, right: int, bits: int) -> np.ndarray:
    p = expit(epsilons - others(bits))
    return np.minimum(1.0, binom.sf(right - 1, guesses, p) + canaries * delta * (1 - p))


def others(bits: int) -> float:
    """ln(N - 1) for N = 2^bits messages."""
    return bits * log(2) + log1p(-(2.0**-bits))


def refuted(delta: float, canaries: int, guesses: int, right: int, confidence: float, bits: int = 1) -> float:
    """The largest epsilon whose p-value is at most 1 - confidence; 0 if none above 0 has one."""
    error = 1 - confidence
    # where the first term alone is the error (Clopper & Pearson)
    top = float(logit(beta.ppf(error, right, guesses - right + 1))) + others(bits) if right else 0.0
    if top <= 0:
        return 0.0
    below = top - np.geomspace(min(NEAREST, top), top, POINTS)
    fits = np.flatnonzero(_p_values(below, delta, canaries, guesses, right, bits) <= error)
    if not len(fits):
        return 0.0
    holds = lambda epsilon: p_value(epsilon, delta, canaries, guesses, right, bits) <= error  # noqa: E731
    return _last(holds, float(below[fits[0]]), float(below[fits[0] - 1]) if fits[0] else top)


def _last(holds: Callable[[float], bool], lower: float, upper: float) -> float:
    """Bisection: what is returned has been seen to hold."""
    while upper - lower > 1e-9 * max(1.0, upper):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if holds(middle) else (lower, middle)
    return max(0.0, lower)


def judge(right: Sequence[bool], delta: float, confidence: float, bits: int = 1) -> Refuted:
    """The strongest bound from guesses in order of certainty. How many count is chosen after they were seen, so each of the `tried` numbers is held to 1/tried of
    the error."""
    if not 0 < confidence < 1:
        raise Problem(f"confidence must lie strictly between 0 and 1, got {confidence}")
    if not len(right):
        raise Problem("there are no canaries to guess at: take 1 or more")
    m, won = len(right), np.cumsum(np.asarray(right, dtype=int)).tolist()
    numbers = sorted({ceil(m * fraction) for fraction in FRACTIONS})
    each = 1 - (1 - confidence) / len(numbers)
    found = [Refuted(refuted(delta, m, r, won[r - 1], each, bits), delta, confidence, m, r, won[r - 1], bits, len(numbers)) for r in numbers]
    return max(found, key=lambda one: one.epsilon)
