"""Files that must be what their publisher put out: nothing is parsed before its digest is right."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ladp.errors import Problem


def digest_of(content: bytes, like: str) -> str:
    """`sha256:…` or `md5:…` of the content, in the kind of the digest it will be compared with."""
    kind = like.partition(":")[0]
    return f"{kind}:{hashlib.new(kind, content, usedforsecurity=False).hexdigest()}"


def verify(content: bytes, expected: str, file: str | Path, remedy: str, others: Mapping[str, str] = {}) -> bytes:
    """The content itself if its digest is the expected one; `others` (file → digest) tells a mislabelled file from a damaged one."""
    found = digest_of(content, expected)
    if found == expected:
        return content
    twin = next((other for other, digest in others.items() if digest == found), None)
    what = f"holds the content of {twin}" if twin else f"is damaged or not the published file ({len(content):,} bytes)"
    raise Problem(f"{file} {what}: expected {expected}, found {found}; {remedy}")


def content_of(path: Path) -> bytes:
    """All bytes of a file, or one line that says why not."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}; check that it exists and that you may read it") from error
