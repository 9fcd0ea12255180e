"""The plain engine: one client after the other. It is the specification of the fast ones."""

from copy import deepcopy

import torch
from torch import Tensor

from ladp.keys import one_thread
from ladp.privacy.mechanism import Seen
from ladp.privacy.release import Receipt, release
from ladp.training.local import Schedule, evaluate, normalise, train
from ladp.training.quick import quicken
from ladp.training.recordwise import recordwise
from ladp.training.work import Uploads, Work, refuse_nan


class Sequential:
    """Clients take turns in one model."""

    def __init__(self, work: Work):
        self.work = work
        self.model = quicken(deepcopy(work.model).to(work.device, work.dtype, memory_format=torch.channels_last))
        self.images, self.labels = work.images.to(work.device), work.labels.to(work.device)
        self.test = work.test_images.to(work.device), work.test_labels.to(work.device)

    def round(self, seen: Seen, cohort: list[int], counts: Tensor, memory: Tensor | None = None) -> Uploads:
        rows = torch.empty(len(cohort), self.work.layout.size, dtype=self.work.dtype, device=self.work.device)
        tallies = counts.repeat(len(cohort), 1)
        losses, receipts = [], []
        for k, client in enumerate(cohort):
            loss, receipt = self.serve(seen.of(k), client, rows[k : k + 1], tallies[k], None if memory is None else memory[k : k + 1])
            losses.append(loss)
            receipts.append(receipt)
        return Uploads(rows, tallies, torch.tensor(losses, dtype=torch.float64), Receipt.join(receipts))

    def serve(self, seen: Seen, client: int, row: Tensor, tally: Tensor, memory: Tensor | None) -> tuple[float, Receipt]:
        """One client's round, Algorithm 2: line 1 here, lines 2 to 9 in `train`, 10 to 17 in `release`; fills `row` [1, size] and `tally`."""
        if self.work.recordwise:
            return self.step(seen, client, row, memory)
        work, layout = self.work, self.work.layout
        layout.write(seen.current, self.model)
        layout.recount(tally, self.model)
        indices = torch.from_numpy(work.split.indices(client)).to(self.images.device)
        schedule = Schedule.draw(work.key, seen.round, client, len(indices), work.training)
        with one_thread(), work.key.at("dropout", seen.round, client).reign():
            images = normalise(self.images.index_select(0, indices), work.dtype)
            loss = train(self.model, images, self.labels[indices], schedule, work.training, work.precision == "bf16", int(seen.turns[0] * seen.steps[0]))
            layout.read(self.model, row[0])
            tally.copy_(layout.count(self.model))
            refuse_nan(work, seen, client, loss, row[0])
            return loss, release(work.mechanism, seen, row, [work.key.at("noise", seen.round, client)], memory)

    def step(self, seen: Seen, client: int, row: Tensor, memory: Tensor | None) -> tuple[float, Receipt]:
        """One client's round where every local step is noised (unit record)."""
        with one_thread(), self.work.key.at("dropout", seen.round, client).reign():
            rows, losses, receipt = recordwise(self.work, self.model, self.images, self.labels, seen, memory)
            row.copy_(rows)
            refuse_nan(self.work, seen, client, losses[0].item(), row[0])
            return losses[0].item(), receipt

    def evaluate(self, row: Tensor, counts: Tensor) -> tuple[float, float]:
        """Test accuracy and mean test loss of a global model."""
        right, loss = self.tested(row, counts, slice(None))
        return right / len(self.test[1]), loss / len(self.test[1])

    def tested(self, row: Tensor, counts: Tensor, part: slice) -> tuple[int, float]:
        """The same as sums over a part of the test set."""
        self.work.layout.write(row, self.model)
        self.work.layout.recount(counts, self.model)
        with one_thread():
            return evaluate(self.model, self.test[0][part], self.test[1][part])

    def close(self) -> None:
        """Nothing is held."""
