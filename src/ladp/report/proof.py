"""What is certified and why not more, and where every number comes from."""

import os
from collections.abc import Sequence
from pathlib import Path

from ladp.report import number
from ladp.report.configuration import Configuration
from ladp.report.headline import row, terms, views
from ladp.report.markup import Markup, join, tag
from ladp.report.runs import Run
from ladp.report.summary import anchor

HEADS = ("run", "method", "seed", "state", "recipe", "weights", "ladp", "torch", "device", "precision")


def proof(configurations: Sequence[Configuration]) -> Markup:
    """For each configuration what is certified, and the reasons where it is nothing; alike ones together."""
    groups: dict[tuple, list[int]] = {}
    for place, one in enumerate(configurations):
        cells = row(one)
        proved = tuple(_verdict(value) for value in views(one).values()) or ((number.exact(cells["certified_epsilon"]), terms(cells, "certified")),)
        said = (one.method, proved, *cells["reasons"])
        groups.setdefault(said, []).append(place)
    blocks = [_block(said, [(place, configurations[place].label) for place in places]) for said, places in groups.items()]
    return tag("section", tag("h2", "What is proved, and why not more"), tag("div", *blocks, class_="triple"))


def _block(said: tuple, members: list[tuple[int, str]]) -> Markup:
    _, proved, *reasons = said
    names = tag("h3", *(join(tag("sup", place + 1), " ", tag("span", label, id=anchor(place)), tag("br"))
                        for place, label in members))
    verdicts = (tag("p", "certified ε ", tag("strong", epsilon), " ", tag("span", known, class_="note")) for epsilon, known in proved)
    return tag("div", names, *verdicts, tag("ul", *(tag("li", reason) for reason in reasons)) if reasons else None,
               class_="block")


def _verdict(value: dict) -> tuple[str, str]:
    """An ε and its terms."""
    cells = {f"certified_{key}": value.get(key) for key in ("epsilon", "delta", "unit", "view", "accountant")}
    return number.exact(cells["certified_epsilon"]), terms(cells, "certified")


def provenance(configurations: Sequence[Configuration], home: Path) -> Markup:
    """Every run that was read, counted or not, and the recipe of each configuration in full."""
    runs = [run for one in configurations for run in (*one.runs, *one.others)]
    head = tag("tr", *(tag("th", name, scope="col") for name in HEADS))
    table = tag("table", tag("caption", "Runs read"), tag("thead", head), tag("tbody", *(_run(run, home) for run in runs)))
    notes = [tag("li", f"{_place(run, home)}: {note}") for run in runs for note in run.notes]
    return tag("section", tag("h2", "Where the numbers come from"), tag("div", table, class_="wide small"),
               tag("ul", *notes, class_="note") if notes else None, *(_recipe(one) for one in configurations))


def _run(run: Run, home: Path) -> Markup:
    facts = run.facts
    cells = [facts["method"], facts["seed"], run.state, _digest(facts.get("digest")),
             _digest((run.result or {}).get("digest")), *(facts.get(key, number.ABSENT) for key in
                                                         ("version", "torch", "device", "precision"))]
    return tag("tr", tag("th", _place(run, home), scope="row"), *(tag("td", cell) for cell in cells))


def _digest(digest: object) -> object:
    """The first twelve signs; the whole on pointing at it."""
    return number.ABSENT if digest is None else tag("code", str(digest)[:12], data_tip=digest, tabindex=0)


def _place(run: Run, home: Path) -> str:
    return Path(os.path.relpath(run.folder.resolve(), home)).as_posix()


def _recipe(one: Configuration) -> Markup:
    seed = one.facts["seed"]
    return tag("details", tag("summary", f"Recipe of {one.label}, seed {seed}"), tag("pre", tag("code", one.runs[0].text)))
