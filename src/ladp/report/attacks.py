"""What attacks on the runs found, beside the accuracy of what they attacked: findings are read as files, pictures are shown as images that can do nothing."""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladp.errors import Problem
from ladp.report import number
from ladp.report.configuration import Configuration, flat
from ladp.report.markup import Markup, tag
from ladp.report.plane import Dot, plane
from ladp.report.runs import Run

FOLDER, FINDINGS = "attacks", "findings.json"
NEEDED = {"attack": str, "view": str, "options": dict, "scores": dict, "notes": list, "pictures": list}
SHOWN = 12  # scores in a table; the page lists the others with the pictures


@dataclass(frozen=True)
class Attacked:
    """An attack with the same options on the runs of a configuration."""

    configuration: Configuration
    found: tuple[tuple[Run, Path, dict[str, Any]], ...]

    @property
    def first(self) -> dict[str, Any]:
        return self.found[0][2]

    def score(self, name: str) -> number.Spread:
        """A score over the attacked runs that have it."""
        values = (number.read(flat(findings["scores"]).get(name)) for _, _, findings in self.found)
        return number.spread([value for value in values if value is not None])

    def accuracy(self) -> number.Spread:
        """Of what was attacked: as the attack says, else that of the run."""
        values = (number.read(findings["scores"].get("accuracy", run.final("accuracy"))) for run, _, findings in self.found)
        return number.spread([value for value in values if value is not None])


def attacks(configurations: Sequence[Configuration]) -> Markup | None:
    """A block for each kind of attack; None where nothing was attacked."""
    kinds: dict[str, list[Attacked]] = {}
    for one in configurations:
        for attacked in gather(one):
            kinds.setdefault(attacked.first["attack"], []).append(attacked)
    if not kinds:
        return None
    return tag("section", tag("h2", "What an adversary got out of it"), *(_kind(name, rows) for name, rows in sorted(kinds.items())))


def gather(one: Configuration) -> list[Attacked]:
    """The attacks on a configuration, those with the same options over its seeds together."""
    groups: dict[str, list[tuple[Run, Path, dict]]] = {}
    for run in one.runs:
        for path in sorted((run.folder / FOLDER).glob(f"*/{FINDINGS}")):
            findings = read(path)
            groups.setdefault(json.dumps([findings["attack"], findings["options"]], sort_keys=True), []).append((run, path.parent, findings))
    return [Attacked(one, tuple(found)) for found in groups.values()]


def read(path: Path) -> dict[str, Any]:
    """One attack's findings, or a Problem that names the file."""
    try:
        findings = json.loads(path.read_text("utf-8"))
        wrong = [key for key, kind in NEEDED.items() if not isinstance(findings.get(key), kind)]
    except (OSError, ValueError, AttributeError) as error:
        raise Problem(f"{path} is damaged ({error}): delete it and attack again") from error
    if wrong:
        raise Problem(f"{path} is damaged ({wrong[0]!r} is missing or of the wrong kind): delete it and attack again")
    return findings


def _kind(name: str, rows: Sequence[Attacked]) -> Markup:
    keys = [key for key in dict.fromkeys(key for row in rows for key in flat(row.first["scores"])) if any(row.score(key).count for row in rows)]
    notes = dict.fromkeys(note for row in rows for note in row.first["notes"])
    views = number.listed(sorted({row.first["view"] for row in rows}))
    return tag("div", tag("h3", f"{name} (view {views})"), _table(rows, keys), _plane(rows, keys), tag("ul", *(tag("li", note) for note in notes), class_="note"),
               tag("div", *(picture for row in rows for picture in _pictures(row)), class_="pair"))  # fmt: skip


def _table(rows: Sequence[Attacked], keys: Sequence[str]) -> Markup:
    shown = list(keys)[:SHOWN]
    head = tag("tr", *(tag("th", word, scope="col", class_="end" if place else None) for place, word in enumerate(("run", "its accuracy, %", *shown, "runs"))))
    body = [tag("tr", tag("th", label(row, rows), scope="row"), _cell(number.ranged(row.accuracy(), number.percent)),
                *(_cell(number.ranged(row.score(key))) for key in shown), _cell(len(row.found))) for row in rows]  # fmt: skip
    return tag("div", tag("table", tag("caption", "Scores by run"), tag("thead", head), tag("tbody", *body)), class_="wide small")


def label(row: Attacked, rows: Sequence[Attacked]) -> str:
    """The configuration, and the options that tell this attack from the others on it."""
    rivals = [other.first["options"] for other in rows]
    parts = [f"{key} {value}" for key, value in row.first["options"].items() if any(other.get(key) != value for other in rivals)]
    return ", ".join([row.configuration.label, *parts])


def _plane(rows: Sequence[Attacked], keys: Sequence[str]) -> Markup | None:
    """The first score against accuracy: privacy is to be compared where accuracy is equal."""
    name = next((key for key in keys if key != "accuracy"), None)
    dots = [Dot(label(row, rows), found.mean, score.mean, row.configuration.colour) for row in rows
            if name and (found := row.accuracy()).mean is not None and (score := row.score(name)).mean is not None]  # fmt: skip
    if len(dots) < 2:
        return None
    return tag("figure", tag("figcaption", f"{name} against accuracy"), plane(f"{name} against accuracy", name, dots))


def _pictures(row: Attacked) -> list[Markup]:
    """The pictures of the first attacked run."""
    run, folder, findings = row.found[0]
    return [_picture(f"{row.configuration.label}, seed {run.facts['seed']}: {name}", folder / f"{name}.svg") for name in map(str, findings["pictures"])]


def _picture(title: str, path: Path) -> Markup:
    try:
        source = "data:image/svg+xml;base64," + b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}; restore the file, or delete its folder and attack again") from error
    return tag("figure", tag("figcaption", title), tag("img", src=source, alt=title, class_="chart"))


def _cell(value: object) -> Markup:
    return tag("td", value, class_="end")
