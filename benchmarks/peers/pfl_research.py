"""pfl-research: FederatedAveraging on its PyTorch backend, its Gaussian mechanism on each client's update; one process or several."""

import asyncio
import os
import subprocess
import sys
from importlib.metadata import version

PROCESSES, RANK = int(sys.argv[2]), int(os.environ.get("RANK", 0))
if PROCESSES > 1:
    os.environ |= dict(TORCHELASTIC_RUN_ID="ladp", RANK=str(RANK), WORLD_SIZE=str(PROCESSES), MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[3])
others = [
    subprocess.Popen([sys.executable, *sys.argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ | {"RANK": str(rank)})
    for rank in range(1, PROCESSES) if RANK == 0
]  # fmt: skip

asyncio.set_event_loop(asyncio.new_event_loop())
import numpy as np  # noqa: E402
import torch  # noqa: E402
from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402
from pfl.aggregate.weighting import WeightByUser  # noqa: E402
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.data.pytorch import PyTorchTensorDataset  # noqa: E402
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402
from pfl.privacy.gaussian_mechanism import GaussianMechanism  # noqa: E402
from task import ACTIVE, BATCH, CLIP, CNN, EPOCHS, LR, SIGMA, Baton, Data, cohort  # noqa: E402
from torch.nn import functional as F  # noqa: E402

BOUND = 1e4  # on the norm of a whole update: so high that only the noise acts
if PROCESSES > 1:
    torch.set_num_threads(1)


class Net(CNN):
    def loss(self, x, y, eval=False):
        self.train()
        return F.cross_entropy(self(x), y)

    def metrics(self, x, y, eval=True):
        return {}


class Shuffled(PyTorchTensorDataset):
    """pfl meets the records in the same order in every epoch; this shuffles them, as all candidates do."""

    def iter(self, batch_size):
        for picked in torch.randperm(len(self)).split(batch_size):
            yield [part[picked] for part in self.raw_data]


class Turns(TrainingProcessCallback):
    """Between two rounds: say how long it took, and wait for the word; the first process passes it on."""

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        baton.done()
        return not turn(), Metrics()


def turn() -> bool:
    more = baton.wait()
    for other in others:
        other.stdin.write("round\n" if more else "end\n")
        other.stdin.flush()
    return more


data = Data(sys.argv[1])
torch.manual_seed(0), np.random.seed(0)
drawn = (client for round in range(10**9) for client in cohort(round))
clients = FederatedDataset(lambda i: Shuffled(data.client(i), user_id=str(i)), user_sampler=lambda: next(drawn))
net = Net()
model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
backend = SimulatedBackend(clients, clients, postprocessors=[WeightByUser(), GaussianMechanism(BOUND, SIGMA / BOUND)])
baton = Baton(pfl=version("pfl"), processes=PROCESSES)
if turn():
    FederatedAveraging().run(
        NNAlgorithmParams(central_num_iterations=10**9, evaluation_frequency=10**9, train_cohort_size=ACTIVE, val_cohort_size=0),
        backend, model, NNTrainHyperParams(local_num_epochs=EPOCHS, local_learning_rate=LR, local_batch_size=BATCH, local_max_grad_norm=CLIP),
        NNEvalHyperParams(local_batch_size=500), callbacks=[Turns()],
    )  # fmt: skip
baton.say(accuracy=data.accuracy(net))
os._exit(0)  # it waits for its own subprocesses otherwise
