"""Fetching a published file: resumes where it was cut off, checks the digest, and only then gives it its name."""

import errno
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO

from ladp.data.dataset import Archive
from ladp.errors import Problem

CHUNK = 1 << 20
ATTEMPTS = 4  # without a new byte; every byte gained starts the count afresh
TIMEOUT = 15  # seconds without an answer
Progress = Callable[[int, int | None], None]  # bytes there, bytes in all if known


def fetch(archive: Archive, folder: Path, by_hand: str, progress: Progress = lambda done, total: None) -> Path:
    """The archive in `folder`, fetched unless it is already there and right; a `.part` file keeps what a cut-off transfer brought."""
    target, part = folder / archive.file, folder / f"{archive.file}.part"
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if target.is_file() and file_digest(target, archive.digest) == archive.digest:
            return target
        transfer(archive.url, part, by_hand, progress)
        settle(part, target, archive, by_hand)
    return target


def settle(part: Path, target: Path, archive: Archive, by_hand: str) -> None:
    """Give the finished file its name if it is the published one; throw it away if it is not."""
    found = file_digest(part, archive.digest)
    if found != archive.digest:
        part.unlink()
        raise Problem(f"{archive.url} sent another file: expected {archive.digest}, found {found}; it was deleted, try again, or {by_hand}")
    os.replace(part, target)


def transfer(url: str, part: Path, by_hand: str, progress: Progress) -> None:
    """Ask for what is missing until nothing is; gives up after ATTEMPTS requests that brought nothing new."""
    failures = 0
    while True:
        before = size_of(part)
        try:
            return receive(url, part, progress)
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            failures = 0 if size_of(part) > before else failures + 1
            if failures == ATTEMPTS or refuses(error):
                raise Problem(f"cannot fetch {url}: {getattr(error, 'reason', error)}; {by_hand}") from error


def receive(url: str, part: Path, progress: Progress) -> None:
    """One request, from where the part file ends; a server that ignores the range sends it all and starts the file anew."""
    start = size_of(part)
    resume = {"Range": f"bytes={start}-"} if start else {}
    request = urllib.request.Request(url, headers={"User-Agent": "ladp", **resume})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # range not satisfiable: the part file is whole already, or longer than the original
            raise
        return
    resumed = answer.status == 206
    with answer, open(part, "ab" if resumed else "wb") as file:
        copy(answer, file, start if resumed else 0, progress)


def copy(answer: HTTPResponse, file: BinaryIO, start: int, progress: Progress) -> None:
    """Append the answer's body; a body shorter than announced counts as cut off."""
    length = answer.headers.get("Content-Length")
    total, done = (start + int(length) if length else None), start
    progress(done, total)
    while chunk := next_chunk(answer):
        file.write(chunk)
        done += len(chunk)
        progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def next_chunk(answer: HTTPResponse) -> bytes:
    """Some more of the body; whatever goes wrong here is the connection's fault, not the disk's."""
    try:
        return answer.read1(CHUNK)
    except OSError as error:
        raise ConnectionError(str(error)) from error


def refuses(error: Exception) -> bool:
    """Whether asking again at once is pointless: no such page, not allowed, no network, no such host."""
    if isinstance(error, urllib.error.HTTPError):
        return 400 <= error.code < 500 and error.code not in (408, 429)
    return isinstance(error, urllib.error.URLError)


def size_of(path: Path) -> int:
    """Bytes on disk, 0 for a file that is not there."""
    return path.stat().st_size if path.exists() else 0


def file_digest(path: Path, like: str) -> str:
    """The digest of a file, in the kind of `like`, without holding it in memory."""
    kind = like.partition(":")[0]
    with open(path, "rb") as file:
        return f"{kind}:{hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()}"


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """A full disk or a folder that cannot be written is one clear line; what was fetched stays for the next try."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space and run it again, it goes on where it stopped" if full else "choose a folder you may write with --root"
        raise Problem(f"cannot write {folder}: {error.strerror or error}; {remedy}") from error
