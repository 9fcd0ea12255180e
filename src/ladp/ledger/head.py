"""Where a ledger stood last, in a small file of its own: number and seal of the last release that was written."""

import os
from contextlib import contextmanager
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import sleep

from ladp.errors import Problem

TRIES, PAUSE = 20, 0.005  # a reader may meet a line that is half written


@dataclass(frozen=True)
class Head:
    """The last release: how many there are, and its seal."""

    sequence: int
    seal: str

    @property
    def line(self) -> bytes:
        """As it is written: always as long, with a check of its own, so that it can be written in its place and never be half read."""
        said = f"{self.sequence:020d} {self.seal}"
        return f"{said} {sha256(said.encode()).hexdigest()[:16]}\n".encode()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What cannot be written is one clear line."""
    try:
        yield
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror or error}; nothing may leave: free space or grant the right to write, and try again") from error


def read(path: Path) -> Head | None:
    """What the file says; None if there is none yet."""
    for _ in range(TRIES):
        try:
            line = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Problem(f"{path} cannot be read: {error.strerror or error}") from error
        if not line:
            return None
        if (head := _parse(line)) and head.line == line:
            return head
        sleep(PAUSE)
    raise Problem(f"{path} is damaged: it does not say where a ledger stood; put the right file back, or delete it and `ladp ledger verify --adopt`")


def _parse(line: bytes) -> Head | None:
    words = line.decode(errors="replace").split()
    return Head(int(words[0]), words[1]) if len(words) == 3 and words[0].isdecimal() else None


def write(path: Path, head: Head, lasting: bool) -> None:
    """In its place, in one write; `lasting` waits until it is on the disk."""
    with writing(path):
        handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            os.pwrite(handle, head.line, 0)
            if lasting:
                os.fsync(handle)
        finally:
            os.close(handle)
