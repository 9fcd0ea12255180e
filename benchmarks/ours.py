"""ladp as one candidate of the comparison: recipe, engine and round loop as `ladp run` uses them, one round at each word.

    python benchmarks/ours.py DATA METHOD ENGINE PRECISION WORKERS
"""

import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from task import ACTIVE, CLIENTS, Baton  # noqa: E402

from ladp import experiment, federation, training  # noqa: E402
from ladp.data import DATA  # noqa: E402
from ladp.data.dataset import Dataset, Reading, pair  # noqa: E402
from ladp.data.partition import Iid  # noqa: E402
from ladp.mechanisms import METHODS  # noqa: E402
from ladp.recipe import Recipe  # noqa: E402
from ladp.training import sequential  # noqa: E402
from ladp.version import VERSION  # noqa: E402


class Stored:
    """The arrays that all candidates read, as one more data set of the library's table."""

    name, archive = "stored", None

    def read(self, root: Path) -> Reading:
        images, labels, test_images, test_labels = (np.load(root / f"{name}.npy") for name in ("images", "labels", "test_images", "test_labels"))
        return Reading(Dataset(self.name, *pair(images, labels), *pair(test_images, test_labels), tuple(map(str, range(10)))), "arrays", {})

    def by_hand(self, root: Path) -> str:
        return "made by benchmarks/cpu.py"


def recipe(root: str, method: str, **options) -> Recipe:
    """The paper's CNN and training on the stored arrays."""
    DATA[Stored.name] = Stored()
    common = dict(model="cnn", data=Stored.name, partition=Iid(), clients=CLIENTS, active=ACTIVE, rounds=10**9, root=root, device="cpu")
    return Recipe(method=METHODS[method](), **{**common, **options})


class Timed:
    """A function, and the seconds spent in it in whichever process: each call writes to a place of its own."""

    def __init__(self, function, place):
        self.function, self.place, self.seconds = function, place, torch.zeros(CLIENTS, dtype=torch.float64).share_memory_()

    def __call__(self, *given):
        began = perf_counter()
        try:
            return self.function(*given)
        finally:
            self.seconds[self.place(*given)] += perf_counter() - began

    def taken(self) -> float:
        taken = self.seconds.sum().item()
        self.seconds.zero_()
        return taken


def play(root: str, method: str, engine: str, precision: str, workers: int) -> None:
    release = sequential.release = Timed(sequential.release, lambda mechanism, seen, *rest: seen.cohort[0])
    mean = federation.mean = Timed(federation.mean, lambda *given: 0)  # both before the workers are forked
    chosen = recipe(root, method, engine=engine, precision=precision, workers=workers)
    work, engine = experiment.prepare(chosen)
    with closing(training.start(work, engine)) as running:
        baton, state = Baton(ladp=VERSION, engine=engine, precision=work.precision, workers=workers), federation.begin(work)
        rounds = federation.federate(work, running, state, chosen.rounds, chosen.mean)
        while baton.wait():
            state = next(rounds).state
            seconds = baton.elapsed()
            baton.say(seconds=seconds, share=(release.taken() / workers + mean.taken()) / seconds)
        baton.say(accuracy=running.evaluate(state.current, state.counts)[0], digest=sha256(state.current.numpy().tobytes()).hexdigest())


if __name__ == "__main__":
    play(*sys.argv[1:5], workers=int(sys.argv[5]))
