"""What was seen of each layer over a whole run as SVG: its P, and the share of clients that selected it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from ladp.report import number
from ladp.report.markup import Markup, join, tag
from ladp.report.frame import WIDTH, frame, margin, names, pitch
from ladp.report.scale import Scale, logarithmic


@dataclass(frozen=True)
class Observed:
    """One layer over a run: P (mean, lowest, highest), the mean divergence before clipping, the share that selected it."""

    layer: str
    mean: float | None
    low: float | None
    high: float | None
    raw: float | None
    share: float | None


def layers(title: str, text: str, rows: Sequence[Observed], among: Sequence[Observed] = ()) -> Markup:
    """For each layer P with its range over the rounds, a ring for the divergence before clipping, a bar for the share.

    The scale of P has room for `among` too, so that pictures side by side can be compared.
    """
    called, top = [one.layer for one in rows], 24
    left, row = margin(called), pitch(len(rows))
    bar = Scale(0, 1, WIDTH - 116, WIDTH - 44)
    dots = _spread([value for one in (*rows, *among) for value in (one.low, one.high, one.raw) if value], left + 8, bar.start - 26)
    heads = join(tag("text", "P, log scale", x=left + 4, y=12, class_="tick"),
                 tag("text", "selected by", x=bar.start, y=12, class_="tick"))
    lines = [_row(one, dots, bar, top + place * row, row) for place, one in enumerate(rows)]
    marks = [tag("text", number.mark(mark), x=dots(mark), y=top + len(rows) * row + 16, class_="tick middle")
             for mark in dots.ticks(5)]
    body = [heads, names(called, left, row, top), *lines, *marks]
    return frame("layers", title, text, body, top + len(rows) * row + 24)


def _spread(values: list[float], start: float, stop: float) -> Scale:
    return logarithmic([value for value in values if isfinite(value)], start, stop)


def _row(one: Observed, dots: Scale, bar: Scale, top: float, row: int) -> Markup:
    middle = top + row / 2 - 1
    raw = None if one.raw is None else f"\nKL before clipping {number.short(one.raw)}"
    said = f"{one.layer}\nP {number.short(one.mean)}{raw or ''}\nselected by {number.percent(one.share)} %"
    base = tag("rect", x=bar.start, y=middle - 3, width=bar.stop - bar.start, height=6, class_="track")
    return tag("g", tag("line", x1=dots.start, x2=dots.stop, y1=middle, y2=middle, class_="grid"), base,
               _ring(one, dots, middle), _dot(one, dots, middle), _bar(one, bar, middle), data_tip=said)


def _dot(one: Observed, dots: Scale, middle: float) -> Markup | None:
    if not one.mean or not isfinite(one.mean):
        return None
    line = tag("line", x1=dots(one.low or dots.low), x2=dots(one.high), y1=middle, y2=middle, class_="range")
    return join(line, tag("circle", cx=dots(one.mean), cy=middle, r=4, class_="mark"))


def _ring(one: Observed, dots: Scale, middle: float) -> Markup | None:
    return tag("circle", cx=dots(one.raw), cy=middle, r=4, class_="ring") if one.raw and one.raw > 0 else None


def _bar(one: Observed, bar: Scale, middle: float) -> Markup | None:
    if one.share is None:
        return None
    filled = tag("rect", x=bar.start, y=middle - 3, width=bar(one.share) - bar.start, height=6, class_="mark")
    return join(filled, tag("text", f"{100 * one.share:.0f} %", x=WIDTH - 2, y=middle + 4, class_="tick end"))
