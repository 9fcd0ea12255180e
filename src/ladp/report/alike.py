"""What is certified, side by side: only what a finite ε is proved of, since nothing else can be compared at equal protection."""

from collections.abc import Sequence

from ladp.report import number
from ladp.report.configuration import Configuration
from ladp.report.headline import proved, row, terms
from ladp.report.markup import Markup, tag
from ladp.report.number import Spread

HEADS = ("method", "certified ε", "accuracy, %", "test loss", "noise scale", "runs")
SHOWN = {"accuracy": number.percent, "loss": number.short, "noise_scale": number.short}


def alike(configurations: Sequence[Configuration]) -> Markup | None:
    """A row for each configuration with a finite certified ε, and beneath who is left out; nothing where nothing is certified."""
    rows = [row(one) for one in configurations]
    kept = [cells for cells in rows if proved(cells)]
    if not kept:
        return None
    head = tag("tr", *(tag("th", name, scope="col", class_="end" if place else None) for place, name in enumerate(HEADS)))
    table = tag("table", tag("caption", "With a finite certified ε"), tag("thead", head), tag("tbody", *map(_line, kept)))
    said = dict.fromkeys(f"ε = {number.exact(cells['certified_epsilon'])} {terms(cells, 'certified')}" for cells in kept)
    left = [cells["label"] for cells in rows if not proved(cells)]
    notes = [*said, *([f"Left out, as no finite ε is certified: {number.listed(left)}"] if left else [])]
    return tag("section", tag("h2", "Certified, side by side"), tag("div", table, class_="wide"), tag("ul", *(tag("li", note) for note in notes), class_="note"))


def _line(cells: dict) -> Markup:
    shown = [number.ranged(Spread(cells[key], cells[f"{key}_deviation"], cells["count"]), form) for key, form in SHOWN.items()]
    values = [number.exact(cells["certified_epsilon"]), *shown, cells["count"]]
    return tag("tr", tag("th", cells["label"], scope="row"), *(tag("td", value, class_="end") for value in values))
