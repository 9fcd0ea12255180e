"""The headline table as Markdown, CSV and LaTeX."""

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from ladp.report import number
from ladp.report.headline import terms
from ladp.report.number import Spread

HEADINGS = ("method", "claimed ε", "accumulated claimed ε", "certified ε", "accuracy, %", "loss",
            "noise scale", "seconds", "runs")
LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "∞": r"$\infty$", "ε": r"$\varepsilon$",
         "×": r"$\times$", "−": "$-$", "–": "--", "≥": r"$\geq$", "≤": r"$\leq$", "·": r"$\cdot$", "…": r"\dots{}",
         "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
         "\n": " "} | {sign: f"\\{sign}" for sign in "&%$#_{}"}
LATEX |= {raised: f"$^{{{plain}}}$" for raised, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True)}


def cells(row: dict) -> list[str]:
    """The row as printed under HEADINGS."""
    measured = [number.ranged(_spread(row, key), form) for key, form in MEASURED.items()]
    count = f"{row['count']}" if row["finished"] else f"{row['count']} unfinished"
    spent = number.ranged(_spread(row, "accumulated_epsilon"))
    return [row["label"], number.exact(row["claimed_epsilon"]), spent, number.exact(row["certified_epsilon"]),
            *measured, count]


def notes(rows: Sequence[dict]) -> list[str]:
    """What each ε means, why certified ones are infinite, which runs are not whole; rows alike are told together."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for note in (_claim(row), _proof(row), *row["remarks"]):
            if note:
                said.setdefault(note, []).append(row["label"])
    return [*(f"{number.listed(labels)}: {note}." for note, labels in said.items()), *_caution(rows)]


def markdown(rows: Sequence[dict]) -> str:
    """A pipe table with its notes beneath."""
    return piped(HEADINGS, map(cells, rows), notes(rows))


def piped(headings: Sequence[str], lines: Iterable[Sequence[str]], said: Iterable[str] = (), names: int = 1) -> str:
    """A pipe table, its first `names` columns words and the others numbers, and what is said beneath it."""
    rule = ["---"] * names + ["---:"] * (len(headings) - names)
    body = [f"| {' | '.join(map(_pipe, line))} |" for line in (headings, rule, *lines)]
    return "\n".join([*body, "", *(f"- {_pipe(note)}" for note in said)]) + "\n"


def comma(rows: Sequence[dict]) -> str:
    """Every value in full, one column each; lists joined by semicolons."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "; ".join(map(str, value)) if isinstance(value, list) else value
                      for key, value in row.items()} for row in rows)
    return out.getvalue()


def latex(rows: Sequence[dict]) -> str:
    """A tabular with plain rules, which no package is needed for, and its notes beneath."""
    return tabular(HEADINGS, map(cells, rows), notes(rows))


def tabular(headings: Sequence[str], lines: Iterable[Sequence[str]], said: Iterable[str] = (), names: int = 1) -> str:
    """A tabular, its first `names` columns words and the others numbers, and what is said beneath it."""
    head, *body = [" & ".join(map(_tex, line)) + r" \\" for line in (headings, *lines)]
    rows = [rf"\begin{{tabular}}{{{'l' * names}{'r' * (len(headings) - names)}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join([*rows, "", *(rf"\par\noindent {_tex(note)}" for note in said)]) + "\n"


FORMATS: dict[str, Callable[[Sequence[dict]], str]] = {"markdown": markdown, "csv": comma, "latex": latex}
MEASURED = {"accuracy": number.percent, "loss": number.short, "noise_scale": number.short, "seconds": number.short}


def _spread(row: dict, key: str) -> Spread:
    return Spread(row[key], row[f"{key}_deviation"], row["count"])


def _claim(row: dict) -> str | None:
    if row["claimed_epsilon"] is None:
        return None
    said, delta = f"ε is claimed {terms(row, 'claimed')}", row["accumulated_delta"]
    return said if delta is None else f"{said}; the paper's q·T·ε of the client drawn most has δ {number.short(delta)}"


def _proof(row: dict) -> str:
    known = terms(row, "certified")
    if row["certified_epsilon"] == "inf":
        return f"no finite ε is certified {known}, because {'; '.join(row['reasons'])}"
    return f"ε is certified {known}" + (f": {'; '.join(row['reasons'])}" if row["reasons"] else "")


def _caution(rows: Sequence[dict]) -> list[str]:
    """Two claims that nothing stands behind invite a comparison that they do not allow."""
    bare = [row for row in rows if row["claimed_epsilon"] is not None and row["certified_epsilon"] == "inf"]
    return ["Equal claimed ε is not equal protection where none is certified: compare the noise scale too."] * (len(bare) > 1)


def _pipe(cell: str) -> str:
    return cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _tex(cell: str) -> str:
    return "".join(LATEX.get(sign) or _greek(sign) for sign in cell)


def _greek(sign: str) -> str:
    """Greek letters by their names, which is how LaTeX calls them; other signs as they are."""
    kind, _, letter = unicodedata.name(sign, "").partition(" LETTER ")
    name = {"GREEK SMALL": letter.lower(), "GREEK CAPITAL": letter.capitalize()}.get(kind, "").replace("amda", "ambda")
    return rf"$\{name}$" if name.isalpha() else sign
