"""One client's arithmetic: Algorithm 2, lines 1 to 9."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ladp.keys import Key
from ladp.privacy.mechanism import Training

PAD = 4


@dataclass(frozen=True)
class Schedule:
    """In which order a client meets its records in one round, and how each one is shifted and mirrored."""

    order: np.ndarray  # [epochs, n]
    shift: np.ndarray | None = None  # [epochs, n, 2], each 0..8
    mirror: np.ndarray | None = None  # [epochs, n], 0 or 1

    @staticmethod
    def draw(key: Key, round: int, client: int, size: int, training: Training) -> "Schedule":
        """E permutations, and with augmentation a crop and a flip for each record each time."""
        random = key.at("order", round, client).numpy()
        order = np.stack([random.permutation(size) for _ in range(training.epochs)])
        if not training.augment:
            return Schedule(order)
        random = key.at("augment", round, client).numpy()
        return Schedule(order, random.integers(0, 2 * PAD + 1, (*order.shape, 2), np.uint8), random.integers(0, 2, order.shape, np.uint8))

    def batches(self, size: int) -> Sequence[tuple[int, slice]]:
        """(epoch, records) of each step; the last batch of an epoch may be smaller."""
        epochs, n = self.order.shape
        return [(e, slice(at, min(at + size, n))) for e in range(epochs) for at in range(0, n, size)]


def normalise(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Bytes to [-1, 1] (mean .5, deviation .5), channels last in memory; features, which are no bytes, stay what and where they are."""
    if images.is_floating_point():
        return images.to(dtype)
    return images.to(dtype).div_(127.5).sub_(1).contiguous(memory_format=torch.channels_last)


def augment(images: Tensor, shift: Tensor, mirror: Tensor) -> Tensor:
    """Crop each image at its own place from a frame padded with black, and mirror it where told."""
    n, _, height, width = images.shape
    padded = F.pad(images, (PAD,) * 4, value=-1.0)
    rows = shift[:, :1] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, width)
    columns = shift[:, 1:] + torch.where(mirror.unsqueeze(1) > 0, width - 1 - columns, columns)
    picked = torch.arange(n, device=images.device)[:, None, None]
    return padded[picked, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def take(images: Tensor, picked: Tensor) -> Tensor:
    """Some of the images, each moved as a whole: channels last in memory as they were."""
    return images.permute(0, 2, 3, 1).index_select(0, picked).permute(0, 3, 1, 2)


def clip_gradients(gradients: Sequence[Tensor], bound: float) -> None:
    """g / max(1, ||g|| / G_c) for the gradient of the whole model, in place (line 5); on a CPU nothing is divided by 1."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if norm.is_cuda or not norm <= bound:
        torch._foreach_div_(gradients, (norm / bound).clamp_min(1.0))


def train(model: nn.Module, images: Tensor, labels: Tensor, schedule: Schedule, training: Training, autocast: bool = False, before: int = 0) -> float:
    """E epochs of mini-batch SGD on one client's normalised images, in place, after `before` steps in earlier rounds; returns the mean loss over the steps."""
    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    descend = Descent(parameters, training, before)
    total, batches = torch.zeros((), dtype=torch.float64, device=images.device), schedule.batches(training.batch)
    for epoch, records in batches:
        picked = torch.from_numpy(schedule.order[epoch, records]).to(images.device)
        x = take(images, picked)
        if schedule.shift is not None:
            moved = (torch.from_numpy(part[epoch, records]).to(images.device, torch.int64) for part in (schedule.shift, schedule.mirror))
            x = augment(x, *moved)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x), labels[picked])  # line 4
        with torch.no_grad():
            descend(torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True))
        total += loss.detach()
    return float(total) / len(batches)


class Descent:
    """w <- w - eta g / max(1, ||g|| / G_c) (lines 5 and 6), with what a recipe may add to it: a pull back to the global model, momentum, decay."""

    def __init__(self, parameters: Sequence[Tensor], training: Training, before: int):
        self.parameters, self.training, self.lr = parameters, training, training.lr * training.decay**before
        self.origin = [p.detach().clone() for p in parameters] if training.prox else None
        self.velocity: Sequence[Tensor] | None = None

    def __call__(self, gradients: Sequence[Tensor]) -> None:
        training = self.training
        if self.origin:
            torch._foreach_add_(gradients, torch._foreach_sub(self.parameters, self.origin), alpha=training.prox)
        clip_gradients(gradients, training.clip)
        if training.momentum:
            gradients = self.velocity = gradients if self.velocity is None else torch._foreach_add(gradients, self.velocity, alpha=training.momentum)
        torch._foreach_add_(self.parameters, gradients, alpha=-self.lr)
        self.lr *= training.decay


@torch.no_grad()
def evaluate(model: nn.Module, images: Tensor, labels: Tensor, batch: int = 500) -> tuple[int, float]:
    """How many of the images are classified right, and the sum of their losses."""
    model.eval()
    right, loss = 0, 0.0
    for x, y in zip(images.split(batch), labels.split(batch)):
        logits = model(normalise(x, next(model.parameters()).dtype))
        right += int((logits.argmax(1) == y).sum())
        loss += float(F.cross_entropy(logits.double(), y, reduction="sum"))
    return right, loss
