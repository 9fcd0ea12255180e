"""The Frechet distance between the Gaussians that two sets of features are summed up by: FID, when the features are Inception's."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ladp.errors import Problem


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A mean [d] and a root R [r, d] of the covariance S = R'R, in float64.

    The root is taken from the features themselves (QR), never from S: squaring would lose half of the digits, and S may be singular.
    """

    mean: Tensor
    root: Tensor

    @staticmethod
    def of(features: Tensor) -> "Gaussian":
        """Mean and covariance (divisor n - 1) of features [n, d]."""
        if features.ndim != 2 or len(features) < 2:
            raise Problem(f"a covariance needs features [n, d] of at least 2 images, got {tuple(features.shape)}: give more images")
        if not features.isfinite().all():
            raise Problem("features are not finite: look at the images and at the network that made them")
        wide = features.double()
        centred = (wide - wide.mean(0)) / (len(wide) - 1) ** 0.5
        return Gaussian(wide.mean(0), torch.linalg.qr(centred, mode="r").R)

    @property
    def variance(self) -> float:
        """tr S, the sum of squares of the root."""
        return self.root.square().sum().item()


def distance(one: Gaussian, other: Gaussian) -> float:
    """|m1 - m2|^2 + tr S1 + tr S2 - 2 tr (S1^1/2 S2 S1^1/2)^1/2 (Dowson & Landau 1982); 0 where rounding would make it less.

    The last trace is the sum of the singular values of R1 R2': real, finite and never negative, whatever the ranks.
    """
    if one.mean.shape != other.mean.shape:
        raise Problem(f"features have {len(one.mean)} and {len(other.mean)} dimensions: make both with the same network")
    shared = torch.linalg.svdvals(one.root @ other.root.T).sum().item()
    return max(0.0, (one.mean - other.mean).square().sum().item() + one.variance + other.variance - 2 * shared)
