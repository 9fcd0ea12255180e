"""The pages are true: their programs run, their commands work, their links and references lead somewhere, their tables say what the code says."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

from ladp.cli import app
from ladp.mechanisms import METHODS, LaDP
from ladp.mechanisms.gaussian import FORMS
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Training
from ladp.recipe import PRESETS, TABLES, Recipe
from ladp.server import Server

HOME, CARRIER = Path(__file__).parents[2], Path(__file__).with_name("carry_out.py")
PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]
ELSEWHERE = re.compile(r"make |pip |data get|cifar|femnist|results/|tables metrics")  # needs a network, files from elsewhere or minutes
SHORTER = [(re.compile(r"(rounds=|--rounds )\d+"), r"\g<1>2")]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.S | re.M)


def shorter(text: str) -> str:
    for pattern, instead in SHORTER:
        text = pattern.sub(instead, text)
    return text


def programs(page: Path, folder: Path) -> list[str]:
    """The Python blocks in order; one that begins with `# name.py` is put into that file instead."""
    found = []
    for block in blocks(page, "python"):
        if name := re.match(r"# (\w+\.py)\n", block):
            (folder / name[1]).write_text(block)
        else:
            found.append(shorter(block))
    return found


def commands(page: Path) -> list[str]:
    lines = [line.removeprefix("$ ") for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [shorter(line) for line in lines if not ELSEWHERE.search(line)]


def table(page: str, head: str) -> list[list[str]]:
    """The cells of the table whose first heading is `head`, code marks taken off."""
    lines = (HOME / page).read_text().split(f"| {head} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory) -> Iterator[dict[Path, Future[list[str]]]]:
    """What was run of each page; two pages at a time, since most of it is waiting for torch to load."""
    with ThreadPoolExecutor(2) as pool:
        yield {page: pool.submit(carry_out, page, tmp_path_factory.mktemp(page.stem)) for page in PAGES}


def carry_out(page: Path, folder: Path) -> list[str]:
    """Programs first: what a page defines, its commands may use."""
    found, lines, own = programs(page, folder), commands(page), {**os.environ, "LADP_CACHE": str(folder / "cache")}
    with (folder / "output.txt").open("w") as output:
        done = subprocess.run([sys.executable, CARRIER, "\n".join(found), *lines], cwd=folder, stdout=output, stderr=subprocess.PIPE, text=True, env=own)
    assert done.returncode == 0, done.stderr
    return [*found, *lines]


@every_page
def test_every_program_and_every_command_of_a_page_runs(page, carried_out):
    ran = carried_out[page].result()
    assert ran


@every_page
def test_links_lead_to_a_file_and_to_a_heading_in_it(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert "://" in target or file.is_file(), target
        if heading:
            anchors = {re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in file.read_text().splitlines() if line.startswith("#")}
            assert heading in anchors, target


@every_page
def test_a_reference_names_something_that_exists(page):
    for module, path in re.findall(r"`(ladp(?:\.\w+)+):([\w.]+)`", page.read_text()):
        thing = import_module(module)
        for part in path.split("."):
            held = {f.name for f in fields(thing)} if hasattr(thing, "__dataclass_fields__") else set()
            assert hasattr(thing, part) or part in held, f"{module}:{path}"
            thing = getattr(thing, part, None)


@every_page
def test_a_file_that_a_page_names_is_there(page):
    for name in re.findall(r"`((?:src|tests|docs|benchmarks)/[a-z_./-]+\.\w+)`", page.read_text()):
        assert (HOME / name).is_file(), name


def test_every_room_is_told_of_and_no_other():
    rooms = {path.name.removesuffix(".py") for path in (HOME / "src/ladp").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for row in table("docs/architecture.md", "room") for name in row[0].split()} == rooms - {"__init__"}


def test_every_line_of_every_algorithm_and_every_equation_has_its_row():
    text = (HOME / "docs/paper.md").read_text()
    for title, last in {"Algorithm 1, the server": 9, "Algorithm 2, the client": 17, "Algorithm 3, privacy estimation": 5, "Algorithm 4, noise injection": 3}.items():
        part = text.split(f"**{title}**")[1].split("\n\n")[1]
        assert numbered(part) == list(range(1, last + 1)), title
    assert numbered(text.split("| equation |")[1].split("\n\n")[0]) == list(range(1, 24))


def numbered(rows: str) -> list[int]:
    found = []
    for first in re.findall(r"^\| (\d[\d, to]*) \|", rows, re.M):
        for part in first.split(", "):
            low, _, high = part.partition(" to ")
            found += range(int(low), int(high or low) + 1)
    return sorted(found)


def test_every_option_is_listed_with_its_default():
    rows = ((option.split(", "), default.split(", ")) for option, default, *_ in table("docs/runs.md", "option"))
    listed = {option: default for row in rows for option, default in zip(*row, strict=True)}
    tables = [("run", Recipe), ("training", Training), ("budget", Budget), ("server", Server), *(("method", kind) for kind in METHODS.values())]
    held = [(f"{title}.{f.name}", kind, f.default) for title, kind in tables for f in fields(kind) if f.default is not MISSING and f.name not in TABLES]
    of_ladp = {option for option, kind, _ in held if kind is LaDP}  # the method that is the default: its defaults count
    known = {option: [default for name, kind, default in held if name == option and (kind is LaDP or option not in of_ladp)] for option, *_ in held}
    known |= {"run.model": [""], "method.name": ["ladp"], "partition.name": ["isolation"]}
    said = lambda defaults: " or ".join(dict.fromkeys("" if default is None else json.dumps(default) for default in defaults))
    assert {option: said(defaults) for option, defaults in known.items()} == listed


def test_every_method_in_every_form_has_its_row_and_what_peeks_is_said():
    rows = [(row[0], row[1], row[6]) for row in table("docs/methods.md", "method")]
    forms = {name: FORMS if "form" in {f.name for f in fields(kind)} else ("",) for name, kind in METHODS.items()}
    assert [row[:2] for row in rows] == [(name, form) for name in forms for form in forms[name]]
    for name, form, peeks in rows:
        method = METHODS[name](**({"form": form} if form else {}))
        assert peeks == ("with beta > 0" if name == "sensitive" else "yes" if method.peeks else "no"), name


def test_every_flag_of_run_is_listed():
    page = (HOME / "docs/runs.md").read_text()
    flags = [flag for option in get_command(app).commands["run"].params for flag in (*option.opts, *option.secondary_opts)]
    assert len(flags) > 25 and not [flag for flag in flags if f"`{flag}" not in page]


def test_the_presets_are_those_of_the_recipe():
    for place, preset in ((1, "as-run"), (2, "as-printed")):
        told = {option: json.loads(row[place]) for row in table("docs/paper.md", "setting") if row[place] for option in row[0].split(", ")}
        held = {f"{title}.{name}": value for title, options in PRESETS[preset].items() for name, value in options.items()}
        assert told == held


def test_the_files_and_fields_of_a_run_folder_are_those_listed(recipe, tmp_path):
    from ladp import experiment, folder

    experiment.run(recipe, tmp_path / "run")
    listed = {row[0] for row in table("docs/runs.md", "file")}
    assert {path.name for path in (tmp_path / "run").iterdir()} == {name for name in listed if name != folder.METHOD and not name.startswith(folder.LEDGER)}
    named = {name for row in table("docs/runs.md", "field of a round") for name in row[0].split(", ")}
    assert named == set(json.loads((tmp_path / "run" / folder.ROUNDS).read_text().splitlines()[0]))
