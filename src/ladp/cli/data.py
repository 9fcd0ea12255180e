"""ladp data: fetch, check and look at data sets."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from ladp import data
from ladp.data import partition as partitions
from ladp.data import picture
from ladp.data.fetch import fetch
from ladp.errors import Problem, choose
from ladp.keys import Key

app = typer.Typer(help="Fetch, check and look at data sets.", no_args_is_help=True)

Split = partitions.Split

Name = Annotated[str, typer.Argument(help=f"Data set: {', '.join(data.DATA)}.")]
Root = Annotated[Path | None, typer.Option("--root", help="Folder of the files.", show_default="$LADP_DATA or ~/.cache/ladp")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]


@app.command()
def get(name: Name, root: Root = None, as_json: Json = False) -> None:
    """Fetch a data set from its publisher: resumes, checks the digest."""
    source = data.DATA[choose("data set", name, data.DATA)]
    if source.archive is not None and not is_complete(name, root):
        download(name, data.directory(root))
    check(name, root, as_json)


def is_complete(name: str, root: Path | None) -> bool:
    """Whether a good copy is there already, in whatever form."""
    try:
        return bool(data.read(name, root))
    except Problem:
        return False


def download(name: str, folder: Path) -> None:
    """Fetch the archive of a data set with a progress bar on standard error."""
    source = data.DATA[name]
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(source.archive.file, total=None)
        fetch(source.archive, folder, source.by_hand(folder), lambda done, total: progress.update(task, completed=done, total=total))


@app.command()
def check(name: Name, root: Root = None, as_json: Json = False) -> None:
    """Verify the files of a data set: digests, sizes, labels."""
    folder = data.directory(root)
    try:
        reading = data.read(name, root)
    except Problem as problem:
        if as_json:
            print(json.dumps({"name": name, "root": str(folder), "ok": False, "problem": str(problem)}))
        raise
    held = reading.dataset
    found = {"name": name, "root": str(folder), "ok": True, "train": len(held.labels), "test": len(held.test_labels)}
    found |= {"classes": len(held.classes), "layout": reading.layout, "digests": reading.digests}
    line = "{name}: ok, {train:,} training and {test:,} test images, {classes} classes, {layout}"
    print(json.dumps(found) if as_json else line.format(**found))


@app.command()
def show(
    name: Name,
    root: Root = None,
    partition: Annotated[str, typer.Option(help=f"One of {', '.join(partitions.PARTITIONS)}.")] = "isolation",
    set_: Annotated[list[str], typer.Option("--set", metavar="OPTION=VALUE", help="An option of the partition, e.g. alpha=0.1.")] = [],
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the partition.")] = 0,
    shown: Annotated[int, typer.Option("--show-clients", help="How many clients to draw.")] = 20,
    out: Annotated[Path | None, typer.Option(help="SVG file.", show_default="NAME-PARTITION.svg")] = None,
    as_json: Json = False,
) -> None:
    """Draw a partition: labels a client, as an SVG picture and a table."""
    held = data.load(name, root)
    split = partitions.create(partition, **options(set_)).split(held.labels.numpy(), clients, Key(seed), held.writers)
    rows = picture.chosen(clients, shown, split.curious)
    counts = picture.tally_clients(split, held.labels.numpy(), rows, len(held.classes))
    file = out or Path(f"{name}-{partition}.svg")
    write(file, picture.draw(counts, rows, held.classes, f"{name}, {partition}, {clients} clients", split.curious))
    if as_json:
        print(json.dumps(summary(name, partition, seed, split, rows, counts, file)))
    else:
        Console().print(table(rows, counts, held.classes, split.curious), f"{sizes(split)}; picture: {file}", sep="\n", soft_wrap=True)


def options(pairs: list[str]) -> dict[str, int | float]:
    """OPTION=VALUE pairs with their numbers."""
    try:
        split = [pair.split("=", 1) for pair in pairs]
        return {key: int(value) if value.lstrip("+-").isdecimal() else float(value) for key, value in split}
    except ValueError as error:
        raise Problem(f"--set needs OPTION=NUMBER such as alpha=0.1, got {' '.join(pairs)!r}") from error


def write(file: Path, content: str) -> None:
    """The picture on disk, or one line that says why not."""
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise Problem(f"cannot write {file}: {error.strerror}; choose another file with --out") from error


def summary(name: str, partition: str, seed: int, split: Split, rows: list[int], counts: np.ndarray, file: Path) -> dict[str, object]:
    """What `show --json` prints."""
    clients = [{"client": row, "size": int(own.sum()), "labels": own.tolist()} for row, own in zip(rows, counts)]
    held = split.sizes()
    spread = {"least": int(held.min()), "median": float(np.median(held)), "most": int(held.max()), "sum": int(held.sum())}
    named = {"name": name, "partition": partition, "seed": seed, "clients": len(split), "curious": split.curious}
    return {**named, "sizes": spread, "shown": clients, "picture": str(file)}


def sizes(split: Split) -> str:
    """The spread of client sizes in one line."""
    held = split.sizes()
    return f"{len(split):,} clients, {held.min()} to {held.max()} records each (median {np.median(held):g})"


def table(rows: list[int], counts: np.ndarray, classes: tuple[str, ...], curious: int | None) -> Table:
    """Labels a client for the terminal: numbers up to 12 classes, otherwise how many labels it has."""
    few = len(classes) <= 12
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("client", "size", "labels", *((name[:4] for name in classes) if few else ())):
        grid.add_column(heading, justify="right", no_wrap=True)
    for client, own in zip(rows, counts):
        cells = (str(count) if count else "·" for count in own) if few else ()
        grid.add_row(f"{client}{' *' if client == curious else ''}", str(own.sum()), str((own > 0).sum()), *cells)
    grid.caption = "* honest-but-curious" if curious is not None else None
    return grid
