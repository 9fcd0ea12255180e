"""How far a share that was counted may lie from the true one."""

from math import sqrt

from scipy.stats import norm

from ladp.errors import Problem


def wilson(right: int, asked: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval: all p with |right/asked - p| <= z sqrt(p (1 - p)/asked) (Wilson 1927)."""
    if not 0 <= right <= asked or asked < 1:
        raise Problem(f"an interval needs at least one answer, and no more right ones than answers: got {right} of {asked}")
    z, share = float(norm.isf((1 - confidence) / 2)), right / asked
    middle, reach = share + z * z / (2 * asked), z * sqrt(share * (1 - share) / asked + (z / (2 * asked)) ** 2)
    scale = 1 + z * z / asked
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)
