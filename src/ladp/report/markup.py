"""HTML and SVG elements that escape whatever they are given."""

from html import escape

VOID = {"br", "circle", "image", "img", "line", "meta", "path", "rect"}


class Markup(str):
    """Text that is already markup; every other string is escaped when it becomes content."""


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """One element; `class_` becomes class and `data_tip` becomes data-tip; attributes that are None are left out."""
    pairs = "".join(f' {_spelled(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{pairs}/>")
    return Markup(f"<{name}{pairs}>{join(*content)}</{name}>")


def join(*content: object) -> Markup:
    """Pieces side by side: markup as it is, all else escaped, None skipped."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(str(piece)) for piece in content
                          if piece is not None))


def _spelled(key: str) -> str:
    return key if key in ("viewBox", "preserveAspectRatio") else key.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))
