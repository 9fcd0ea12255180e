"""What a Flower client does in a round; a module of its own, because Ray's workers import it."""

import os
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.nn import functional as F

from task import BATCH, CLIP, CNN, EPOCHS, LR, SIGMA, Data

app = ClientApp()


@cache
def data() -> Data:
    torch.set_num_threads(1)
    return Data(os.environ["TASK_DATA"])


@app.train()
def train(message: Message, context: Context) -> Message:
    images, labels = data().client(int(context.node_config["partition-id"]))
    model = CNN().train()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=LR)
    for _ in range(EPOCHS):
        for picked in torch.randperm(len(labels)).split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(model(images[picked]), labels[picked]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
    weights = {name: w + SIGMA * torch.randn_like(w) for name, w in model.state_dict().items()}
    return Message(RecordDict({"arrays": ArrayRecord(weights), "metrics": MetricRecord({"num-examples": len(labels)})}), reply_to=message)
