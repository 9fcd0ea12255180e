"""The page: one HTML file that holds all it needs and fetches nothing."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from ladp.errors import Problem
from ladp.report import number
from ladp.report.alike import alike
from ladp.report.attacks import attacks
from ladp.report.configuration import Configuration, gather
from ladp.report.figures import curves, noise, selection
from ladp.report.markup import Markup, tag
from ladp.report.proof import proof, provenance
from ladp.report.summary import summary


def write(paths: Iterable[Path | str], out: Path | str, title: str | None = None) -> Path:
    """The report on all runs under `paths`, written whole or not at all; the same runs give the same bytes."""
    out = Path(out)
    return put(out, page(gather(paths), out, title))


def put(out: Path, text: str) -> Path:
    """A text file written beside its place first, so that nothing half-written is ever there."""
    part = out.with_name(f"{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(text.encode("utf-8", "replace"))
        part.replace(out)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise Problem(f"cannot write {out}: {error.strerror}; choose another place with --out") from error
    return out


def page(configurations: Sequence[Configuration], out: Path, title: str | None = None) -> str:
    """The whole document; folders are named relative to the place of `out`."""
    title = title or default_title(configurations)
    sections = [_header(configurations, title), summary(configurations), alike(configurations), curves(configurations), noise(configurations),
                selection(configurations), attacks(configurations), proof(configurations), provenance(configurations, out.resolve().parent)]
    script = Markup(asset("page.js"))
    body = tag("body", tag("main", *sections), tag("div", id="tip", role="status", hidden="hidden"), tag("script", script))
    return f"<!doctype html>\n{tag('html', _head(title, script), body, lang='en')}\n"


def asset(name: str) -> str:
    """A style sheet or script that travels with the package."""
    return files("ladp.report").joinpath(name).read_text("utf-8")


def default_title(configurations: Sequence[Configuration]) -> str:
    """Model and data, which is what runs in one report mostly share."""
    return f"{said(configurations, 'model')} on {said(configurations, 'data')}"


def said(configurations: Sequence[Configuration], key: str) -> str:
    """Every value of a fact that occurs, in words."""
    values = (run.facts.get(key) for one in configurations for run in one.runs)
    words = list(dict.fromkeys(str(value) for value in values if value is not None))
    return number.listed(words) or "unnamed"


def _head(title: str, script: str) -> Markup:
    """The policy lets the page run its own script, by digest, and load nothing."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    return tag("head", tag("meta", charset="utf-8"),
               tag("meta", http_equiv="Content-Security-Policy", content=policy),
               tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
               tag("meta", name="color-scheme", content="light dark"),
               tag("title", title), tag("style", Markup(asset("page.css"))))


def _header(configurations: Sequence[Configuration], title: str) -> Markup:
    """One sentence: what was run."""
    runs = sum(len(one.runs) for one in configurations)
    seeds = sorted({run.facts["seed"] for one in configurations for run in one.runs})
    facts = {key: said(configurations, key) for key in ("clients", "active", "rounds", "device", "version", "model")}
    sentence = (f"{facts['model']} trained on {said(configurations, 'data')} over {facts['clients']} clients, "
                f"{facts['active']} of them active in each of {facts['rounds']} rounds: "
                f"{_count(runs, 'run')} in {_count(len(configurations), 'configuration')}, "
                f"{'seed' if len(seeds) == 1 else 'seeds'} {number.listed([str(seed) for seed in seeds])}, "
                f"on {facts['device']}, by ladp {facts['version']}.")
    return tag("header", tag("p", "Federated learning with local, layer-wise noise", class_="kicker"),
               tag("h1", title), tag("p", sentence, class_="lead"))


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
