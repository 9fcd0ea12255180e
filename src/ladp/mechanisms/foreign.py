"""Methods of the user's own: a class of a Python file, `file.py:Class`, or of the Python path, `package.module:Class`."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from re import fullmatch
from types import ModuleType
from typing import Any, NoReturn

from ladp.errors import Problem, choose
from ladp.privacy.mechanism import Mechanism

PREFIX = "ladp_method_"  # of modules made from files; the file's sha256 follows, so that one text is one class
TEXTS: dict[str, tuple[Path, bytes]] = {}  # what was read, by module
RESERVED = ("name", "source")  # what a recipe says of the class itself
HOW = "give it as file.py:Class, or as package.module:Class on the Python path"


def is_path(name: str) -> bool:
    """Whether a method's name says where its class is."""
    return ":" in name or "." in name


def load(name: str, source: str | None = None) -> type[Mechanism]:
    """The class that a path names; `source` is the sha256 that its file must have."""
    if name.endswith(".py"):
        raise Problem(f"method {name!r} is a file without a class: write {name}:Class")
    place, _, title = name.rpartition(":" if ":" in name else ".")
    module = _run(Path(place), source) if place.endswith(".py") else _import(name, place, source)
    kind = getattr(module, title, None)
    return _nearest(module, place, title) if kind is None else kind


def address(kind: type[Mechanism], file: str | None = None) -> dict[str, str]:
    """Where a class is found again, and the sha256 of its file: `name` and `source` of a recipe; `file` stands in for where its text came from."""
    path, text = TEXTS.get(kind.__module__, (None, None))
    if text is not None:
        return {"name": f"{file or path}:{kind.__qualname__}", "source": sha256(text).hexdigest()}
    module = sys.modules.get(kind.__module__)
    if getattr(module, kind.__qualname__, None) is not kind:
        raise Problem(f"method {kind.__qualname__!r} cannot be found again when the run goes on: define its class at the top of a file, outside of functions")
    source = _source(module)
    return {"name": f"{kind.__module__}:{kind.__qualname__}"} | ({"source": source} if source else {})


def text(kind: type[Mechanism]) -> bytes | None:
    """What the file of a class said when it was read; None for a class that is not from a file."""
    return TEXTS.get(kind.__module__, (None, None))[1]


def identity(table: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's [method] without where the file lies: its text and the class are what decides."""
    return {**table, "name": table["name"].rpartition(":")[2]} if "source" in table else dict(table)


def check(kind: object, name: str) -> None:
    """What a class must be to serve as a method: a Mechanism, whole, a frozen dataclass whose options a recipe can hold."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise Problem(f"method {name!r} is not a subclass of ladp.Mechanism: write class {getattr(kind, '__name__', 'Method')}(ladp.Mechanism)")
    if "__dataclass_params__" not in vars(kind) and (lost := [option for option, type_ in vars(kind).get("__annotations__", {}).items() if "ClassVar" not in str(type_)]):
        raise Problem(f"method {name!r} is not a dataclass, so {lost[0]!r} is no option: write @dataclass(frozen=True) above its class")
    if kind.__abstractmethods__:
        raise Problem(f"method {name!r} leaves out {', '.join(sorted(kind.__abstractmethods__))}: a method must have it")
    if not (isinstance(kind.name, str) and fullmatch(r"[\w.-]+", kind.name)):
        refuse_name(kind, name)
    for option in fields(kind):
        _check_option(option, name)


def refuse_name(kind: type[Mechanism], place: str) -> NoReturn:
    """Folders and reports call a method by its name."""
    raise Problem(f'method {place!r} cannot be called {kind.name!r}: it must be a word of its own; write name: ClassVar[str] = "{kind.__name__.lower()}-2"')


def _check_option(option: Field, name: str) -> None:
    if option.name in RESERVED:
        raise Problem(f"method {name!r} has an option {option.name!r}, which means something else in a recipe: write {option.name}: ClassVar[str], or call it otherwise")
    if callable(getattr(Mechanism, option.name, None)):
        raise Problem(f"option {option.name!r} of method {name!r} would hide what every method does under that name: call it otherwise")
    if not (option.default is None or isinstance(option.default, (int, float, str))):
        said = "has no default" if option.default is MISSING else f"is {option.default!r} by default"
        raise Problem(f"option {option.name!r} of method {name!r} {said}: it must have a number, True, False or text, or None, that a recipe can hold")


def _run(file: Path, source: str | None) -> ModuleType:
    """The module that a file makes; the same text is run once, wherever it lies."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise Problem(f"{file}, the file of the method, cannot be read: {error.strerror}") from error
    digest = sha256(text).hexdigest()
    _compare(file, digest, source)
    title = PREFIX + digest
    if title not in TEXTS:
        sys.modules[title] = module = ModuleType(title)  # before it is run: dataclasses look it up
        module.__file__ = str(file.absolute())
        try:
            exec(compile(text, module.__file__, "exec"), vars(module))
        except (Exception, SystemExit) as error:  # it may raise anything
            del sys.modules[title]
            raise Problem(f"{file}, the file of the method, cannot be imported: {type(error).__name__}: {error}") from error
        TEXTS[title] = file.absolute(), text
    return sys.modules[title]


def _import(name: str, place: str, source: str | None) -> ModuleType:
    try:
        module = import_module(place)
    except (Exception, SystemExit) as error:
        raise Problem(f"method {name!r} cannot be imported: {type(error).__name__}: {error}; {HOW}") from error
    if source:
        _compare(place, _source(module), source)
    return module


def _source(module: ModuleType | None) -> str | None:
    """The sha256 of a module's file; a program that is being run, or a session of Python, has none to be found again by."""
    file = getattr(module, "__file__", None)
    with suppress(OSError):
        return sha256(Path(file).read_bytes()).hexdigest() if file and module.__name__ != "__main__" else None


def _compare(file: Path | str, found: str | None, wanted: str | None) -> None:
    if wanted not in (None, found):
        raise Problem(f"{file} is not the text that the recipe counts on: its sha256 is {str(found)[:16]}, not {str(wanted)[:16]}: restore it, or start a new run")


def _nearest(module: ModuleType, place: str, title: str) -> object:
    """A Problem with the nearest of the methods that there are."""
    if place == "__main__":
        raise Problem(f"method {title!r} was made in a session of Python that is over: put its class in a file, {title.lower()}.py, and start a new run with {title.lower()}.py:{title}")
    known = [name for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, Mechanism) and kind.__module__ == module.__name__]
    if not known:
        raise Problem(f"{place} has no class {title!r}, and no other that is a subclass of ladp.Mechanism")
    return choose(f"class of {place}", title, known)
