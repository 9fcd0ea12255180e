"""A value against accuracy as SVG: a dot for each configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

from ladp.report import number
from ladp.report.chart import BOTTOM, HEIGHT, LEFT, LETTER, TOP, WIDTH, apart
from ladp.report.markup import Markup, join, tag
from ladp.report.scale import Scale, straight


@dataclass(frozen=True)
class Dot:
    """One configuration: accuracy across, the value up."""

    label: str
    accuracy: float
    value: float
    colour: int = 0


def plane(title: str, unit: str, dots: Sequence[Dot]) -> Markup:
    """The dots with their names at the side, apart from each other."""
    room = 24 + LETTER * max(len(dot.label) for dot in dots)
    across = straight([dot.accuracy for dot in dots], LEFT + 16, WIDTH - min(room, 0.5 * WIDTH), 0.0, 1.0)
    up = straight([dot.value for dot in dots], BOTTOM, TOP)
    told = "; ".join(f"{dot.label}: {number.short(dot.value)} at {number.percent(dot.accuracy)} %" for dot in dots)
    body = [_grid(across, up), _names(dots, across, up), *(tag("circle", cx=across(dot.accuracy), cy=up(dot.value), r=5, class_=f"f{dot.colour}") for dot in dots)]
    return tag("svg", tag("title", title), tag("desc", told), *body, class_="chart plane", role="img", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}")


def _grid(across: Scale, up: Scale) -> Markup:
    levels = [join(tag("line", x1=LEFT, x2=across.stop, y1=up(level), y2=up(level), class_="grid"), tag("text", number.mark(level), x=LEFT - 8, y=up(level) + 4, class_="tick end"))
              for level in up.ticks()]  # fmt: skip
    places = [tag("text", number.mark(100 * mark), x=across(mark), y=BOTTOM + 18, class_="tick middle") for mark in across.ticks()]
    floor = tag("line", x1=LEFT, x2=across.stop, y1=BOTTOM, y2=BOTTOM, class_="axis")
    return tag("g", *levels, floor, *places, tag("text", "accuracy, %", x=across.stop, y=BOTTOM + 34, class_="tick end"))


def _names(dots: Sequence[Dot], across: Scale, up: Scale) -> Markup:
    wanted = sorted(dots, key=lambda dot: (up(dot.value), dot.label))
    heights = [up(dot.value) for dot in wanted]
    pairs = zip(wanted, heights, apart(heights), strict=True)
    return tag("g", *(join(tag("path", d=f"M{across(dot.accuracy) + 6:.1f} {height:.1f}L{across.stop + 9:.1f} {place:.1f}", class_=f"leader s{dot.colour}"),
                           tag("text", dot.label, x=across.stop + 12, y=place + 4, class_=f"label t{dot.colour}")) for dot, height, place in pairs))  # fmt: skip
