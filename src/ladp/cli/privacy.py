"""`ladp privacy`: what noise costs and gives, without training anything."""

import json
from math import inf, isfinite
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ladp.errors import Problem
from ladp.privacy.convergence import Convergence, noise_bound
from ladp.privacy.gaussian import ACCOUNTANT, UNIT, constant, delta_of, epsilon_of, sigma_of
from ladp.privacy.naive import accumulated
from ladp.privacy.planning import plan

app = typer.Typer(help="Epsilon, delta and sigma of one release; a plan for all of a run; the paper's accountant and its convergence bound.", no_args_is_help=True)

Epsilon = Annotated[float, typer.Option(help="Privacy budget of one release.")]
Delta = Annotated[float, typer.Option(help="Failure probability of one release, between 0 and 1.")]
Sigma = Annotated[float, typer.Option(help=f"Standard deviation of the noise, {UNIT}.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

GAUSSIAN = {"sigma_unit": UNIT, "accountant": ACCOUNTANT}
NAIVE = {
    "accountant": "the paper's sequential accountant: q T epsilon",
    "note": "proves nothing: noise is added once a round, not once a batch",
}


@app.command("sigma")
def sigma_command(
    epsilon: Epsilon,
    delta: Delta,
    rule: Annotated[str, typer.Option(help="exact, classical, or paper (the constant of LaDP-FL's privacy theorem).")] = "exact",
    as_json: Json = False,
) -> None:
    """The sigma that a rule asks for, and the delta that this sigma really gives."""
    sigma = sigma_of(epsilon, delta, rule)
    true = delta_of(epsilon, sigma)
    facts = {"sigma": sigma, "delta": true, "epsilon": epsilon, "requested_delta": delta, "holds": true <= delta}
    facts |= {"rule": rule, "constant": constant(epsilon, delta, rule), "note": _note(rule, epsilon)}
    show(f"Noise by the {rule} rule", facts | GAUSSIAN, as_json)


@app.command("delta")
def delta_command(epsilon: Epsilon, sigma: Sigma, as_json: Json = False) -> None:
    """The smallest delta that holds at an epsilon and a sigma."""
    show("What the noise gives", {"delta": delta_of(epsilon, sigma), "epsilon": epsilon, "sigma": sigma} | GAUSSIAN, as_json)


@app.command("epsilon")
def epsilon_command(sigma: Sigma, delta: Delta, as_json: Json = False) -> None:
    """The smallest epsilon that holds at a sigma and a delta."""
    show("What the noise gives", {"epsilon": epsilon_of(sigma, delta), "delta": delta, "sigma": sigma} | GAUSSIAN, as_json)


@app.command("plan")
def plan_command(
    delta: Annotated[float, typer.Option(help="Failure probability of all releases together, between 0 and 1.")],
    epsilon: Annotated[float | None, typer.Option(help="What all releases together may cost; with --rounds z is found, with --z the rounds.")] = None,
    z: Annotated[float | None, typer.Option("--z", help="Noise over clip; with --epsilon the most rounds are found, with --rounds the cost.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of the run.")] = None,
    unit: Annotated[str, typer.Option(help="record (of a client, added or removed) or client (its whole data set, replaced).")] = "record",
    view: Annotated[str, typer.Option(help="server (sees every upload) or peer (trusted server, clients that see the global models).")] = "peer",
    clients: Annotated[int, typer.Option(help="Clients there are.")] = 100,
    active: Annotated[int, typer.Option(help="Clients drawn each round.")] = 100,
    record_rate: Annotated[float, typer.Option(help="Chance of each record to be in the batch of a local step.")] = 1.0,
    local_steps: Annotated[int, typer.Option(help="Noised steps of a client a round.")] = 1,
    colluders: Annotated[int, typer.Option(help="Active clients that the adversary of the peer view controls.")] = 1,
    participations: Annotated[int | None, typer.Option(help="Rounds that a client takes part in at most, where that is known.")] = None,
    records: Annotated[int | None, typer.Option(help="Records of a client, to judge delta by.")] = None,
    z_most: Annotated[float, typer.Option(help="Refuse a plan that needs more noise than this.")] = inf,
    as_json: Json = False,
) -> None:
    """The least noise that keeps an epsilon over a schedule, the most rounds that a noise allows, or what both cost."""
    found = plan(epsilon, delta, unit, view, clients, active, rounds, record_rate, local_steps, colluders, participations, z=z, z_most=z_most, records=records)
    show("What the schedule takes", found.facts, as_json)


@app.command("naive")
def naive_command(
    sigma: Sigma,
    delta: Delta,
    batch: Annotated[int, typer.Option(help="Records a batch.")],
    size: Annotated[int, typer.Option(help="Records of the client, |D_i|.")],
    steps: Annotated[int, typer.Option(help="Batches counted, T: of one client, or of all honest active ones as the paper plots it.")],
    as_json: Json = False,
) -> None:
    """The paper's accumulated budget q T epsilon, which is not to be trusted."""
    spent = accumulated(sigma, delta, batch, size, steps)
    inputs = {"sigma": sigma, "requested_delta": delta, "batch": batch, "size": size, "steps": steps, "sigma_unit": UNIT}
    show("The paper's accumulated budget", vars(spent) | {"meaningless": spent.meaningless} | inputs | NAIVE, as_json)


@app.command("convergence")
def convergence_command(
    smoothness: Annotated[float, typer.Option(help="L of the L-smoothness assumption.")],
    mu: Annotated[float, typer.Option(help="mu of the Polyak-Lojasiewicz condition.")],
    layers: Annotated[int, typer.Option(help="Number of layers J.")],
    noise: Annotated[float | None, typer.Option(help="Bound N_c on the noise norm of one layer; or give --sigma and --size.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of a layer's noise, as added.")] = None,
    size: Annotated[int | None, typer.Option(help="Weights of the largest layer.")] = None,
    probability: Annotated[float, typer.Option(help="Probability with which N_c bounds all layers in all rounds.")] = 0.95,
    clip: Annotated[float, typer.Option(help="Gradient clip G_c.")] = 20.0,
    lr: Annotated[float, typer.Option(help="Learning rate eta.")] = 0.1,
    rounds: Annotated[int, typer.Option(help="Rounds t.")] = 400,
    gap: Annotated[float, typer.Option(help="F(w_g^0) - F* before the first round.")] = 1.0,
    as_json: Json = False,
) -> None:
    """The paper's convergence bound, with each of its conditions checked."""
    bounded, certainty = _noise(noise, sigma, size, probability, layers * max(rounds, 1))
    theorem = Convergence(smoothness, mu, clip, layers, bounded, lr)
    inputs = vars(theorem) | {"rounds": rounds, "gap": gap, "noise_bound_holds": certainty}
    show("The paper's convergence theorem", _bound(theorem, rounds, gap) | inputs, as_json)


def show(title: str, facts: dict[str, Any], as_json: bool) -> None:
    """Facts as strict JSON, infinities as the strings "inf" and "-inf", or as a table that says the same."""
    if as_json:
        return typer.echo(json.dumps(_strict(facts), allow_nan=False))
    table = Table("", "", title=title, show_header=False, title_justify="left")
    for name, value in facts.items():
        if value not in (None, "", []):
            table.add_row(name.replace("_", " "), _text(value))
    Console().print(table)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _strict(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(inner) for inner in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "\n".join(_text(inner) for inner in value)
    if isinstance(value, dict) and "holds" in value:
        return f"{value['name']}: {_text(value['holds'])} ({value['numbers']})"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_text(inner)}" for name, inner in value.items())
    if value is None:
        return "no bound"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _note(rule: str, epsilon: float) -> str:
    if rule == "paper":
        return "c_i = constant times B; the theorem's constant is too small when delta is"
    return "the classical theorem is proved for epsilon < 1 only" if rule == "classical" and epsilon >= 1 else ""


def _noise(noise: float | None, sigma: float | None, size: int | None, probability: float, draws: int) -> tuple[float, str]:
    """N_c as given, or as a quantile, and with what certainty it holds."""
    if noise is not None:
        return noise, "as assumed; Gaussian noise has no certain bound"
    if sigma is None or size is None:
        raise Problem("the noise bound N_c is missing: give --noise, or --sigma and --size to have it computed")
    return noise_bound(sigma, size, probability, draws), f"with probability {probability:g} over {draws:,} draws of the largest layer"


def _bound(theorem: Convergence, rounds: int, gap: float) -> dict[str, Any]:
    lower, upper = theorem.interval
    derived = {"psi": theorem.psi, "phi": theorem.phi, "rate": theorem.rate, "lr_above": lower, "lr_below": upper}
    derived |= {"smoothness_below": theorem.smoothest}
    found = {"bound": theorem.bound(rounds, gap) if theorem.holds else None, "holds": theorem.holds, "reason": theorem.refusal}
    return found | {"conditions": [vars(condition) for condition in theorem.conditions()]} | derived
