"""One client's arithmetic beside the same steps written plainly with torch's own optimiser."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ladp import models
from ladp.errors import Problem
from ladp.keys import Key
from ladp.privacy.mechanism import Training
from ladp.training.local import PAD, Schedule, augment, clip_gradients, normalise, take, train


def client(n=23, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 1, 8, 8), generator=generator, dtype=torch.uint8), torch.randint(0, 10, (n,), generator=generator)


@pytest.mark.parametrize("clip", [20.0, 0.5])
def test_local_training_is_mini_batch_sgd_with_the_gradient_of_the_whole_model_clipped(clip):
    images, labels = client()
    training = Training(epochs=3, batch=10, lr=0.2, clip=clip)
    model = models.create("cnn-small", channels=1, size=8, norm="batch").double()
    plain, optimiser = copy.deepcopy(model), None
    schedule = Schedule.draw(Key(0), 1, 0, 23, training)
    loss = train(model, normalise(images, torch.float64), labels, schedule, training)
    optimiser, losses = torch.optim.SGD(plain.parameters(), lr=0.2), []
    for order in schedule.order:
        for batch in torch.from_numpy(order).split(10):
            optimiser.zero_grad()
            value = F.cross_entropy(plain(images[batch].double() / 127.5 - 1), labels[batch])
            value.backward()
            norm = torch.sqrt(sum((p.grad**2).sum() for p in plain.parameters()))
            for p in plain.parameters():
                p.grad /= max(1.0, norm.item() / clip)
            optimiser.step()
            losses.append(value.item())
    assert all(torch.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(model.state_dict().values(), plain.state_dict().values()))
    assert loss == pytest.approx(np.mean(losses), rel=1e-10)
    assert len(losses) == training.steps(23) == 9


def test_a_gradient_under_the_bound_is_left_as_it_is_and_one_over_it_gets_the_norm_of_the_bound():
    small, large = [torch.tensor([0.3, 0.4])], [torch.tensor([30.0]), torch.tensor([[40.0]])]
    clip_gradients(small, 20.0)
    clip_gradients(large, 20.0)
    assert torch.equal(small[0], torch.tensor([0.3, 0.4]))
    assert torch.allclose(torch.stack([g.norm() for g in large]).norm(), torch.tensor(20.0)) and large[0].item() == pytest.approx(12)


def test_taken_images_are_those_asked_for_and_keep_channels_last():
    images = normalise(torch.randint(0, 256, (9, 3, 8, 8), dtype=torch.uint8))
    taken = take(images, torch.tensor([4, 0, 4]))
    assert torch.equal(taken, images[[4, 0, 4]]) and taken.is_contiguous(memory_format=torch.channels_last)


def test_every_epoch_meets_every_record_once_in_an_order_of_its_own():
    schedule = Schedule.draw(Key(0), 2, 5, 30, Training(epochs=2))
    assert [sorted(order) for order in schedule.order.tolist()] == [list(range(30))] * 2
    assert schedule.order[0].tolist() != schedule.order[1].tolist()
    assert schedule.order.tolist() != Schedule.draw(Key(0), 2, 6, 30, Training(epochs=2)).order.tolist()


def test_augmentation_is_a_crop_from_a_black_frame_and_a_mirror():
    images = normalise(client(4)[0])
    shift = torch.tensor([[0, 0], [4, 4], [8, 8], [2, 7]])
    moved = augment(images, shift, torch.tensor([0, 1, 0, 1]))
    for k, (dy, dx) in enumerate(shift.tolist()):
        frame = F.pad(images[k], (PAD,) * 4, value=-1.0)[:, dy : dy + 8, dx : dx + 8]
        assert torch.equal(moved[k], frame.flip(-1) if k % 2 else frame)
    assert torch.equal(moved[1], images[1].flip(-1))


def test_unused_and_frozen_weights_are_left_alone():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(64, 10), nn.Linear(3, 3)
            self.used.bias.requires_grad_(False)

        def forward(self, x):
            return self.used(x.flatten(1))

    model, (images, labels), training = Odd(), client(), Training()
    before = copy.deepcopy(model.state_dict())
    train(model, normalise(images), labels, Schedule.draw(Key(0), 1, 0, 23, training), training)
    after = model.state_dict()
    assert [k for k in before if not torch.equal(before[k], after[k])] == ["used.weight"]


@pytest.mark.parametrize("name", ["epochs", "batch", "lr", "clip"])
def test_a_training_constant_that_is_not_positive_is_refused(name):
    with pytest.raises(Problem, match=f"{name} must be positive, got -1"):
        Training(**{name: -1})
