"""Residual networks in the form made for small images: a 3x3 stem and no first pooling (He et al. 2016)."""

from torch import Tensor, nn

from ladp.errors import Problem
from ladp.models.norm import normaliser


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    widening = 1

    def __init__(self, inputs: int, width: int, stride: int, norm: str):
        super().__init__()
        make = normaliser(norm)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = make(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = make(width)
        self.relu = nn.ReLU()
        self.shortcut = _shortcut(inputs, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut, four times wider at the end."""

    widening = 4

    def __init__(self, inputs: int, width: int, stride: int, norm: str):
        super().__init__()
        make = normaliser(norm)
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = make(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = make(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm3 = make(4 * width)
        self.relu = nn.ReLU()
        self.shortcut = _shortcut(inputs, 4 * width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        return self.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


def _shortcut(inputs: int, outputs: int, stride: int, norm: str) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), normaliser(norm)(outputs))


class ResNet(nn.Module):
    """A stem, four stages of blocks at widths 64 to 512, average pooling and one linear layer."""

    def __init__(self, block: type[Block] | type[Bottleneck], depths: tuple[int, ...], classes: int, channels: int, norm: str):
        super().__init__()
        self.conv = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        self.norm = normaliser(norm)(64)
        self.relu = nn.ReLU()
        stages, inputs = [], 64
        for width, stride, depth in zip((64, 128, 256, 512), (1, 2, 2, 2), depths):
            for k in range(depth):
                stages.append(block(inputs, width, stride if k == 0 else 1, norm))
                inputs = width * block.widening
        self.blocks = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.relu(self.norm(self.conv(x))))
        return self.fc(self.flatten(self.pool(x)))


def _resnet(block: type, depths: tuple[int, ...], classes: int, channels: int, size: int, norm: str) -> ResNet:
    if size < 8:
        raise Problem(f"images of {size}x{size} are too small for a residual network: the least is 8")
    return ResNet(block, depths, classes, channels, norm)


def resnet18(classes: int = 10, channels: int = 3, size: int = 32, norm: str = "batch") -> ResNet:
    """11,173,962 weights for ten classes."""
    return _resnet(Block, (2, 2, 2, 2), classes, channels, size, norm)


def resnet152(classes: int = 10, channels: int = 3, size: int = 32, norm: str = "batch") -> ResNet:
    """50 bottleneck blocks; 58,341,028 weights for a hundred classes."""
    return _resnet(Bottleneck, (3, 8, 36, 3), classes, channels, size, norm)
