"""The command line: every refusal is one line on stderr and exit code 2, an interruption one line and 128 plus its signal."""

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

from ladp.errors import Problem

OUT_OF_MEMORY = "out of memory: take fewer active clients, a smaller batch or fewer --workers"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """Ctrl-C, or a request to end: no error, and nothing for a library in between to translate. A note says what to do next."""

    def __init__(self, number: int):
        super().__init__("interrupted" if number == signal.SIGINT else "ended by a signal")
        self.number = number


def main() -> None:
    """Run the command line; `--debug` may stand anywhere and shows tracebacks."""
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        _listen(_leave)
        from ladp.cli.commands import call  # not above: it takes a second, and whoever presses Ctrl-C then shall see no traceback either

        _listen(_stopper())
        sys.path.append("")  # a model of the user's own may lie in the working directory
        call(arguments)
    except Problem as problem:
        _end(f"error: {problem}", 2, debug)
    except Stopped as stop:
        _end(": ".join([str(stop), *getattr(stop, "__notes__", ())]), 128 + stop.number, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        _end(f"error: {OUT_OF_MEMORY}", 2, debug)
    except OSError as error:
        _end(f"error: {error.filename or 'a file'}: {error.strerror or error}", 2, debug)


def __getattr__(name: str) -> Any:
    """`ladp.cli.app`, loaded when asked for."""
    if name == "app":
        return import_module("ladp.cli.commands").app
    raise AttributeError(f"module 'ladp.cli' has no attribute {name!r}")


def _listen(handler: Callable[[int, FrameType | None], None]) -> None:
    """What Ctrl-C and SIGTERM do from now on, unless whoever started the program had them ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    """At once: nothing is open yet, and an exception inside a library that is being loaded may end in its abort."""
    os.write(2, f"{Stopped(number)}\n".encode())
    os._exit(128 + number)


def _stopper() -> Callable[[int, FrameType | None], None]:
    """In order, by an exception; a worker that inherits this goes silently."""
    server = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != server:
            os._exit(128 + number)
        raise Stopped(number)

    return stop


def _end(line: str, code: int, debug: bool) -> None:
    _listen(signal.SIG_IGN)  # what is left takes a moment and must not end in a traceback
    if debug:
        raise  # noqa: PLE0704 - called from an except clause
    print(line, file=sys.stderr)
    sys.exit(code)
