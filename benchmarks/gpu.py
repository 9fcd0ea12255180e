"""Seconds a round on one GPU: this library beside a plain PyTorch loop and pfl-research, all on the same work, taking turns.

    python benchmarks/gpu.py --out benchmarks/results/gpu.json

A round: 10 of 100 clients x 500 images, 2 epochs, batch 50, SGD .1, gradient clip 20, Gaussian noise on each upload, mean. Images are random
bytes: nothing here depends on what they show. pfl is left out, and said to be, where it cannot be imported (it needs its own requirements).
Speeds are those of one run on one machine; only the ratios travel.
"""

import argparse
import copy
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from ladp import models, training
from ladp.data.partition import Iid
from ladp.federation import begin, federate
from ladp.keys import Key
from ladp.mechanisms import Full, LaDP, NoNoise
from ladp.params import Layout
from ladp.privacy.mechanism import Training
from ladp.training.work import Work
from ladp.version import VERSION

CLIENTS, ACTIVE, HELD, SIGMA = 100, 10, 500, 0.01
Rounds = Iterator[None]


def make(model: str, method=None, precision: str = "bf16", engine: str = "stacked", device: str = "cuda") -> tuple[Work, str]:
    key = Key(0)
    with key.at("model").reign():
        net = models.create(model)
    images = torch.randint(256, (CLIENTS * HELD, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(10, (CLIENTS * HELD,), generator=torch.Generator().manual_seed(1))
    split = Iid().split(labels.numpy(), CLIENTS, key)
    method = method or Full(kappa=SIGMA / 5)
    return Work(net, Layout.of(net), images, labels, images[:1000], labels[:1000], split, method, Training(), key, ACTIVE, device, precision), engine


def ours(work: Work, engine: str) -> Rounds:
    """The library's own round loop, with everything that a run does in a round but writing it down."""
    running = training.start(work, engine)
    for _ in federate(work, running, begin(work), 10**6):
        yield


def plain(work: Work, engine: str) -> Rounds:
    """A sequential loop of the kind that papers publish: deepcopy, DataLoader, state_dict."""
    x, y = (work.images.float() / 127.5 - 1), work.labels
    net, data = copy.deepcopy(work.model).to(work.device), torch.utils.data.TensorDataset(x, y)
    for number in range(1, 10**6):
        uploads = [_client(net, torch.utils.data.Subset(data, work.split.indices(client)), work) for client in work.cohort(number)]
        net.load_state_dict({k: torch.stack([u[k] for u in uploads]).float().mean(0).to(v.dtype) for k, v in uploads[0].items()})
        yield


def _client(net: nn.Module, data: torch.utils.data.Dataset, work: Work) -> dict:
    local, public = copy.deepcopy(net).train(), work.training
    optimiser = torch.optim.SGD(local.parameters(), lr=public.lr)
    for _ in range(public.epochs):
        for x, y in torch.utils.data.DataLoader(data, batch_size=public.batch, shuffle=True):
            optimiser.zero_grad()
            F.cross_entropy(local(x.to(work.device)), y.to(work.device)).backward()
            nn.utils.clip_grad_norm_(local.parameters(), public.clip)
            optimiser.step()
    state = copy.deepcopy(local.state_dict())
    for name, parameter in local.named_parameters():
        state[name] += SIGMA * torch.randn_like(parameter)
    return state


def pfl(work: Work, engine: str) -> Rounds:
    """pfl-research's simulated backend, data on the device."""
    import asyncio
    import logging

    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.internal.platform import selector
    from pfl.metrics import Weighted
    from pfl.model.pytorch import PyTorchModel
    from pfl.privacy.gaussian_mechanism import GaussianMechanism

    logging.disable(logging.WARNING)
    asyncio.set_event_loop(asyncio.new_event_loop())
    net = copy.deepcopy(work.model).to(work.device)
    net.loss = lambda x, y, eval=False: F.cross_entropy(net.train()(x), y)
    net.metrics = lambda x, y, eval=True: {"n": Weighted(0, len(y))}
    x, y = (work.images.float() / 127.5 - 1).to(work.device), work.labels.to(work.device)
    drawn = (client for number in range(1, 10**6) for client in work.cohort(number))
    make_user = lambda client: PyTorchTensorDataset((x[work.split.indices(client)], y[work.split.indices(client)]), user_id=str(client))
    data, public = FederatedDataset(make_user, user_sampler=lambda: next(drawn)), work.training
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    backend = SimulatedBackend(data, data, postprocessors=[WeightByUser(), GaussianMechanism(1e4, SIGMA / 1e4)])
    local = NNTrainHyperParams(local_num_epochs=public.epochs, local_learning_rate=public.lr, local_batch_size=public.batch, local_max_grad_norm=public.clip)
    algorithm, tested = FederatedAveraging(), NNEvalHyperParams(local_batch_size=500)
    selector.get_platform().consume_metrics = lambda *_, **__: None  # printing only
    for number in range(1, 10**6):
        algorithm.run(NNAlgorithmParams(central_num_iterations=number, evaluation_frequency=10**9, train_cohort_size=ACTIVE, val_cohort_size=0), backend, model, local, tested)
        yield


CANDIDATES: dict[str, tuple[Callable[[Work, str], Rounds], dict]] = {
    "DataLoader loop": (plain, {}),
    "pfl-research": (pfl, {}),
    "ladp sequential float32": (ours, dict(engine="sequential", precision="float32")),
    "ladp stacked float32": (ours, dict(precision="float32")),
    "ladp stacked bf16, full": (ours, {}),
    "ladp stacked bf16, none": (ours, dict(method=NoNoise())),
    "ladp stacked bf16, ladp": (ours, dict(method=LaDP(bound=1e-12))),
}


def measure(model: str, passes: int, wanted: list[str], device: str) -> dict[str, dict]:
    """Every candidate runs a round to warm up, then all take turns."""
    found, running = {}, {}
    for name in wanted:
        candidate, options = CANDIDATES[name]
        try:
            running[name] = candidate(*make(model, device=device, **options))
            found[name] = {"first": _round(running[name]), "seconds": []}
        except ImportError as error:
            found[name] = {"left_out": str(error)}
            del running[name]
    for _ in range(passes):
        for name, rounds in running.items():
            found[name]["seconds"].append(_round(rounds))
    return {name: row | _spread(row.get("seconds")) for name, row in found.items()}


def _round(rounds: Rounds) -> float:
    torch.cuda.synchronize() if torch.cuda.is_available() else None
    began = time.perf_counter()
    next(rounds)
    torch.cuda.synchronize() if torch.cuda.is_available() else None
    return round(time.perf_counter() - began, 5)


def _spread(seconds: list[float] | None) -> dict:
    return {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds)} if seconds else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["cnn", "resnet18"])
    parser.add_argument("--only", nargs="+", default=list(CANDIDATES))
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    about = dict(work=__doc__.split("\n\n")[2], version=VERSION, torch=torch.__version__, python=platform.python_version(), device=torch.cuda.get_device_name() if options.device == "cuda" else options.device)
    found = {model: measure(model, options.passes, options.only, options.device) for model in options.models}
    for model, rows in found.items():
        base = rows.get("pfl-research", {}).get("median")
        for name, row in rows.items():
            print(f"{model:10} {name:26} " + (f"{row['median']:.4f} s ({row['least']:.4f} to {row['most']:.4f}), first {row['first']:.1f}" + (f", {base / row['median']:.1f} x pfl" if base else "") if "median" in row else f"left out: {row['left_out']}"))
    if options.out:
        options.out.write_text(json.dumps(about | {"models": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
