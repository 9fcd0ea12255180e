"""Models for features that were made beforehand: little to train, so little for noise to hit."""

from collections import OrderedDict

from torch import nn

from ladp.errors import Problem


class Linear(nn.Sequential):
    """Softmax regression on the flattened input: 155,530 weights for ten classes of 243x8x8 features; it begins at 0, where every class is as likely."""

    def __init__(self, classes: int = 10, channels: int = 243, size: int = 8):
        super().__init__(OrderedDict(flatten=nn.Flatten(), fc=nn.Linear(channels * size * size, classes)))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)


class ScatterCNN(nn.Sequential):
    """Two 3x3 convolutions of 64 maps with tanh, a 2x2 pooling between them, a linear layer: 187,210 weights for ten classes of 243x8x8 features.

    The network of Tramer and Boneh (2021) for scattering features of CIFAR-10.
    """

    def __init__(self, classes: int = 10, channels: int = 243, size: int = 8):
        if size < 2:
            raise Problem(f"features of {size}x{size} are too small for scatter-cnn: the least is 2")
        first, second = nn.Conv2d(channels, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        body = OrderedDict(conv1=first, tanh1=nn.Tanh(), pool=nn.MaxPool2d(2), conv2=second, tanh2=nn.Tanh(), flatten=nn.Flatten())
        super().__init__(OrderedDict(**body, fc=nn.Linear(64 * (size // 2) ** 2, classes)))
