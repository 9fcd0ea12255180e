"""`ladp audit`: canaries, one training run, and what they refute beside what is certified."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ladp import experiment
from ladp.audit.findings import Findings, tell, write
from ladp.audit.trial import Audit, conduct, recipe_of
from ladp.cli.run import guarantee


def audit(
    recipe: Annotated[Path, typer.Argument(help="A recipe file, or the folder of a run whose recipe is taken.")],
    unit: Annotated[str | None, typer.Option(help="record or client: that of the recipe's budget; client without one.")] = None,
    view: Annotated[str | None, typer.Option(help="server or peer; by default that of the recipe's budget, or server.")] = None,
    canaries: Annotated[int | None, typer.Option(help="Canaries m; by default 1000, but no more than a hundredth over delta (at confidence .95).")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds; by default the recipe's, and 1 without a budget, as one upload is what is claimed.")] = None,
    kind: Annotated[str, typer.Option(help="Unit record: gradient (of full length, in a direction of its own) or record (a mislabelled one).")] = "gradient",
    bits: Annotated[int | None, typer.Option(help="Unit client: bits of a message; by default 1 under a budget, else as many as are legible.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of coins and directions.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder of audit.json and scores.svg; by default in the run's folder, or under audits/.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, and nothing else on stdout.")] = False,
) -> None:
    """Train once with canaries put in by coin, and give the least epsilon that the recipe can have. Exit code 1 if that is above the certified one."""
    found = _follow(recipe, Audit(unit, view, canaries, rounds, kind, bits, confidence, seed))
    place = out or (recipe if recipe.is_dir() else Path("audits") / recipe.stem) / f"audit-{found.unit}-{found.view}"
    write(found, place)
    print(json.dumps(tell(found))) if json_ else _show(found, place)
    for line in found.failed:
        print(f"FAILED: {line}", file=sys.stderr)
    if found.failed:
        raise typer.Exit(1)


def _follow(path: Path, asked: Audit) -> Findings:
    """The rounds as they come, then the findings."""
    console = Console(file=sys.stderr)
    with closing(conduct(recipe_of(path), asked)) as events:
        first = next(events)
        shown = track(range(1, first[1]), "rounds", console=console, disable=not console.is_terminal)
        for _ in shown:
            next(events)
        return next(events)


def _show(found: Findings, place: Path) -> None:
    facts, refuted = found.facts, found.refuted
    table = Table(title=f"{facts['method']} · {facts['model']} · {facts['data']} · {facts['rounds']} rounds", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("audited", f"ε ≥ {refuted.epsilon:.4g}, δ = {refuted.delta:g} (unit {found.unit}, view {found.view}; confidence {refuted.confidence:g})")
    carried = "" if refuted.bits == 1 else f", each a message of {refuted.bits} bits"
    table.add_row("guesses", f"{refuted.right} right of {refuted.guesses}, about {refuted.canaries} canaries ({facts['kind']}){carried}")
    table.add_row("certified", guarantee(experiment.guarantee(found.certified)))
    table.add_row("claimed", guarantee(experiment.guarantee(found.claimed)))
    table.add_row("noise", f"{min(found.noise.values()):.4f} to {max(found.noise.values()):.4f} of what was charged, by layer" if found.noise else "none")
    table.add_row("alike", f"{found.alike[0]:.1f} standard deviations, the noise of the two releases most alike; chance ends at {found.alike[1]:.1f}")
    table.add_row("folder", str(place))
    Console().print(table)
