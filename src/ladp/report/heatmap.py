"""A heatmap as SVG: layer by round, on a logarithmic colour scale."""

import json
from collections.abc import Sequence

from ladp.report import number
from ladp.report.markup import Markup, join, tag
from ladp.report.frame import WIDTH, frame, margin, names, pitch
from ladp.report.scale import Scale, logarithmic

SHADES, COLUMNS = 12, 60


def scale(values: Sequence[float]) -> Scale:
    """The colour scale that several heatmaps share, from shade 0 to the last."""
    return logarithmic(values, 0, SHADES)


def heatmap(title: str, text: str, cells: dict[str, dict[int, float]], colours: Scale) -> Markup:
    """Layer by round; a stroke where the value is zero, blank where nothing was recorded; many rounds are averaged."""
    spans = bins(sorted({place for rounds in cells.values() for place in rounds}))
    table = {layer: [_mean(rounds, span) for span in spans] for layer, rounds in cells.items()}
    left, row = margin(cells), pitch(len(cells))
    width = (WIDTH - left - 2) / max(len(spans), 1)
    body = [_paint(list(table.values()), left, row, width, colours), names(list(cells), left, row, 0),
            _rounds(spans, left, len(cells) * row, width)]
    data = _data(table, spans, left, row, width)
    return frame("heat", title, text, body, len(cells) * row + 30, data_heat=data)


def legend(colours: Scale, unit: str) -> Markup:
    """The colour scale with its numbers, and the stroke that stands for zero."""
    width, across = 18, Scale(colours.low, colours.high, 10, 10 + 18 * SHADES, log=True)
    blocks = [tag("rect", x=10 + shade * width, y=4, width=width, height=12, class_=f"c{shade}") for shade in range(SHADES)]
    marks = [tag("text", number.mark(mark), x=across(mark), y=31, class_="tick middle") for mark in colours.ticks(6)]
    zero = join(tag("path", d="M250 10h22", class_="zero"), tag("text", "none", x=280, y=14, class_="tick"))
    return tag("svg", tag("title", f"Colour scale: {unit}"), *blocks, *marks, zero, class_="legend", role="img",
               xmlns="http://www.w3.org/2000/svg", viewBox="0 0 330 36", width=330, height=36)


def bins(places: list[int], most: int = COLUMNS) -> list[list[int]]:
    """Rounds in at most `most` columns of equal length, the last perhaps shorter."""
    size = -(-len(places) // most)
    return [places[start:start + size] for start in range(0, len(places), max(size, 1))]


def _mean(rounds: dict[int, float], span: list[int]) -> float | None:
    values = [rounds[place] for place in span if place in rounds]
    return sum(values) / len(values) if values else None


def _paint(table: list[list[float | None]], left: float, row: int, width: float, colours: Scale) -> Markup:
    """One path for each shade, neighbours of one shade drawn as one piece."""
    paths: dict[str, list[str]] = {}
    for place, values in enumerate(table):
        for shade, start, length in _pieces(values, colours):
            paths.setdefault(shade, []).append(_piece(shade, left + start * width, place * row, length * width, row))
    return tag("g", *(tag("path", d="".join(parts), class_=shade) for shade, parts in sorted(paths.items())))


def _pieces(values: list[float | None], colours: Scale) -> list[tuple[str, int, int]]:
    pieces: list[tuple[str, int, int]] = []
    for place, value in enumerate(values):
        shade = _shade(value, colours)
        if pieces and pieces[-1][0] == shade:
            pieces[-1] = (shade, pieces[-1][1], pieces[-1][2] + 1)
        else:
            pieces.append((shade, place, 1))
    return [piece for piece in pieces if piece[0]]


def _shade(value: float | None, colours: Scale) -> str:
    if value is None:
        return ""
    return f"c{min(int(colours(value)), SHADES - 1)}" if value > 0 else "zero"


def _piece(shade: str, x: float, y: float, width: float, row: int) -> str:
    if shade == "zero":
        return f"M{x + 2:.1f} {y + row / 2 - 1:.1f}h{max(width - 4, 1):.1f}"
    return f"M{x:.1f} {y}h{width + 0.2:.1f}v{row - (2 if row > 8 else 1)}h-{width + 0.2:.1f}z"


def _rounds(spans: list[list[int]], left: float, bottom: int, width: float) -> Markup:
    """Round numbers under the columns that hold them."""
    rounds = [place for span in spans for place in span]
    wanted = Scale(rounds[0], rounds[-1]).ticks(8) if len(rounds) > 1 else rounds
    marks = [tag("text", f"{mark:g}", x=left + (place + 0.5) * width, y=bottom + 14, class_="tick middle")
             for mark in wanted for place, span in enumerate(spans) if mark in span]
    return tag("g", *marks, tag("text", "round", x=WIDTH - 2, y=bottom + 28, class_="tick end"))


def _data(table: dict[str, list[float | None]], spans: list[list[int]], left: float, row: int, width: float) -> str:
    rounds = [f"{span[0]}" if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
    values = [[None if value is None else float(f"{value:.3g}") for value in line] for line in table.values()]
    facts = {"left": left, "row": row, "width": width, "layers": list(table), "rounds": rounds, "values": values}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
