"""The noise to be expected, beside noise that the real engine drew."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import nn

from ladp.data.partition import create as partition
from ladp.errors import Problem
from ladp.federation import begin, federate
from ladp.mechanisms import Full, LaDP, NoNoise, Sensitive
from ladp.models import create
from ladp.privacy.mechanism import Plan
from ladp.studies.expected import UNSEEN, beside, expect, outline
from ladp.training.sequential import Sequential


@dataclass(frozen=True)
class Fading(Full):
    """A schedule that nothing in the package knows: sigma fades by `fade` a round, and biases get half."""

    name: ClassVar[str] = "fading"
    fade: float = 0.7

    def plan(self, seen, local=None, memory=None):
        plan = super().plan(seen)
        share = torch.tensor([0.5 if layer.name.endswith("bias") else 1.0 for layer in plan.layers], dtype=torch.float64)
        return Plan(plan.layers, plan.sigma * share * self.fade ** (seen.round - 1))


@dataclass(frozen=True)
class Counting(Full):
    """Noise that grows with how often the client took part: it remembers."""

    name: ClassVar[str] = "counting"

    def remembers(self, layout):
        return 1

    def plan(self, seen, local=None, memory=None):
        plan = super().plan(seen)
        return Plan(plan.layers, plan.sigma * (1 + memory), memory=memory + 1)


@dataclass(frozen=True)
class Following(Full):
    """Noise that follows the last step of the global model: public, and yet not known before."""

    name: ClassVar[str] = "following"

    def plan(self, seen, local=None, memory=None):
        plan = super().plan(seen)
        return plan if seen.previous is None else Plan(plan.layers, plan.sigma * (seen.current - seen.previous).norm())


@dataclass(frozen=True)
class Looking(NoNoise):
    """Peeks, and has no constant of its own."""

    name: ClassVar[str] = "looking"
    peeks: ClassVar[bool] = True


def network():
    return create("cnn-small", 10, 1, 8, "batch")


@pytest.mark.parametrize("method", [Full(state="all", epsilon=0.2), Full(layers="module"), Fading(state="all"), Full(sensitivity="steps"), NoNoise()])
def test_the_engine_draws_what_is_expected_within_sampling_error(recipe, make_work, method):
    work = make_work(replace(recipe, method=method, norm="batch", partition=partition("iid")))
    drawn = sum(event.receipt.noise.sum().item() / work.active for event in federate(work, Sequential(work), begin(work), 5))
    records = set(work.split.sizes().tolist())
    found = expect(method, network(), 5, work.active, work.training, max(records))
    assert max(records) - min(records) <= 1 and work.training.steps(max(records)) == work.training.steps(min(records))
    assert abs(drawn - found.noise_scale) <= 4 * found.sd
    assert found.sd == 0 or abs(drawn - 1.5 * found.noise_scale) > 40 * found.sd


def test_a_schedule_of_a_method_is_followed_round_by_round():
    one, three = (expect(Fading(), network(), rounds, 4).noise_scale for rounds in (1, 3))
    assert three == pytest.approx(one * (1 + 0.7 + 0.49))
    found = expect(Fading(fade=0.9965), network(), 400, 4)
    assert found.last_sigma / found.sigma == pytest.approx(0.9965**399)
    assert found.noise_scale / expect(Fading(fade=1.0), network(), 400, 4).noise_scale == pytest.approx(0.539, abs=0.001)


def test_what_a_method_remembers_is_handed_on():
    assert expect(Counting(), network(), 3, 4).noise_scale == pytest.approx(expect(Full(), network(), 1, 4).noise_scale * (1 + 2 + 3))


def test_a_method_that_follows_the_models_is_refused_rather_than_guessed():
    assert expect(Following(), network(), 1, 4).noise_scale == expect(Full(), network(), 1, 4).noise_scale
    with pytest.raises(Problem, match="the noise of method 'following' follows the global models, which only a run has"):
        expect(Following(), network(), 2, 4)
    with pytest.raises(Problem, match="the noise of method 'looking' follows the private weights"):
        expect(Looking(), network(), 2, 4)


def test_a_method_that_peeks_counts_as_noising_every_layer_at_its_constant():
    found = expect(LaDP(epsilon=0.5), network(), 3, 4)
    assert found.taken == UNSEEN and expect(Full(), network(), 3, 4).taken is None
    assert found.noise_scale / expect(Full(epsilon=0.5), network(), 3, 4).noise_scale == pytest.approx(1.5219 / 2.8758, rel=1e-4)


def test_sensitive_counts_at_the_middle_of_its_range_and_its_faithful_form_is_refused():
    found = expect(Sensitive(epsilon=0.5), network(), 3, 4)
    assert "middle of the range" in found.taken and found.noise_scale == pytest.approx(0.32 * expect(Full(epsilon=0.5), network(), 3, 4).noise_scale)
    with pytest.raises(Problem, match="the noise of method 'sensitive' follows the private weights, which only a run has"):
        expect(Sensitive(form="faithful"), network(), 3, 4)
    with pytest.raises(Problem, match="the noise of method 'sensitive' follows the global models"):
        expect(Sensitive(beta=0.0), network(), 3, 4)


def test_counters_are_one_more_number_each():
    without, with_them = (expect(Full(state="all"), outline("resnet18", 10), 1, 10, counters=c) for c in (False, True))
    assert (without.noised_layers, with_them.noised_layers) == (102, 122)
    assert with_them.noised_numbers - without.noised_numbers == 20 and 0 < with_them.noise_scale - without.noise_scale < 0.002 * without.noise_scale


def test_a_module_counts_as_one_layer_if_asked_to():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    noised = lambda **options: expect(Full(**options), model, 1, 1, counters=options.get("state") == "all")
    assert (noised(state="all").noised_layers, noised(state="all", layers="module").noised_layers, noised(layers="module").noised_layers) == (7, 3, 2)
    assert noised(state="all").noised_numbers == 12 + 5 * 3 + 1 and noised(layers="module").noised_numbers == 15 + 6


def test_full_dp_is_printed_where_it_is_expected_in_three_cells_of_twenty():
    rows = beside("full")
    assert len(rows) == 20 and all(row["taken"] is None for row in rows)
    exact = [(row["printed"], round(row["expected"])) for row in rows if abs(row["deviations"]) < 2]
    assert exact == [("727,901", 727_906), ("727,894", 727_906), ("727,895", 727_906)]
    assert all(abs(row["ratio"] - 1) > 0.01 for row in rows if abs(row["deviations"]) >= 2)


@pytest.mark.parametrize("model, data, ratios", [
    ("resnet18", "cifar10", (1.000, 1.041, 1.055, 0.701)), ("resnet18", "cifar100", (1.068, 1.105, 1.184, 0.907)),
    ("cnn", "cifar10", (1.015, 1.194, 1.146, 0.819)), ("cnn", "cifar100", (1.111, 1.132, 1.210, 0.924)),
])
def test_printed_over_expected_is_as_recorded(model, data, ratios):
    rows = [row for row in beside("full") if (row["table"], row["model"], row["data"]) == ("noise", model, data)]
    assert [row["epsilon"] for row in rows] == [0.2, 0.3, 0.4, 0.5]
    assert [row["ratio"] for row in rows] == pytest.approx(list(ratios), abs=6e-4)


def test_only_methods_of_the_papers_noise_tables_have_something_printed():
    with pytest.raises(Problem, match="unknown method of the paper's noise tables 'none'"):
        beside("none")
