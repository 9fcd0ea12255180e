"""How numbers are printed."""

import math
from dataclasses import dataclass
from statistics import fmean, stdev

ABSENT = "–"
RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclass(frozen=True)
class Spread:
    """A value over the seeds of one configuration: mean, sample deviation (divisor n − 1) and how many runs."""

    mean: float | None
    deviation: float | None
    count: int


def spread(values: list[float]) -> Spread:
    """Mean and sample deviation; the deviation of fewer than two runs is unknown, not zero."""
    if not values:
        return Spread(None, None, 0)
    finite = len(values) > 1 and all(map(math.isfinite, values))
    return Spread(fmean(values), stdev(values) if finite else None, len(values))


def read(value: object) -> float | None:
    """A number as a run folder writes it (infinity is the text "inf"), or None."""
    if value in ("inf", "Infinity"):
        return math.inf
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and not math.isnan(value) else None


def short(value: float | None) -> str:
    """Three significant digits, thousands grouped, powers of ten beyond."""
    if not value:
        return ABSENT if value is None else "0"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if not 1e-3 <= size < 1e7:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits.removesuffix('.0')}×10{str(int(power)).translate(RAISED)}".replace("-", "−")
    text = f"{value:,.0f}" if size >= 1000 else f"{value:#.3g}".rstrip(".")
    return text.replace("-", "−")


def exact(value: float | str | None) -> str:
    """A parameter such as ε or δ: as few digits as say it, at most four."""
    value = read(value)
    if value is None or math.isinf(value) or (value and not 1e-3 <= abs(value) < 1e4):
        return short(value)
    return f"{value:.4g}"


def mark(value: float | None) -> str:
    """A round number on an axis, nothing after its last digit."""
    if not value or 0.01 <= abs(value) < 1e5:
        return f"{value or 0:.6g}".replace("-", "−")
    digits, power = f"{value:.0e}".split("e")
    times = "" if digits == "1" else f"{digits}×"
    return f"{times}10{str(int(power)).translate(RAISED)}".replace("-", "−")


def percent(value: float | None) -> str:
    """A share in percent with one decimal, the sign left to the heading."""
    return ABSENT if value is None else f"{100 * value:.1f}"


def ranged(value: Spread, form=short) -> str:
    """mean ± deviation, or the mean alone where one run cannot show a deviation."""
    if value.deviation is None:
        return form(value.mean)
    if form is not short or not 1e-4 < max(value.deviation, abs(value.mean)) < 1e7:
        return f"{form(value.mean)} ± {form(value.deviation)}"
    places = _places(value.deviation or abs(value.mean) / 10)
    return f"{value.mean:,.{places}f} ± {value.deviation:,.{places if value.deviation else 0}f}".replace("-", "−")


def _places(deviation: float) -> int:
    """Decimals that show one digit of a deviation, two where it begins with a one."""
    power = math.floor(math.log10(deviation))
    return max(0, (deviation < 2 * 10**power) - power)


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
