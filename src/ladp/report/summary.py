"""The headline table as HTML."""

import re
from collections.abc import Sequence

from ladp.report import number
from ladp.report.chart import swatch
from ladp.report.configuration import Configuration
from ladp.report.headline import row
from ladp.report.markup import Markup, tag
from ladp.report.number import Spread
from ladp.report.scale import Scale

TERMS = {
    "claimed": "What the formula of the method's own paper gives: for one upload, and added up over the rounds.",
    "certified": "What is proved for the mechanism as it ran. ∞ is no failure to compute: no finite ε is proved, for the reasons "
                 "given below. Where it stands, equal claimed ε is not equal protection: a method that adds less noise for the "
                 "same claim buys its accuracy with it.",
    "noise scale": "The norms of all noise, added up over rounds, clients and layers, each divided by the clients of its round.",
    "seconds": "Training, without testing.",
    "±": "The sample deviation over seeds.",
}  # fmt: skip
HEADS = (("method", ""), ("claimed ε", "end"), ("accumulated claimed\u00a0ε", "end"), ("certified ε", "end"),
         ("accuracy, %", "end"), ("test loss", "end"), ("noise scale", "end"), ("seconds", "end"),
         ("runs", "end"))


def summary(configurations: Sequence[Configuration]) -> Markup:
    """A row for each configuration, each ε above the terms that give it meaning."""
    rows = [row(one) for one in configurations]
    heads = tag("tr", *(tag("th", name, scope="col", class_=side or None) for name, side in HEADS))
    lines = [_line(one, cells, place) for place, (one, cells) in enumerate(zip(configurations, rows, strict=True))]
    table = tag("table", tag("caption", "Cost and accuracy by configuration"), tag("thead", heads), tag("tbody", *lines))
    return tag("section", tag("h2", "What it cost and what it bought"), tag("div", table, class_="wide summary"),
               tag("dl", *(tag("div", tag("dt", term), tag("dd", said)) for term, said in TERMS.items()), class_="note"), _remarks(rows))


def anchor(place: int) -> str:
    """The address of a configuration's reasons on the page."""
    return f"proof-{place + 1}"


def _line(one: Configuration, cells: dict, place: int) -> Markup:
    name = tag("th", swatch(one.colour, one.dash), " ", cells["label"], scope="row")
    return tag("tr", name, _claimed(cells), _accumulated(cells), _certified(cells, place), *_measured(cells))


def _measured(cells: dict) -> list[Markup]:
    accuracy = _spread(cells, "accuracy")
    plain = [_cell(number.ranged(_spread(cells, key))) for key in ("loss", "noise_scale", "seconds")]
    return [_cell(number.ranged(accuracy, number.percent), "strong", _strip(accuracy)), *plain,
            _cell(cells["count"], None, None if cells["finished"] else "unfinished")]


def _claimed(cells: dict) -> Markup:
    return _cell(number.exact(cells["claimed_epsilon"]), "strong", *_terms(cells, "claimed"))


def _accumulated(cells: dict) -> Markup:
    delta = cells["accumulated_delta"]
    void = ["δ of 1 or more says nothing"] if delta is not None and delta >= 1 else []
    terms = [] if delta is None else [_line_of(f"δ {number.short(delta)}", cells["claimed_unit"], "all uploads"),
                                      "the paper's q·T·ε, client drawn most", *void]
    return _cell(number.ranged(_spread(cells, "accumulated_epsilon")), None, *terms)


def _certified(cells: dict, place: int) -> Markup:
    """The certified ε; where it is infinite, the number itself leads to the reasons."""
    value = number.exact(cells["certified_epsilon"])
    if cells["certified_epsilon"] == "inf":
        said = " · ".join(cells["reasons"])
        value = tag("a", value, tag("sup", place + 1), href=f"#{anchor(place)}", data_tip=said, class_="infinite",
                    aria_label=f"infinite: {said}")
    return _cell(value, "strong", *_terms(cells, "certified"))


def _terms(cells: dict, name: str) -> list[str]:
    delta, accountant = cells[f"{name}_delta"], cells[f"{name}_accountant"]
    words = _line_of(None if delta is None else f"δ {number.exact(delta)}", cells[f"{name}_unit"], cells[f"{name}_view"])
    accountant = "no accountant applies" if accountant == "none applies" else accountant
    return [line for line in (words, accountant and re.sub(r" (?=\d)", "\u00a0", str(accountant))) if line]


def _line_of(*words: object) -> str:
    """Words with dots between them that stay on one line."""
    return "\u00a0·\u00a0".join(str(word) for word in words if word).replace(" ", "\u00a0")


def _cell(value: object, weight: str | None = None, *terms: object) -> Markup:
    small = [tag("small", term) for term in terms if term]
    return tag("td", tag("span", value, class_=weight), *small, class_="end terms" if len(small) > 1 else "end")


def _strip(value: Spread) -> Markup | None:
    """Accuracy on a line from 0 to 100 %, with its deviation."""
    if value.mean is None:
        return None
    across, wide = Scale(0.0, 1.0, 4, 92), value.deviation or 0.0
    line = tag("line", x1=across(0), x2=across(1), y1=9, y2=9, class_="track")
    reach = tag("line", x1=across(value.mean - wide), x2=across(value.mean + wide), y1=9, y2=9, class_="range")
    dot = tag("circle", cx=across(value.mean), cy=9, r=4, class_="mark")
    return tag("svg", line, reach, dot, class_="strip", viewBox="0 0 96 18", width=96, height=18, aria_hidden="true")


def _spread(cells: dict, key: str) -> Spread:
    return Spread(cells[key], cells[f"{key}_deviation"], cells["count"])


def _remarks(rows: Sequence[dict]) -> Markup | None:
    said = [tag("li", f"{cells['label']}: {remark}") for cells in rows for remark in cells["remarks"]]
    return tag("ul", *said, class_="note") if said else None
