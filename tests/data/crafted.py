"""Small files in the published layouts, and sources that expect their digests."""

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ladp.data.cifar import CIFAR10, CIFAR100, Cifar
from ladp.data.dataset import Archive
from ladp.data.files import digest_of

RECORDS = 3


def images(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (RECORDS, 3072), np.uint8)


def binary(seed: int, coarse: bool) -> bytes:
    fine, extra = np.arange(RECORDS, dtype=np.uint8)[:, None], np.full((RECORDS, int(coarse)), 7, np.uint8)
    return np.concatenate([extra, fine, images(seed)], axis=1).tobytes()


def python(seed: int, fine: bool) -> bytes:
    """A batch as Python 2 pickled it: text is bytes, the array is numpy.core.multiarray._reconstruct and a state."""
    short = lambda word: b"U" + bytes([len(word)]) + word
    raw = images(seed).tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + short(b"b") + b"tR"
    kind = b"cnumpy\ndtype\n" + short(b"u1") + b"K\x00K\x01\x87R(K\x03" + short(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    state = b"(K\x01K\x03M\x00\x0c\x86" + kind + b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    labels = short(b"fine_labels" if fine else b"labels") + b"]q\x01(" + b"".join(b"K" + bytes([n]) for n in range(RECORDS)) + b"e"
    return b"\x80\x02}q\x00(" + labels + short(b"data") + array + state + b"u."


def contents(source: Cifar) -> dict[str, bytes]:
    """Every file of both layouts with three records; the same images in both."""
    made = {}
    for layout, make in zip(source.layouts, (binary, python)):
        made |= {file: make(seed, source.name == "cifar100") for seed, file in enumerate(layout.files)}
    return made


def pack(files: dict[str, bytes]) -> bytes:
    """A .tar.gz of the files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def expecting(source: Cifar, made: dict[str, bytes], archives: list[bytes]) -> Cifar:
    """The source with the crafted files' digests in place of the published ones."""
    digests = lambda files: {file: digest_of(made[file], digest) for file, digest in files.items()}
    layouts = tuple(
        replace(
            layout,
            train=digests(layout.train),
            test=digests(layout.test),
            archive=Archive(layout.archive.url, digest_of(archive, layout.archive.digest)),
        )
        for layout, archive in zip(source.layouts, archives)
    )
    return replace(source, layouts=layouts)


def craft(source: Cifar) -> tuple[Cifar, dict[str, bytes], list[bytes]]:
    """A source, the files it expects, and its two archives."""
    made = contents(source)
    archives = [pack({file: made[file] for file in layout.files}) for layout in source.layouts]
    return expecting(source, made, archives), made, archives


def lay_out(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


SOURCES = {"cifar10": CIFAR10, "cifar100": CIFAR100}
