"""A partition as a picture: clients down, labels across, a disc for how many records; one SVG file that needs nothing else."""

from html import escape

import numpy as np

from ladp.data.split import Split

CELL, LEFT, TOP, BAR = 22, 74, 84, 120
BLUE, ORANGE, INK, FAINT = "#2b6cb0", "#c05621", "#1a202c", "#e2e8f0"


def draw(counts: np.ndarray, clients: list[int], classes: tuple[str, ...], title: str, curious: int | None = None) -> str:
    """SVG of counts [client, class]: the area of a disc is proportional to the records, the bar at the right to the client's size."""
    width, height = max(420, LEFT + CELL * len(classes) + BAR + 60), TOP + CELL * len(clients) + 34
    rows = [row(counts[i], i, client, counts, client == curious) for i, client in enumerate(clients)]
    note = f"largest disc: {counts.max()} records; bars: client sizes"
    note += f"; orange: curious client {curious}" if curious is not None else ""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="11" fill="{INK}" role="img" aria-label="{escape(title)}">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            text(12, 22, title, 'font-size="15" font-weight="600"'),
            *(heading(j, name) for j, name in enumerate(classes)),
            *rows,
            text(12, height - 12, note, 'fill="#4a5568"'),
            "</svg>\n",
        ]
    )


def text(x: float, y: float, words: str, style: str = "") -> str:
    """One line of text."""
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def heading(j: int, name: str) -> str:
    """A label's name, slanted so that long ones fit."""
    x = LEFT + CELL * j + CELL / 2
    return text(x, TOP - 8, name[:12], f'transform="rotate(-40 {x} {TOP - 8})"')


def row(own: np.ndarray, i: int, client: int, counts: np.ndarray, is_curious: bool) -> str:
    """One client: its name, a disc a label, a bar for its size."""
    y, colour = TOP + CELL * i + CELL / 2, ORANGE if is_curious else BLUE
    discs = (disc(LEFT + CELL * j + CELL / 2, y, count, counts.max(), colour) for j, count in enumerate(own))
    right, length = LEFT + CELL * len(own) + 8, BAR * own.sum() / max(1, counts.sum(1).max())
    bar = f'<rect x="{right}" y="{y - 5}" width="{length:.1f}" height="10" fill="{colour}" fill-opacity=".55"/>'
    line = f'<line x1="{LEFT}" x2="{right - 8}" y1="{y}" y2="{y}" stroke="{FAINT}"/>'
    size = text(round(right + length + 5, 1), y + 4, f"{own.sum()}")
    return "\n".join([line, text(12, y + 4, f"client {client}", f'fill="{colour}"'), *discs, bar, size])


def disc(x: float, y: float, count: int, most: int, colour: str) -> str:
    """A disc whose area is proportional to the count, nothing for no records; the tooltip says the number."""
    if not count:
        return ""
    radius = max(1.2, (CELL / 2 - 1) * (count / most) ** 0.5)
    return f'<circle cx="{x}" cy="{y}" r="{radius:.2f}" fill="{colour}"><title>{count}</title></circle>'


def tally_clients(split: Split, labels: np.ndarray, clients: list[int], classes: int) -> np.ndarray:
    """Records [client, class] of the clients asked for; only these are drawn."""
    return np.stack([np.bincount(labels[split.indices(client)], minlength=classes) for client in clients])


def chosen(clients: int, shown: int, curious: int | None) -> list[int]:
    """The first `shown` clients, the last of them replaced by the curious one if it is not among them."""
    first = list(range(min(clients, max(1, shown))))
    return first if curious is None or curious in first else [*first[:-1], curious]
