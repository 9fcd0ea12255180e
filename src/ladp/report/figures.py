"""The pictures of the page and the numbers behind them."""

from collections.abc import Callable, Sequence

from ladp.report import chart, number
from ladp.report.chart import Series
from ladp.report.configuration import Configuration
from ladp.report.heatmap import bins, heatmap, legend, scale
from ladp.report.layers import Observed, layers
from ladp.report.markup import Markup, tag

NOISE = "noise norm in one upload"


def curves(configurations: Sequence[Configuration]) -> Markup:
    """Accuracy and loss on the test set, side by side."""
    pair = [_curve(configurations, "accuracy", "Test accuracy, %", True),
            _curve(configurations, "loss", "Test loss", False)]
    note = "Line: mean over seeds. Band: lowest to highest seed. Point at a round, or use the arrow keys, to read it."
    return tag("section", tag("h2", "Round by round"), tag("div", *pair, class_="pair"), tag("p", note, class_="note"))


def noise(configurations: Sequence[Configuration]) -> Markup | None:
    """A heatmap of each configuration that adds noise, all on one colour scale."""
    cells = [(one, found) for one in configurations if _positive(found := one.layers("noise"))]
    if not cells:
        return None
    colours = scale([value for _, found in cells for value in _positive(found)])
    maps = [_noise(one, found, colours) for one, found in cells]
    key = tag("p", tag("span", f"{NOISE}, log scale"), legend(colours, NOISE), class_="key")
    note = "Mean over the clients and seeds of a round. A stroke marks layers that went out without noise."
    return tag("section", tag("h2", "Where the noise goes"), key, tag("div", *maps, class_="pair"),
               tag("p", note, class_="note"))


def selection(configurations: Sequence[Configuration]) -> Markup | None:
    """P and the share of clients that selected each layer, where the method weighs layers by P."""
    found = [(one, rows) for one in configurations if (rows := _observed(one)) and any(row.mean for row in rows)]
    if not found:
        return None
    every = [row for _, rows in found for row in rows]
    figures = [_figure(one.label, layers(f"P and selection by layer: {one.label}", _told(rows), rows, every), _rows(rows))
               for one, rows in found]
    note = ("P says how far a layer moved from what is public; noise is inverse to it. Dot: P, mean over clients, rounds "
            "and seeds. Line: lowest to highest round. Ring: the divergence before it is clipped at B. "
            "Bar: share of clients that selected the layer for noise.")
    return tag("section", tag("h2", "What the noise was shaped by"), tag("div", *figures, class_="pair"),
               tag("p", note, class_="note"))


def _curve(configurations: Sequence[Configuration], key: str, title: str, share: bool) -> Markup:
    form = number.percent if share else number.short
    series = [Series(one.label, one.curve(key), one.colour, one.dash) for one in configurations]
    ends = [f"{line.label} ends at {form(line.points[-1][1])}" for line in series if line.points]
    picture = chart.curves(title, "; ".join(ends), series, share)
    return _figure(title, picture, _points(series, form))


def _points(series: Sequence[Series], form: Callable) -> Markup:
    """At most forty rounds, the first and last among them."""
    rounds = sorted({point[0] for line in series for point in line.points})
    shown = [span[0] for span in bins(rounds[:-1], 39)] + rounds[-1:]
    lines = [{point[0]: form(point[1]) for point in line.points} for line in series]
    body = [[str(place), *(line.get(place, number.ABSENT) for line in lines)] for place in shown]
    return _numbers(["round", *(line.label for line in series)], body)


def _noise(one: Configuration, cells: dict[str, dict[int, float]], colours) -> Markup:
    means = [(layer, _across(rounds)) for layer, rounds in cells.items()]
    most = max(means, key=lambda pair: pair[1][1])
    told = f"Mean noise is largest on {most[0]}, {number.short(most[1][1])}."
    body = [[layer, *map(number.short, values)] for layer, values in means]
    picture = heatmap(f"Noise by layer and round: {one.label}", told, cells, colours)
    return _figure(one.label, picture, _numbers(["layer", "lowest round", "mean", "highest round"], body))


def _observed(one: Configuration) -> list[Observed]:
    weights, raw, shares = one.layers("P"), one.layers("KL"), one.layers("selected")
    rows = []
    for layer in dict.fromkeys([*weights, *shares]):
        low, mean, high = _across(weights[layer]) if layer in weights else (None, None, None)
        before, share = (_across(table[layer])[1] if layer in table else None for table in (raw, shares))
        rows.append(Observed(layer, mean, low, high, before, share))
    return rows


def _across(rounds: dict[int, float]) -> tuple[float, float, float]:
    values = list(rounds.values())
    return min(values), sum(values) / len(values), max(values)


def _positive(cells: dict[str, dict[int, float]]) -> list[float]:
    return [value for rounds in cells.values() for value in rounds.values() if value > 0]


def _told(rows: Sequence[Observed]) -> str:
    known = [row for row in rows if row.mean]
    low, high = min(known, key=lambda row: row.mean), max(known, key=lambda row: row.mean)
    return f"Mean P runs from {number.short(low.mean)} ({low.layer}) to {number.short(high.mean)} ({high.layer})."


def _rows(rows: Sequence[Observed]) -> Markup:
    body = [[row.layer, number.short(row.low), number.short(row.mean), number.short(row.high), number.short(row.raw),
             number.percent(row.share)]
            for row in rows]
    return _numbers(["layer", "P, lowest round", "P, mean", "P, highest round", "KL, mean", "selected, %"], body)


def _figure(caption: str, picture: Markup, numbers: Markup) -> Markup:
    return tag("figure", tag("figcaption", caption), picture, numbers)


def _numbers(heads: Sequence[str], body: Sequence[Sequence[str]]) -> Markup:
    """The same as a table, for eyes and machines that prefer one."""
    head = tag("tr", *(tag("th", name, scope="col") for name in heads))
    lines = [tag("tr", tag("th", first, scope="row"), *(tag("td", value) for value in rest)) for first, *rest in body]
    table = tag("table", tag("thead", head), tag("tbody", *lines))
    return tag("details", tag("summary", "As numbers"), tag("div", table, class_="wide"))
