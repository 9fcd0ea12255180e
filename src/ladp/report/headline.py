"""The headline: what each configuration cost and bought, one row each."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from ladp.report import number
from ladp.report.configuration import Configuration, claimed, gather
from ladp.report.runs import Run


def rows(paths: Iterable[Path | str]) -> list[dict]:
    """What each configuration cost and bought, fit for JSON: None where nothing is known, "inf" where nothing is proved."""
    return [row(one) for one in gather(paths)]


def certified(rows: Iterable[dict]) -> list[dict]:
    """The rows that may be compared at equal protection: those with a finite certified ε."""
    return [one for one in rows if proved(one)]


def proved(row: dict) -> bool:
    """Whether a finite ε is certified."""
    return row["certified_epsilon"] != "inf"


def row(one: Configuration) -> dict:
    """One configuration: means and sample deviations over its seeds; every ε with δ, unit, view and accountant."""
    return ({"label": one.label, "method": one.method, "seeds": [run.facts["seed"] for run in one.runs],
             "count": len(one.runs), "finished": all(run.finished for run in one.runs), "remarks": one.remarks}
            | _cost("claimed", claimed(one.runs[0])) | _accumulated(one) | certificate(one) | _measured(one))


def certificate(one: Configuration) -> dict:
    """The largest certified ε over the runs; without a certificate ε is infinite."""
    found = [run.facts.get("certified") or {} for run in one.runs]
    worst = max(found, key=_certified)
    reasons = worst.get("reasons") or ["the run folder holds no certificate"] * math.isinf(_certified(worst))
    epsilon = "inf" if math.isinf(_certified(worst)) else _certified(worst)
    return _cost("certified", worst) | {"certified_epsilon": epsilon, "reasons": [str(reason) for reason in reasons]}


def views(one: Configuration) -> dict[str, dict]:
    """What is certified in each view by the runs that finished, for the run that spent most; empty for folders that do not tell."""
    told = [run.result["views"] for run in one.runs if run.result and isinstance(run.result.get("views"), dict)]
    return {view: max((views[view] for views in told if view in views), key=_certified) for view in dict.fromkeys(view for views in told for view in views)}


def terms(row: dict, name: str) -> str:
    """δ, unit, view and accountant of an ε, in words."""
    parts = {"delta": "δ {}", "unit": "unit {}", "view": "view {}", "accountant": "accountant: {}"}
    values = {key: row[f"{name}_{key}"] for key in parts} | {"delta": number.exact(row[f"{name}_delta"])}
    known = [form.format(values[key]) for key, form in parts.items() if values[key] not in (None, number.ABSENT)]
    return f"({', '.join(known)})" if known else "(terms not recorded)"


def _cost(name: str, cost: dict) -> dict:
    values = {key: number.read(cost.get(key)) for key in ("epsilon", "delta")}
    values |= {key: cost.get(key) for key in ("unit", "view", "accountant")}
    return {f"{name}_{key}": value for key, value in values.items()}


def _certified(certificate: dict) -> float:
    epsilon = number.read(certificate.get("epsilon"))
    return math.inf if epsilon is None else epsilon


def _accumulated(one: Configuration) -> dict:
    epsilon = _over_seeds(one, "accumulated_epsilon", lambda run: run.accumulated("epsilon"))
    return epsilon | {"accumulated_delta": one.spread(lambda run: run.accumulated("delta")).mean}


def _measured(one: Configuration) -> dict:
    return (_over_seeds(one, "accuracy", lambda run: run.final("accuracy"))
            | _over_seeds(one, "loss", lambda run: run.final("loss"))
            | _over_seeds(one, "noise_scale", lambda run: run.total("noise_scale"))
            | _over_seeds(one, "seconds", lambda run: run.total("seconds")))


def _over_seeds(one: Configuration, key: str, value: Callable[[Run], float | None]) -> dict:
    found = one.spread(value)
    return {key: found.mean, f"{key}_deviation": found.deviation}
