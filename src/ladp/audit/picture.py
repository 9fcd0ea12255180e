"""The scores of canaries with one coin and with the other, as a histogram."""

from collections.abc import Sequence

from ladp.report.markup import Markup, join, tag

WIDTH, HEIGHT, TOP, BOTTOM, LEFT, BINS = 640, 320, 44, 270, 30, 48
COLOURS, FONT = ("#6b7a8f", "#c2410c"), "ui-sans-serif, system-ui, sans-serif"


def histogram(title: str, names: Sequence[str], groups: Sequence[Sequence[float]]) -> Markup:
    """Two groups of scores over one scale, one above the other's colour."""
    scores = sorted(score for group in groups for score in group)
    low, high = scores[0], scores[-1]
    width = (high - low) / BINS or 1.0
    counts = [[sum(1 for score in group if min(BINS - 1, int((score - low) / width)) == b) for b in range(BINS)] for group in groups]
    most = max(max(group) for group in counts)
    bars = [_bars(group, most, colour) for group, colour in zip(counts, COLOURS, strict=True)]
    words = [_word(name, LEFT + 250 * n, TOP - 12, COLOURS[n]) for n, name in enumerate(names)]
    places = ((f"{low:.3g}", LEFT, 18, "start"), (f"{high:.3g}", WIDTH - LEFT, 18, "end"), ("score: log-likelihood ratio of the coin", WIDTH / 2, 36, "middle"))
    ends = [_word(text, x, BOTTOM + below, anchor=anchor) for text, x, below, anchor in places]
    axis = tag("line", x1=LEFT, x2=WIDTH - LEFT, y1=BOTTOM, y2=BOTTOM, stroke="#333333")
    body = join(tag("title", title), tag("rect", width=WIDTH, height=HEIGHT, fill="#ffffff"), _word(title, LEFT, 18), *words, *bars, axis, *ends)
    return tag("svg", body, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH, height=HEIGHT, role="img")


def _bars(counts: Sequence[int], most: int, colour: str) -> Markup:
    step, tall = (WIDTH - 2 * LEFT) / BINS, (BOTTOM - TOP) / most
    bar = lambda b, n: tag("rect", x=LEFT + b * step, y=BOTTOM - n * tall, width=step - 1, height=n * tall, fill=colour, fill_opacity=0.6)  # noqa: E731
    return join(*(bar(b, n) for b, n in enumerate(counts) if n))


def _word(text: str, x: float, y: float, colour: str = "#333333", anchor: str = "start") -> Markup:
    return tag("text", text, x=float(x), y=float(y), fill=colour, font_family=FONT, font_size=12, text_anchor=anchor)
