"""How alike two images are: PSNR, SSIM, total variation, and which reconstruction goes with which record. Images lie in [-1, 1], [n, C, H, W]."""

from collections.abc import Callable

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F

LEAST = 1e-10  # of a mean squared error: nothing is more alike than 100 dB
WINDOW, K1, K2 = 7, 0.01, 0.03


def psnr(found: Tensor, true: Tensor) -> Tensor:
    """10 log10(range^2 / mean squared error) of each pair, at most 100 dB: [n]."""
    error = ((found - true).double() / 2).square().flatten(1).mean(1)
    return -10 * error.clamp_min(LEAST).log10()


def ssim(found: Tensor, true: Tensor) -> Tensor:
    """Mean structural similarity of each pair (Wang et al. 2004) over all places of a 7x7 window that lie within the image, variances over n - 1, channels averaged: [n]."""
    x, y = ((images.double() + 1) / 2 for images in (found, true))
    side = min(WINDOW, *x.shape[2:])
    mean = lambda images: F.avg_pool2d(images, side, 1)  # noqa: E731
    a, b, share = mean(x), mean(y), side**2 / (side**2 - 1)
    spread, other, joint = share * (mean(x * x) - a * a), share * (mean(y * y) - b * b), share * (mean(x * y) - a * b)
    likeness = (2 * a * b + K1**2) * (2 * joint + K2**2) / ((a * a + b * b + K1**2) * (spread + other + K2**2))
    return likeness.flatten(1).mean(1)


def variation(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbours across, and up and down."""
    return images.diff(dim=3).abs().mean() + images.diff(dim=2).abs().mean()


def match(found: Tensor, true: Tensor) -> Tensor:
    """The reconstructions in the order of the records they fit best, all together by squared distance."""
    cost = torch.cdist(true.flatten(1).double(), found.flatten(1).double()).square()
    return found[torch.from_numpy(linear_sum_assignment(cost.cpu().numpy())[1]).to(found.device)]


def nearest(found: Tensor, records: int, take: Callable[[Tensor], Tensor], chunk: int = 1000) -> Tensor:
    """The number of the record that each image is closest to, of `records` that `take` gives some at a time: [n]."""
    parts = [torch.cdist(found.flatten(1).double(), take(part).flatten(1).double()) for part in torch.arange(records).split(chunk)]
    return torch.cat(parts, 1).argmin(1).cpu()
