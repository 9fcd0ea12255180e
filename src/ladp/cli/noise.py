"""`ladp noise`: how much noise a run will add, without training."""

from typing import Annotated

import torch
import typer

from ladp.cli.privacy import Delta, Epsilon, Json, show
from ladp.errors import Problem, choose
from ladp.metrics.noise import expected_noise_scale, noise_scale_deviation, noised_sizes
from ladp.models import MODELS, create
from ladp.privacy.gaussian import sigma_of
from ladp.privacy.mechanism import Training
from ladp.recipe import PRESETS

app = typer.Typer(help="How much noise a run will add.", no_args_is_help=True)

# The rule behind each method's sigma. For ladp every layer is taken as selected and every P as clipped at B, so that c_i / P = c'.
METHODS: dict[str, str | None] = {"none": None, "full": "classical", "ladp": "paper"}


@app.callback()
def noise() -> None:
    """How much noise a run will add."""


@app.command("expected")
def expected_command(
    method: Annotated[str, typer.Option(help="none, full, or ladp with every layer selected and every P at B.")] = "full",
    model: Annotated[str, typer.Option(help="Name of a model, or package.module:Class.")] = "cnn",
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    channels: Annotated[int, typer.Option(help="Image channels.")] = 3,
    size: Annotated[int, typer.Option(help="Image side in pixels.")] = 32,
    epsilon: Epsilon = 0.5,
    delta: Delta = 0.02,
    kappa: Annotated[float | None, typer.Option(help="The Delta of sigma = c Delta / epsilon: .01 as run, 2 eta E G_c = 8 as printed.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds T.")] = 400,
    active: Annotated[int, typer.Option(help="Clients active in a round.")] = 10,
    preset: Annotated[str, typer.Option(help="as-run or as-printed: sets --kappa and --state.")] = "as-run",
    state: Annotated[str | None, typer.Option(help="all or trainable: what is noised.")] = None,
    layers: Annotated[str, typer.Option(help="What a layer is: tensor or module.")] = "tensor",
    counters: Annotated[bool | None, typer.Option(help="Whether integer batch counters are noised; by default if all is, as run.")] = None,
    as_json: Json = False,
) -> None:
    """The paper's noise scale before a run: the sum of the noise norms over rounds, clients and layers, each after division by the cohort."""
    state, kappa = _preset(preset, state, kappa)
    counters = state == "all" if counters is None else counters
    with torch.device("meta" if model in MODELS else "cpu"):  # shapes are enough, but a network from elsewhere may need its numbers
        sizes = noised_sizes(create(model, classes, channels, size), layers, state, counters)
    sigma = _sigma(method, epsilon, delta, kappa)
    facts = {"noise_scale": expected_noise_scale(sizes, sigma, rounds, active), "sd": noise_scale_deviation(sizes, sigma, rounds, active)}
    facts |= {"sigma": sigma, "noised_layers": len(sizes), "noised_numbers": sum(sizes), "method": method, "model": model, "classes": classes}
    facts |= {"epsilon": epsilon, "delta": delta, "kappa": kappa, "rounds": rounds, "active": active}
    show("Expected noise scale", facts | {"preset": preset, "state": state, "layers": layers, "counters": counters}, as_json)


def _preset(preset: str, state: str | None, kappa: float | None) -> tuple[str, float]:
    method, public = PRESETS[choose("preset", preset, PRESETS)]["method"], Training()
    theorem = 2 * public.lr * public.epochs * public.clip  # Theorem 2 of the paper
    return method["state"] if state is None else state, method.get("kappa", theorem) if kappa is None else kappa


def _sigma(method: str, epsilon: float, delta: float, kappa: float) -> float:
    if not kappa > 0:
        raise Problem(f"kappa must be positive, got {kappa}")
    rule = METHODS[choose("method", method, METHODS)]
    return 0.0 if rule is None else kappa * sigma_of(epsilon, delta, rule)
