"""Carries out a page in this folder, as `python carry_out.py PROGRAM COMMAND...`: the Python program, then each `ladp` command line.

Torch is loaded once; each of them then is a process of its own, forked from this one.
"""

import os
import shlex
import sys
import traceback
from collections.abc import Callable

import ladp.experiment  # noqa: F401 - loaded before forking
from ladp.cli import app, main  # noqa: F401 - and the commands


def apart(task: Callable[[str], None], text: str) -> None:
    """`task(text)` in a process of its own; the first that fails ends it all."""
    sys.stdout.flush()
    if child := os.fork():
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(f"failed: {text}")
        return
    try:
        task(text)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


def program(text: str) -> None:
    exec(compile(text, "page", "exec"), {"__name__": "__main__"})


def command(line: str) -> None:
    """[NAME=VALUE] ladp ARGUMENT..., as the shell would start it."""
    words = shlex.split(line, comments=True)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value
        sys.path[:0] = [value] * (name == "PYTHONPATH")
    assert words[0] == "ladp", line
    sys.argv = words
    main()


if __name__ == "__main__":
    _, text, *lines = sys.argv
    sys.path.insert(0, "")
    apart(program, text)
    for line in lines:
        before = os.lseek(1, 0, os.SEEK_CUR)
        apart(command, line)
        assert os.lseek(1, 0, os.SEEK_CUR) > before, f"{line} printed nothing"
