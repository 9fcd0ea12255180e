"""One Gaussian release per unit of L2 sensitivity: epsilon, delta and sigma from one another.

The release adds N(0, (sigma Delta)^2 I) to a value that one record (or client) moves by at most Delta in L2 norm; sigma is
therefore without unit. Whatever rule chose it, `delta_of` says what the noise really guarantees, and no smaller delta holds.
"""

from collections.abc import Callable
from math import exp, inf, isfinite, log, pi, sqrt

from scipy.special import erfcx, ndtr

from ladp.errors import Problem, choose

ACCOUNTANT = "exact Gaussian, Balle & Wang 2018"
UNIT = "per unit of L2 sensitivity"
ROOT2 = sqrt(2)
BRANCH = sqrt(2 / (pi * exp(4)))  # where the two cases of the paper's privacy theorem meet


def delta_of(epsilon: float, sigma: float) -> float:
    """The smallest delta for which N(0, sigma^2) hides a difference of 1 at `epsilon`.

    delta = Phi(a) - e^epsilon Phi(b), a = 1/(2 sigma) - epsilon sigma, b = -1/(2 sigma) - epsilon sigma (Balle & Wang 2018, Theorem 8).
    """
    _check(epsilon=epsilon, sigma=sigma)
    return _delta(epsilon, sigma)


def epsilon_of(sigma: float, delta: float) -> float:
    """The smallest epsilon that noise `sigma` gives at `delta`: the inverse of `delta_of`, rounded to the safe side."""
    _check(sigma=sigma, delta=delta)
    if _delta(0.0, sigma) <= delta:
        return 0.0
    tail = sqrt(-2 * log(delta))
    return _smallest(lambda epsilon: _delta(epsilon, sigma) <= delta, 1 / sigma / sigma / 2 + tail / sigma)


def sigma_of(epsilon: float, delta: float, rule: str = "exact") -> float:
    """The sigma that `rule` asks for; only "exact" promises delta_of(epsilon, sigma) <= delta at every epsilon."""
    _check(epsilon=epsilon, delta=delta)
    return RULES[choose("rule", rule, RULES)](epsilon, delta)


def constant(epsilon: float, delta: float, rule: str = "exact") -> float:
    """The c of sigma = c / epsilon under `rule`; for "paper" it is c_i / B, the KL bound B taken out."""
    return sigma_of(epsilon, delta, rule) * epsilon


def exact(epsilon: float, delta: float) -> float:
    """The smallest sigma with delta_of(epsilon, sigma) <= delta (Balle & Wang 2018, Algorithm 1)."""
    tail = sqrt(-2 * log(delta))
    # Enough by either bound: delta <= Phi(a) <= exp(-a^2/2), and delta <= delta at epsilon 0 <= 1 / (sigma sqrt(2 pi)).
    enough = min((tail + sqrt(tail * tail + 2 * epsilon)) / epsilon / 2, 1 / (delta * sqrt(2 * pi)))
    return _smallest(lambda sigma: _delta(epsilon, sigma) <= delta, enough)


def classical(epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta)) / epsilon (Dwork & Roth 2014, Theorem A.1), proved for epsilon < 1 only."""
    return sqrt(2 * log(1.25 / delta)) / epsilon


def paper(epsilon: float, delta: float) -> float:
    """The constant of LaDP-FL's privacy theorem without its bound B, over epsilon; its delta does not hold when delta is small.

    c' = (sqrt(L) + sqrt(L + 8 epsilon)) / 4, L = ln(2 / (pi delta^2)), for delta <= sqrt(2 / (pi e^4)), else (1 + sqrt(1 + 2 epsilon)) / 2.
    """
    if delta > BRANCH:
        return (1 + sqrt(1 + 2 * epsilon)) / 2 / epsilon
    size = log(2 / pi) - 2 * log(delta)
    return (sqrt(size) + sqrt(size + 8 * epsilon)) / 4 / epsilon


RULES: dict[str, Callable[[float, float], float]] = {"exact": exact, "classical": classical, "paper": paper}


def _delta(epsilon: float, sigma: float) -> float:
    # e^epsilon phi(b) = phi(a), so both tails share one exponential and e^epsilon, which overflows at 710, is never formed.
    # The relative error was measured below 1e-10 for sigma from 1e-4 to 1e4; beyond, it grows like sigma.
    half, shift = 0.5 / sigma, epsilon * sigma
    a = half - shift
    density = 0.5 * exp(-a * a / 2)
    far = density * float(erfcx((half + shift) / ROOT2))
    near = float(ndtr(a)) if a >= 0 else density * float(erfcx(-a / ROOT2))
    return max(0.0, near - far)


def _smallest(holds: Callable[[float], bool], upper: float) -> float:
    # Bisection down to neighbouring floats; what is returned has been seen to hold, never its neighbour below.
    lower = 0.0
    while lower < (middle := (lower + upper) / 2) < upper:
        lower, upper = (lower, middle) if holds(middle) else (middle, upper)
    return upper


def _check(epsilon: float = 1.0, delta: float = 0.5, sigma: float = 1.0) -> None:
    if not (isfinite(epsilon) and epsilon > 0):
        raise Problem(f"epsilon must be positive and finite, got {epsilon}")
    if not 0 < delta < 1:
        raise Problem(f"delta must lie strictly between 0 and 1, got {delta}")
    if not 0 < sigma < inf:
        raise Problem(f"sigma must be positive and finite, got {sigma}: sigma_of finds one for an epsilon and a delta")
