"""Scales: values to places on a picture, and the round numbers to mark on them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A straight or logarithmic map from [low, high] to [start, stop]."""

    low: float
    high: float
    start: float = 0.0
    stop: float = 1.0
    log: bool = False

    def __call__(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        low, high, value = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (self.stop - self.start) * (value - low) / (high - low)

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers inside the scale, about `count` of them."""
        return _powers(self, count) if self.log else _multiples(self, count)


def straight(values: Iterable[float], start: float, stop: float, least: float | None = None,
             most: float | None = None) -> Scale:
    """A scale around the values with a little air, never beyond `least` and `most`."""
    low, high = min(values := list(values)), max(values)
    air = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    low = low - air if least is None else max(least, low - air)
    high = high + air if most is None else min(most, high + air)
    return Scale(low, high, start, stop)


def logarithmic(values: Iterable[float], start: float = 0.0, stop: float = 1.0) -> Scale:
    """A logarithmic scale around the positive values; one value alone gets half a decade either side."""
    positive = [value for value in values if value > 0]
    low, high = min(positive, default=1.0), max(positive, default=1.0)
    widen = 3.0 if high / low < 1.5 else 1.0
    return Scale(low / widen, high * widen, start, stop, log=True)


def _multiples(scale: Scale, count: int) -> list[float]:
    span = scale.high - scale.low
    step = next(size for size in _steps(span / count) if span / size <= count + 1)
    return [step * place for place in range(math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9) + 1)]


def _steps(rough: float) -> list[float]:
    power = 10.0 ** math.floor(math.log10(rough))
    return [power * factor for factor in (1, 2, 5, 10, 20)]


def _powers(scale: Scale, count: int) -> list[float]:
    """Powers of ten, every few of them over a wide range, with their doubles and fives over a narrow one."""
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    factors = (1, 2, 5) if scale.high / scale.low < 200 else (1,)
    stride = max(1, math.ceil((last - first - 1) / count))
    marks = [10.0**power * factor for power in range(first, last + 1, stride) for factor in factors]
    return [mark for mark in marks if scale.low * (1 - 1e-9) <= mark <= scale.high * (1 + 1e-9)]
