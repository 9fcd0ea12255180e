"""The loop that papers publish: a deep copy of the model and a DataLoader for each client, one client after the other."""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

from task import BATCH, CLIP, CNN, EPOCHS, LR, SIGMA, Baton, Data, cohort, normalise

data = Data(sys.argv[1])
if len(sys.argv) > 2:
    torch.set_num_threads(int(sys.argv[2]))
records = TensorDataset(normalise(data.images), torch.from_numpy(data.labels))
shards = [Subset(records, data.indices(client).tolist()) for client in range(100)]
model, baton, round = CNN(), Baton(), 0
while baton.wait():
    uploads = []
    for client in cohort(round):
        local = copy.deepcopy(model).train()
        optimiser = torch.optim.SGD(local.parameters(), lr=LR)
        loader = DataLoader(shards[client], batch_size=BATCH, shuffle=True)
        for _ in range(EPOCHS):
            for x, y in loader:
                optimiser.zero_grad()
                F.cross_entropy(local(x), y).backward()
                nn.utils.clip_grad_norm_(local.parameters(), CLIP)
                optimiser.step()
        weights = copy.deepcopy(local.state_dict())
        uploads.append({name: w + SIGMA * torch.randn_like(w) for name, w in weights.items()})
    model.load_state_dict({name: torch.stack([u[name] for u in uploads]).mean(0) for name in uploads[0]})
    round += 1
    baton.done()
baton.say(accuracy=data.accuracy(model))
