"""Curves over rounds as SVG: mean line, band from lowest to highest, direct labels."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ladp.report import number
from ladp.report.markup import Markup, join, tag
from ladp.report.scale import Scale, logarithmic, straight

WIDTH, HEIGHT, TOP, BOTTOM, LEFT, GAP, LETTER = 480, 300, 12, 262, 40, 16, 7.3


@dataclass(frozen=True)
class Series:
    """One line: (x, mean, low, high) at each point, and the colour and dash that mark it everywhere."""

    label: str
    points: Sequence[tuple[float, float, float, float]]
    colour: int = 0
    dash: int = 0


def curves(title: str, text: str, series: Sequence[Series], share: bool = False) -> Markup:
    """The picture, shares in percent; the vertical scale is logarithmic where lines span more than a factor of fifty."""
    series = [line for line in series if line.points]
    if not series:
        return tag("p", "Nothing was measured.", class_="absent")
    across, up = _scales(series, share)
    form = number.percent if share else number.short
    body = [_grid(across, up, share), *(_line(line, across, up) for line in series), _labels(series, across, up)]
    return _frame(title, text, body, _data(series, across, up, form))


def swatch(colour: int, dash: int) -> Markup:
    """A short piece of a line as it is drawn in the curves."""
    stroke = tag("line", x1=1, y1=6, x2=27, y2=6, class_=f"stroke s{colour} d{dash}")
    return tag("svg", stroke, class_="swatch", viewBox="0 0 28 12", width=28, height=12, aria_hidden="true")


def _scales(series: Sequence[Series], share: bool) -> tuple[Scale, Scale]:
    points = [point for line in series for point in line.points]
    rounds, values = [point[0] for point in points], [value for point in points for value in point[1:]]
    room = 16 + LETTER * max(len(line.label) for line in series)
    first, last = min(rounds), max(rounds)
    across = Scale(first, last if last > first else first + 1, LEFT, WIDTH - min(room, 0.45 * WIDTH))
    if min(values) > 0 and max(values) > 50 * min(values):
        return across, logarithmic(values, BOTTOM, TOP)
    return across, straight(values, BOTTOM, TOP, 0.0 if min(values) >= 0 else None, 1.0 if share else None)


def _grid(across: Scale, up: Scale, share: bool) -> Markup:
    words = [number.mark(100 * level if share else level) for level in up.ticks()]
    levels = [join(tag("line", x1=LEFT, x2=across.stop, y1=up(level), y2=up(level), class_="grid"),
                   tag("text", word, x=LEFT - 8, y=up(level) + 4, class_="tick end"))
              for level, word in zip(up.ticks(), words, strict=True)]
    rounds = [mark for mark in across.ticks() if mark == int(mark)]
    places = [tag("text", int(mark), x=across(mark), y=BOTTOM + 18, class_="tick middle") for mark in rounds]
    floor = tag("line", x1=LEFT, x2=across.stop, y1=BOTTOM, y2=BOTTOM, class_="axis")
    name = tag("text", "round", x=across.stop, y=BOTTOM + 34, class_="tick end")
    return tag("g", *levels, floor, *places, name)


def _line(line: Series, across: Scale, up: Scale) -> Markup:
    """The band and the mean; a single point is drawn as a dot."""
    band = [(across(x), up(high)) for x, _, _, high in line.points]
    band += [(across(x), up(low)) for x, _, low, _ in reversed(line.points)]
    mean = [(across(x), up(value)) for x, value, _, _ in line.points]
    shade = tag("path", d=f"{_path(band)}Z", class_=f"band f{line.colour}")
    stroke = tag("path", d=_path(mean), class_=f"stroke s{line.colour} d{line.dash}")
    dot = tag("circle", cx=mean[-1][0], cy=mean[-1][1], r=3, class_=f"f{line.colour}")
    return tag("g", shade, stroke, dot, class_="series", data_name=line.label)


def _labels(series: Sequence[Series], across: Scale, up: Scale) -> Markup:
    """Names at the ends of their lines, moved apart where the lines end together."""
    wanted = sorted(series, key=lambda line: (up(line.points[-1][1]), line.label))
    heights = [up(line.points[-1][1]) for line in wanted]
    return tag("g", *(_label(line, across(line.points[-1][0]), height, place, across.stop)
                      for line, height, place in zip(wanted, heights, apart(heights), strict=True)))


def _label(line: Series, end: float, height: float, place: float, edge: float) -> Markup:
    leader = tag("path", d=f"M{end + 4:.1f} {height:.1f}L{edge + 9:.1f} {place:.1f}", class_=f"leader s{line.colour}")
    words = tag("text", line.label, x=edge + 12, y=place + 4, class_=f"label t{line.colour}")
    return tag("g", leader, words, class_="series", data_name=line.label)


def apart(heights: list[float]) -> list[float]:
    """Sorted heights moved as little downwards as keeps them a line apart, then up again from the floor."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + GAP) if places else max(height, TOP))
    limit = float(BOTTOM)
    for place in reversed(range(len(places))):
        places[place] = min(places[place], limit)
        limit = places[place] - GAP
    return places


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _data(series: Sequence[Series], across: Scale, up: Scale, form: Callable) -> str:
    """What the pointer reads: for every line the places and the printed values at its rounds."""
    lines = [{"name": line.label, "colour": line.colour,
              "at": [[x, round(across(x), 1), round(up(mean), 1), _said(mean, low, high, form)]
                     for x, mean, low, high in line.points]} for line in series]
    return json.dumps({"top": TOP, "bottom": BOTTOM, "lines": lines}, ensure_ascii=False, separators=(",", ":"))


def _said(mean: float, low: float, high: float, form: Callable) -> str:
    return form(mean) if low == high else f"{form(mean)} ({form(low)} to {form(high)})"


def _frame(title: str, text: str, body: Sequence[Markup], data: str) -> Markup:
    return tag("svg", tag("title", title), tag("desc", text), *body, class_="chart", role="img", tabindex=0,
               xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", data_curves=data)
