"""The paper's CNN, and a smaller one of the same kind for 8x8 digits."""

from torch import Tensor, nn

from ladp.errors import Problem
from ladp.models.norm import normaliser


class ConvNet(nn.Module):
    """3x3 convolutions, each with ReLU and 2x2 max-pooling, then two linear layers behind dropout."""

    def __init__(self, widths: tuple[int, ...], hidden: int, classes: int, channels: int, size: int, norm: str, dropout: float):
        super().__init__()
        side = size >> len(widths)
        if side < 1:
            raise Problem(f"images of {size}x{size} are too small for {len(widths)} halvings: the least is {1 << len(widths)}")
        maps = [channels, *widths]
        self.features = nn.Sequential(*(_block(a, b, norm) for a, b in zip(maps, maps[1:])))
        self.flatten = nn.Flatten()
        self.dropout1 = nn.Dropout(dropout)
        self.fc1 = nn.Linear(widths[-1] * side * side, hidden)
        self.relu = nn.ReLU()
        self.dropout2 = nn.Dropout(dropout)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.flatten(self.features(x))
        return self.fc2(self.dropout2(self.relu(self.fc1(self.dropout1(x)))))


def _block(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    bias = norm != "batch"  # BatchNorm takes the mean away: a bias before it would never move
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias), normaliser(norm)(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*(layer for layer in layers if not isinstance(layer, nn.Identity)))


class CNN(ConvNet):
    """16-32-64 maps and a hidden layer of 500: 541,094 weights for ten classes of 3x32x32 images."""

    def __init__(self, classes: int = 10, channels: int = 3, size: int = 32, norm: str = "none", dropout: float = 0.3):
        super().__init__((16, 32, 64), 500, classes, channels, size, norm, dropout)


class SmallCNN(ConvNet):
    """16-32 maps and a hidden layer of 64, for images from 4x4 up; made for the 8x8 digits."""

    def __init__(self, classes: int = 10, channels: int = 1, size: int = 8, norm: str = "none", dropout: float = 0.0):
        super().__init__((16, 32), 64, classes, channels, size, norm, dropout)
