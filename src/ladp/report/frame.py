"""What pictures with a row for every layer share: the names beside the rows, and the frame."""

from collections.abc import Iterable, Sequence

from ladp.report.markup import Markup, tag

WIDTH, LETTER, LONGEST = 480, 7.0, 24


def margin(layers: Iterable[str]) -> float:
    """Room for the longest name."""
    return 12 + LETTER * max((min(len(name), LONGEST) for name in layers), default=0)


def pitch(count: int) -> int:
    """Height of a row: thinner the more layers there are."""
    return 20 if count <= 24 else 13 if count <= 48 else 8


def names(layers: Sequence[str], left: float, row: int, top: int) -> Markup:
    """Layer names, long ones shortened in the middle, every second or third where rows are thin."""
    step = -(-13 // row)
    return tag("g", *(tag("text", _short(name), x=left - 8, y=top + place * row + row / 2 + 3, class_="tick end")
                      for place, name in enumerate(layers) if place % step == 0))


def _short(name: str) -> str:
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[:half - 1]}…{name[-half:]}"


def frame(kind: str, title: str, text: str, body: Sequence[Markup], height: float, **data: str) -> Markup:
    """The picture with its title and description."""
    return tag("svg", tag("title", title), tag("desc", text), *body, class_=f"chart {kind}", role="img",
               xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", **data)
