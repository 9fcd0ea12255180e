"""The Inception-v3 of FID (TensorFlow's graph of 2015-12-05) up to its last pooling: 2,048 features of an image.

It is not the Inception-v3 of image classification libraries: averages at the border leave the padding out, the last block pools by maximum, and
BatchNorm, which has no scale and an epsilon of .001, is folded into the convolutions (Szegedy et al. 2016, Heusel et al. 2017).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp.metrics.weights import read

EPSILON = 0.001
SIDE = 299
Size = int | tuple[int, int]
ACROSS, DOWN = (1, 7), (7, 1)


class Fork(nn.ModuleList):
    """Branches over one input, their maps one after the other."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self], 1)


def unit(inputs: int, outputs: int, kernel: Size = 1, stride: int = 1, padding: int | str = "same") -> nn.Sequential:
    """A convolution with ReLU; its bias is what BatchNorm leaves of itself."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True))


def chain(inputs: int, *units: tuple) -> nn.Sequential:
    """Units one after the other, each given by its maps and what else differs from a 1x1 convolution."""
    widths = [inputs, *(maps for maps, *_ in units)]
    return nn.Sequential(*(unit(width, *given) for width, given in zip(widths, units)))


def average() -> nn.Module:
    """The mean over 3x3 pixels, over those within the image where there are fewer."""
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


def halve() -> nn.Module:
    """The largest of 3x3 pixels, at every other one."""
    return nn.MaxPool2d(3, 2)


def local(inputs: int, pooled: int) -> Fork:
    """Mixed_5b, c, d: 1x1, 5x5 and twice 3x3, on 35x35 pixels."""
    return Fork([unit(inputs, 64), chain(inputs, (48,), (64, 5)), chain(inputs, (64,), (96, 3), (96, 3)), nn.Sequential(average(), unit(inputs, pooled))])


def long(width: int) -> Fork:
    """Mixed_6b, c, d, e: rows and columns of seven, on 17x17 pixels."""
    once = chain(768, (width,), (width, ACROSS), (192, DOWN))
    twice = chain(768, (width,), (width, DOWN), (width, ACROSS), (width, DOWN), (192, ACROSS))
    return Fork([unit(768, 192), once, twice, nn.Sequential(average(), unit(768, 192))])


def wide(inputs: int, pool: nn.Module) -> Fork:
    """Mixed_7b, c: branches that fork again, on 8x8 pixels."""
    once = nn.Sequential(unit(inputs, 384), Fork([unit(384, 384, (1, 3)), unit(384, 384, (3, 1))]))
    twice = nn.Sequential(unit(inputs, 448), unit(448, 384, 3), Fork([unit(384, 384, (1, 3)), unit(384, 384, (3, 1))]))
    return Fork([unit(inputs, 320), once, twice, nn.Sequential(pool, unit(inputs, 192))])


def network() -> nn.Sequential:
    """The whole of it, without numbers yet: no random number is drawn."""
    with torch.device("meta"):
        stem = [chain(3, (32, 3, 2, 0), (32, 3, 1, 0), (64, 3)), halve(), chain(64, (80,), (192, 3, 1, 0)), halve()]
        first = [local(192, 32), local(256, 64), local(288, 64), Fork([unit(288, 384, 3, 2, 0), chain(288, (64,), (96, 3), (96, 3, 2, 0)), halve()])]
        second = [long(128), long(160), long(160), long(192)]
        shrink = Fork([chain(768, (192,), (320, 3, 2, 0)), chain(768, (192,), (192, ACROSS), (192, DOWN), (192, 3, 2, 0)), halve()])
        third = [wide(1280, average()), wide(2048, nn.MaxPool2d(3, 1, 1))]
        return nn.Sequential(*stem, *first, *second, shrink, *third, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def fill(network: nn.Sequential, numbers: Sequence[Tensor]) -> nn.Sequential:
    """Weight, beta, mean and variance of each convolution in turn: W / s, and beta - mean / s as bias, with s = sqrt(variance + .001)."""
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    for convolution, weight, beta, mean, variance in zip(convolutions, *(numbers[k::4] for k in range(4)), strict=True):
        scale = (variance.double() + EPSILON).rsqrt()
        folded = weight.double().view(convolution.weight.shape) * scale.view(-1, 1, 1, 1)
        convolution.weight = nn.Parameter(folded.float(), requires_grad=False)
        convolution.bias = nn.Parameter((beta - mean * scale).float(), requires_grad=False)
    return network.eval()


def enlarge(images: Tensor) -> Tensor:
    """Bytes [n, 1 or 3, H, W] to 3 x 299 x 299 in [-1, 1] as pytorch-fid does it: bilinear between pixel centres (`align_corners=False`), x / 127.5 - 1.

    TensorFlow's graph measures from the corner of the first pixel, and takes (x - 128) / 128.
    """
    large = F.interpolate(images.float(), (SIDE, SIDE), mode="bilinear", align_corners=False)
    return (large / 127.5 - 1).expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True, eq=False)
class Inception:
    """The features that published FIDs are made of."""

    network: Callable[[Tensor], Tensor]
    device: str = "cpu"
    name: ClassVar[str] = "inception"
    dimension: ClassVar[int] = 2048
    published: ClassVar[bool] = True
    about: ClassVar[str] = "pool3 of Inception-v3 (2015-12-05), 299x299 as pytorch-fid makes them"

    @staticmethod
    def of(device: str = "cpu", weights: str | Path | None = None) -> "Inception":
        """With the published weights."""
        return Inception(fill(network(), read(weights)).to(device, memory_format=torch.channels_last), device)

    def __call__(self, images: Tensor) -> Tensor:
        """Bytes [n, C, H, W] to features [n, 2048] in float32, on the CPU."""
        return self.network(enlarge(images.to(self.device))).cpu()
