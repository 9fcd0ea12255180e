"""Runs of the same recipe but for the seed, taken together."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean

from ladp.report import number
from ladp.report.number import Spread
from ladp.report.runs import Run, find, read

COLOURS, DASHES = 7, 4
ASIDE = {f"run.{key}" for key in ("seed", "root", "ledger", "engine", "device", "workers")}  # one configuration wherever it ran


@dataclass(frozen=True)
class Configuration:
    """One recipe over its seeds; `runs` are counted, `others` are repeats of a seed or runs that did not finish."""

    label: str
    runs: tuple[Run, ...]
    others: tuple[Run, ...]
    colour: int = 0
    dash: int = 0

    @property
    def facts(self) -> dict:
        return self.runs[0].facts

    @property
    def method(self) -> str:
        return self.facts["method"]

    @property
    def remarks(self) -> list[str]:
        """Why a run is counted early or not at all."""
        early = [f"seed {run.facts['seed']} {run.state}" for run in self.runs if not run.finished]
        return early + [f"seed {run.facts['seed']} {_why(run)}, not counted" for run in self.others]

    def spread(self, value: Callable[[Run], float | None]) -> Spread:
        """The value over the counted runs that have it."""
        return number.spread([found for run in self.runs if (found := value(run)) is not None])

    def curve(self, key: str) -> list[tuple[int, float, float, float]]:
        """(round, mean, lowest, highest) over the counted runs, for every round that any of them measured."""
        measured: dict[int, list[float]] = {}
        for record in self._records():
            value = number.read(record.get(key))
            if value is not None and isfinite(value):
                measured.setdefault(record["round"], []).append(value)
        return [(place, fmean(values), min(values), max(values)) for place, values in sorted(measured.items())]

    def layers(self, key: str) -> dict[str, dict[int, float]]:
        """Layer → round → mean over the counted runs of a value kept by layer, layers in the model's order."""
        known = self.facts.get("layers")
        cells: dict[str, dict[int, list[float]]] = {str(layer): {} for layer in known or ()}
        for record in self._records():
            for layer, value in _mapping(record.get(key)):
                cells.setdefault(layer, {}).setdefault(record["round"], []).append(value)
        return {layer: {place: fmean(values) for place, values in sorted(rounds.items())}
                for layer, rounds in cells.items() if rounds}

    def _records(self) -> Iterable[dict]:
        return (record for run in self.runs for record in run.rounds)


def gather(paths: Iterable[Path | str]) -> list[Configuration]:
    """All runs under `paths`, grouped: those that claim nothing first, then by method and claimed ε."""
    runs = sorted(map(read, find(paths)), key=lambda run: (_order(run), _sameness(run), run.facts["seed"]))
    recipes: dict[str, list[Run]] = {}
    for run in runs:
        recipes.setdefault(_sameness(run), []).append(run)
    groups = list(recipes.values())
    looks = zip(groups, _labels(groups), _styles(groups), strict=True)
    return [_configuration(group, label, *style) for group, label, style in looks]


def claimed(run: Run) -> dict:
    """What the method's own formula claims; empty where nothing is claimed."""
    return run.facts.get("claimed") or {}


def flat(table: dict, prefix: str = "") -> dict[str, object]:
    """Nested tables as one, with dotted keys."""
    pairs: dict[str, object] = {}
    for key, value in table.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return pairs


def _configuration(group: list[Run], label: str, colour: int, dash: int) -> Configuration:
    """One run a seed, finished ones where there are any: a repeat is no new evidence, an early stop no result."""
    usable = [run for run in group if run.finished] or group
    counted = {run.facts["seed"]: run for run in reversed(usable)}
    runs = tuple(counted[seed] for seed in sorted(counted))
    return Configuration(label, runs, tuple(run for run in group if all(run is not one for one in runs)), colour, dash)


def _mapping(values: object) -> list[tuple[str, float]]:
    pairs = values.items() if isinstance(values, dict) else ()
    return [(str(key), found) for key, value in pairs if (found := number.read(value)) is not None and isfinite(found)]


def _why(run: Run) -> str:
    return "repeated" if run.finished else run.state


def _sameness(run: Run) -> str:
    values = {key: value for key, value in flat(run.recipe).items() if key not in ASIDE}
    return json.dumps([run.facts["method"], values], sort_keys=True, default=str)


def _order(run: Run) -> tuple:
    epsilon = number.read(claimed(run).get("epsilon"))
    return epsilon is not None, run.facts["method"], epsilon or 0.0


def _labels(groups: list[list[Run]]) -> list[str]:
    """Method and claimed ε, and whatever else tells apart those that share both."""
    plain = [_plain(group[0]) for group in groups]
    counts = Counter(plain)
    return [label if counts[label] == 1 else f"{label}, {_difference(group, groups)}"
            for label, group in zip(plain, groups, strict=True)]


def _plain(run: Run) -> str:
    epsilon = number.read(claimed(run).get("epsilon"))
    return run.facts["method"] if epsilon is None else f"{run.facts['method']} ε {number.exact(epsilon)}"


def _difference(group: list[Run], groups: list[list[Run]]) -> str:
    rivals = [flat(other[0].recipe) for other in groups if _plain(other[0]) == _plain(group[0])]
    keys = {key: None for rival in rivals for key in rival if key not in ASIDE}
    mine = flat(group[0].recipe)
    parts = [f"{key.removesuffix('.name').rpartition('.')[2]} {mine.get(key, 'default')}" for key in keys
             if len({repr(rival.get(key)) for rival in rivals}) > 1]
    return " ".join(parts)


def _styles(groups: list[list[Run]]) -> list[tuple[int, int]]:
    """A colour for each method (0, the ink, for what claims nothing) and a dash for each ε; one method: colours alone."""
    methods = [group[0].facts["method"] for group in groups]
    names = list(dict.fromkeys(methods))
    if len(names) == 1:
        return [(place % COLOURS, place // COLOURS % DASHES) for place in range(len(groups))]
    shift = 1 if claimed(groups[0][0]) else 0
    return [((names.index(name) + shift) % COLOURS, methods[:place].count(name) % DASHES)
            for place, name in enumerate(methods)]
