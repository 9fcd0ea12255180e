"""Pictures of what was found: images in rows, curves on logarithmic axes; SVG files that need nothing else."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from math import log10
from struct import pack
from zlib import compress, crc32

import torch
from torch import Tensor
from torch.nn import functional as F

from ladp.report.markup import Markup, tag

BLUE, ORANGE, RED, INK, FAINT = "#2b6cb0", "#c05621", "#c53030", "#1a202c", "#e2e8f0"
LINES = (BLUE, ORANGE, "#2f855a", "#6b46c1", "#975a16", "#4a5568")
CELL, NAME, TOP = 36, 120, 40
SIDE, LEFT, RIGHT, DECADES = 300, 60, 190, 4


def png(image: Tensor) -> bytes:
    """A PNG file of one image, bytes [C, H, W], grey or colour."""
    channels, height, width = image.shape
    lines = image.permute(1, 2, 0).reshape(height, width * channels).contiguous().cpu().numpy()
    raw = b"".join(b"\0" + line.tobytes() for line in lines)
    head = pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in ((b"IHDR", head), (b"IDAT", compress(raw, 9)), (b"IEND", b"")))


def shown(images: Tensor) -> Tensor:
    """Images in [-1, 1] as bytes."""
    return ((images.detach().float().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu()


def sheet(title: str, rows: Mapping[str, Tensor], marked: Sequence[str] = (), note: str = "") -> str:
    """Rows of images, each bytes [n, C, H, W], with their names; marked rows have theirs in red."""
    most = max(len(images) for images in rows.values())
    width, height = max(NAME + CELL * most + 12, 460), TOP + CELL * len(rows) + 30
    body = [part for place, (name, images) in enumerate(rows.items()) for part in _row(TOP + CELL * place, name, images, name in marked)]
    return _picture(width, height, title, [*body, tag("text", note, x=12, y=height - 10, fill="#4a5568")])


def _row(y: int, name: str, images: Tensor, marked: bool) -> list[Markup]:
    strip = torch.cat([*F.pad(images.cpu(), (0, 1, 0, 1), value=255)], 2)
    side = tag("text", name, x=12, y=y + CELL / 2 + 4, fill=RED if marked else INK, font_weight=600 if marked else None)
    source = "data:image/png;base64," + b64encode(png(strip)).decode()
    return [side, tag("image", x=NAME, y=y, width=CELL * len(images), height=CELL - 2, href=source, preserveAspectRatio="none", style="image-rendering:pixelated")]


def roc(title: str, curves: Mapping[str, Sequence[tuple[float, float]]], note: str = "") -> str:
    """True over false positive rates from 1e-4 to 1, both logarithmic; guessing is the grey diagonal."""
    floor = SIDE + TOP
    grid = [part for power in range(DECADES + 1) for part in _mark(power, floor)]
    chance = tag("line", x1=LEFT, y1=floor, x2=LEFT + SIDE, y2=TOP, stroke="#a0aec0", stroke_dasharray="4 3")
    lines = [part for place, (name, points) in enumerate(curves.items()) for part in _curve(name, points, place, floor)]
    axes = [tag("text", "false positive rate", x=LEFT + SIDE / 2, y=floor + 36, text_anchor="middle"),
            tag("text", "true positive rate", transform=f"translate(16 {TOP + SIDE / 2}) rotate(-90)", text_anchor="middle")]  # fmt: skip
    words = [tag("text", note, x=12, y=floor + 56, fill="#4a5568")]
    return _picture(LEFT + SIDE + RIGHT, floor + 66, title, [*grid, chance, *lines, *axes, *words])


def course(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], last: int, note: str = "") -> str:
    """Shares from 0 to 1 over the rounds up to the last."""
    floor = SIDE + TOP
    grid = [part for share in (0, 0.25, 0.5, 0.75, 1) for part in (
        tag("line", x1=LEFT, x2=LEFT + SIDE, y1=floor - SIDE * share, y2=floor - SIDE * share, stroke=FAINT),
        tag("text", f"{share:g}", x=LEFT - 6, y=floor - SIDE * share + 4, text_anchor="end"))]  # fmt: skip
    places = {name: [(LEFT + SIDE * x / last, floor - SIDE * y) for x, y in points] for name, points in lines.items()}
    drawn = [part for place, (name, points) in enumerate(places.items()) for part in _line(name, points, place)]
    axes = [tag("text", f"round, up to {last}", x=LEFT + SIDE / 2, y=floor + 20, text_anchor="middle")]
    words = [tag("text", note, x=12, y=floor + 44, fill="#4a5568")]
    return _picture(LEFT + SIDE + RIGHT, floor + 56, title, [*grid, *drawn, *axes, *words])


def _mark(power: int, floor: int) -> list[Markup]:
    at, word = SIDE * power / DECADES, f"{10 ** (power - DECADES):g}"
    return [tag("line", x1=LEFT, x2=LEFT + SIDE, y1=floor - at, y2=floor - at, stroke=FAINT), tag("line", x1=LEFT + at, x2=LEFT + at, y1=TOP, y2=floor, stroke=FAINT),
            tag("text", word, x=LEFT - 6, y=floor - at + 4, text_anchor="end"), tag("text", word, x=LEFT + at, y=floor + 16, text_anchor="middle")]  # fmt: skip


def _curve(name: str, points: Sequence[tuple[float, float]], place: int, floor: int) -> list[Markup]:
    return _line(name, [(LEFT + _along(x), floor - _along(y)) for x, y in points], place)


def _line(name: str, points: Sequence[tuple[float, float]], place: int) -> list[Markup]:
    """A line through points of the picture, with its key; a single point is a dot."""
    colour, key = LINES[place % len(LINES)], TOP + 14 + 18 * place
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dots = [tag("circle", cx=x, cy=y, r=3, fill=colour) for x, y in points[:1] if len(points) == 1]
    return [*dots, tag("path", d=path, fill="none", stroke=colour, stroke_width=2),
            tag("line", x1=LEFT + SIDE + 12, x2=LEFT + SIDE + 32, y1=key, y2=key, stroke=colour, stroke_width=2), tag("text", name, x=LEFT + SIDE + 38, y=key + 4)]  # fmt: skip


def _along(rate: float) -> float:
    """Where a rate lies on an axis; what is under 1e-4 lies at its end."""
    return SIDE * (max(log10(max(rate, 10.0**-DECADES)), -DECADES) + DECADES) / DECADES


def _picture(width: float, height: float, title: str, body: Sequence[Markup]) -> str:
    back = tag("rect", width=width, height=height, fill="#ffffff")
    head = tag("text", title, x=12, y=22, font_size=15, font_weight=600)
    frame = tag("svg", tag("title", title), back, head, *body, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:g} {height:g}", width=width, height=height,
                font_family="system-ui, sans-serif", font_size=11, fill=INK, role="img")  # fmt: skip
    return f"{frame}\n"


def _chunk(name: bytes, content: bytes) -> bytes:
    return pack(">I", len(content)) + name + content + pack(">I", crc32(name + content))
