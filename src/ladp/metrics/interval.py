"""How far a share that was counted may lie from the true one."""

from scipy.stats import binomtest

from ladp.errors import Problem


def wilson(right: int, asked: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval: all p with |right/asked - p| <= z sqrt(p (1 - p)/asked) (Wilson 1927)."""
    return _interval(right, asked, confidence, "wilson")


def clopper_pearson(right: int, asked: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a binomial share (Clopper & Pearson 1934)."""
    return _interval(right, asked, confidence, "exact")


def _interval(right: int, asked: int, confidence: float, method: str) -> tuple[float, float]:
    if not 0 <= right <= asked or asked < 1:
        raise Problem(f"an interval needs at least one answer, and no more right ones than answers: got {right} of {asked}")
    found = binomtest(right, asked).proportion_ci(confidence, method)
    return float(found.low), float(found.high)
