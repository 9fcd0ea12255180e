"""Flower's simulation on Ray: its FedAvg, one client to a CPU."""

import os
import sys
from importlib.metadata import version

os.environ |= dict(FLWR_TELEMETRY_ENABLED="0", RAY_DEDUP_LOGS="1")
import torch  # noqa: E402
from flower_client import app as client_app  # noqa: E402
from flwr.app import ArrayRecord  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from task import ACTIVE, CLIENTS, CNN, Baton, Data  # noqa: E402

WORKERS = int(sys.argv[2])
server_app = ServerApp()


class Turns(FedAvg):
    """Between two rounds: say how long it took, and wait for the word."""

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        baton.done()
        if not baton.wait():
            model = CNN()
            model.load_state_dict(arrays.to_torch_state_dict())
            baton.say(accuracy=Data(sys.argv[1]).accuracy(model))
            os._exit(0)
        return arrays, metrics


@server_app.main()
def main(grid, context):
    torch.manual_seed(0)
    strategy = Turns(fraction_train=ACTIVE / CLIENTS, fraction_evaluate=0.0, min_train_nodes=ACTIVE, min_available_nodes=CLIENTS)
    if baton.wait():
        strategy.start(grid=grid, initial_arrays=ArrayRecord(CNN().state_dict()), num_rounds=10**9, timeout=10**9)


if __name__ == "__main__":
    os.environ["TASK_DATA"] = sys.argv[1]
    baton = Baton(flwr=version("flwr"), ray=version("ray"), workers=WORKERS)
    cpu = dict(client_resources=dict(num_cpus=1, num_gpus=0), init_args=dict(num_cpus=WORKERS, include_dashboard=False))
    run_simulation(server_app, client_app, num_supernodes=CLIENTS, backend_config=cpu)
