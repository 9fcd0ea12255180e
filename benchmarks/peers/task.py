"""The work that all peers do: model, data and numbers. It imports nothing of ladp, so each peer can live in an environment of its own."""

import json
import os
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLIENTS, ACTIVE, EPOCHS, BATCH, LR, CLIP = 100, 10, 2, 50, 0.1, 20.0
SIGMA = 0.05751  # Full DP as run at epsilon .5: .01 sqrt(2 ln(1.25/.02)) / .5


class CNN(nn.Module):
    """The paper's network: 541,094 weights."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 16), (16, 32), (32, 64)))
        self.fc1, self.fc2 = nn.Linear(1024, 500), nn.Linear(500, 10)
        self.dropout1, self.dropout2 = nn.Dropout(0.3), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = F.max_pool2d(F.relu(convolution(x)), 2)
        return self.fc2(self.dropout2(F.relu(self.fc1(self.dropout1(x.flatten(1))))))


class Data:
    """Images (bytes) and labels of training and test, mapped from files; client i has the i-th shard of a shuffled whole."""

    def __init__(self, root: str):
        self.images, self.labels, self.test_images, self.test_labels = (
            np.load(Path(root) / f"{name}.npy", mmap_mode="c") for name in ("images", "labels", "test_images", "test_labels")
        )
        self.order = np.random.RandomState(0).permutation(len(self.labels))

    def indices(self, client: int) -> np.ndarray:
        return np.array_split(self.order, CLIENTS)[client]

    def client(self, client: int) -> tuple[Tensor, Tensor]:
        held = self.indices(client)
        return normalise(self.images[held]), torch.from_numpy(self.labels[held])

    @torch.no_grad()
    def accuracy(self, model: nn.Module) -> float:
        model.eval()
        return float((model(normalise(self.test_images)).argmax(1) == torch.from_numpy(self.test_labels)).double().mean())


def normalise(images: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(images)).float().div_(127.5).sub_(1)


def cohort(round: int) -> list[int]:
    return np.random.RandomState(round).choice(CLIENTS, ACTIVE, replace=False).tolist()


class Baton:
    """One candidate at a time has it: `wait` for the word to run a round, then say how long it took. What others print goes to stderr."""

    def __init__(self, **about):
        self.voice = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.say(torch=torch.__version__, threads=torch.get_num_threads(), **about)

    def say(self, **what) -> None:
        self.voice.write(json.dumps(what) + "\n")
        self.voice.flush()

    def wait(self) -> bool:
        """False when there are no more rounds."""
        more = sys.stdin.readline().strip() == "round"
        self.began = perf_counter()
        return more

    def elapsed(self) -> float:
        return perf_counter() - self.began

    def done(self) -> None:
        self.say(seconds=self.elapsed())
