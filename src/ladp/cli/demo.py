"""`ladp demo`: the main job on the embedded digits, with a table and a report."""

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from ladp.cli.report import show
from ladp.report import rows, write
from ladp.studies import demo as study


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder of the runs and of report.html.")] = Path("demo"),
    json_: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Run none, full and ladp on the embedded digits (15 short runs), attack three of them, print the table and write the report."""
    progress = Console(file=sys.stderr)
    for _ in track(chain(study.play(out), study.attack(out)), "runs", total=len(study.recipes()) + len(study.ATTACKED), console=progress, disable=not progress.is_terminal):
        pass
    page = write([out], out / "report.html", title="What local noise costs on the handwritten digits")
    if json_:
        print(json.dumps({"report": str(page), "rows": rows([out])}))
        return
    show([out])
    print(f"report: {page}")
