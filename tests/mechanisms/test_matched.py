"""One budget for all methods: each that does not peek ends at the same epsilon, by an accountant that is not ours; those that peek are said to be nominal."""

import json
import math
from dataclasses import replace

import pytest
import torch
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from typer.testing import CliRunner
from variants import VARIANTS, Scene

import ladp
from ladp import report
from ladp.cli import app
from ladp.errors import Problem
from ladp.federation import Calendar, begin, federate
from ladp.keys import Key
from ladp.privacy.budget import Budget
from ladp.privacy.mechanism import Allowance, Training
from ladp.privacy.release import release
from ladp.training.sequential import Sequential

BUDGETED = [name for name in VARIANTS if name != "none"]
PEEKING = [name for name in BUDGETED if VARIANTS[name].peeks]
HONEST = [name for name in BUDGETED if not VARIANTS[name].peeks]
PEER, SERVER = Budget(epsilon=6.0, delta=1e-4), Budget(epsilon=6.0, delta=1e-4, view="server", clip=0.7)


def method(name):
    """Uneven schedules, and for LaDP a floor, so that there is something to match."""
    changes = {"time-varying": dict(ratio=0.9), "dpa": dict(contraction=0.7), "ladp": dict(floor=1e-12, bound=1e-7)}.get(VARIANTS[name].name, {})
    return replace(VARIANTS[name], **changes)


@pytest.fixture
def budgeted(recipe):
    return lambda name, budget=PEER, rounds=8: replace(recipe, method=method(name), budget=budget, mean="equal", clients=8, active=4, rounds=rounds, training=Training(batch=50, epochs=1), engine="sequential")


@pytest.mark.parametrize("view", ["peer", "server"])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.03, 1.0, 50.0])
def test_what_is_allotted_can_be_paid_to_the_last_bit_however_small_epsilon_is(epsilon, view):
    budget, cohorts = Budget(epsilon=epsilon, view=view), [[k % 7, (k + 3) % 7, 7, 8] for k in range(12)]
    allotted = budget.allot([0.9**k for k in range(12)], cohorts)
    for client in range(9):
        spent = {(z, 4): 1 for z, cohort in zip(allotted, cohorts, strict=True) if client in cohort}
        assert budget.cost(spent).epsilon <= epsilon
    assert budget.cost({(z, 4): 1 for z in allotted}).epsilon > 0.999 * epsilon


def composed(multipliers, delta):
    """epsilon of Gaussian releases, by dp-accounting."""
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for z in multipliers:
        accountant.compose(GaussianDpEvent(z))
    return accountant.get_epsilon(delta)


def spent(work, rounds):
    """Each client's multipliers, from what really left: sigma of each layer over the scale that it was clipped in, in ratios of the plan."""
    found = {}
    for event in federate(work, Sequential(work), begin(work), rounds, "equal"):
        for client, z in zip(event.cohort, event.receipt.multiplier[:, 0].tolist()):
            found.setdefault(client, []).append(z)
    return found


@pytest.mark.parametrize("budget, gain", [(PEER, math.sqrt(4 - 1) / 2), (SERVER, 0.5)], ids=["peer", "server"])
@pytest.mark.parametrize("name", HONEST)
def test_the_client_that_spends_most_ends_at_the_budget_and_nobody_beyond(budgeted, make_work, name, budget, gain):
    work = make_work(budgeted(name, budget))
    ends = {client: composed([gain * z for z in multipliers], budget.delta) for client, multipliers in spent(work, 8).items()}
    assert max(ends.values()) == pytest.approx(6.0, abs=0.02)


@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("name", BUDGETED)
def test_an_upload_is_within_its_clip_and_has_the_noise_it_is_charged_for(see, name, later):
    """In the scaled norm: sum over layers of ||v_j||^2 / s_j^2 is at most 1, and sigma_j = z s_j, so the release is one Gaussian of multiplier z."""
    scene = Scene(see, method(name), later, size=0.05)
    granted = Allowance(torch.tensor([3.0, 4.0, 5.0], dtype=torch.float64), 0.8, torch.tensor([2, 1, 0]))
    scene.seen = replace(scene.seen, allowance=granted)
    keys, tiny = scene.keys(), 1e-30
    send = lambda seen: (rows := scene.rows.clone(), release(scene.method, seen, rows, keys, None if scene.memory is None else scene.memory.clone()))  # noqa: E731
    (noisy, receipt), (clean, quiet) = send(scene.seen), send(replace(scene.seen, allowance=replace(granted, multiplier=granted.multiplier * tiny)))
    z = receipt.multiplier[:, :1]
    scale = receipt.sigma / z
    layers = scene.seen.layout.layers("tensor", "trainable")
    if not name.startswith("adapldp") or scene.method.form == "as-run":  # elsewhere the direction step comes after the noise, which costs nothing
        length = torch.stack([(clean - scene.current)[:, e.start : e.stop].norm(dim=1) for e in layers], 1)
        assert ((length / scale).square().sum(1).sqrt() - 1).abs().max() < 1e-9
        sizes = torch.tensor([len(e) for e in layers])
        assert ((receipt.noise / receipt.sigma / sizes.sqrt() - 1).abs() * (2 * sizes).sqrt()).max() < 5
    sizes = torch.tensor([len(e) for e in layers], dtype=torch.float64)
    assert ((sizes * scale.square()).sum(1) / sizes.sum()).sqrt().max() <= 0.8 * (1 + 1e-9)  # no scale is longer than the budget's clip
    if not scene.method.peeks:
        torch.testing.assert_close(z[:, 0], granted.multiplier)


@pytest.mark.parametrize("name", HONEST)
def test_what_is_certified_is_the_budget_and_stands_in_the_folder(budgeted, tmp_path, name):
    result = ladp.run(budgeted(name), tmp_path / "a")
    assert result["certified"]["epsilon"] == pytest.approx(6.0, abs=1e-6) and result["certified"]["epsilon"] <= 6.0
    assert (result["certified"]["unit"], result["certified"]["delta"]) == ("client", 1e-4) and result["certified"]["view"].startswith("peer, all uploads")
    assert result["claimed"]["epsilon"] == 6.0 and result["claimed"]["accountant"] == "exact composition of Gaussians"


@pytest.mark.parametrize("name", PEEKING)
def test_a_method_that_peeks_is_nominal_and_certified_infinite(budgeted, tmp_path, name):
    result = ladp.run(budgeted(name), tmp_path / "a")
    assert result["certified"]["epsilon"] == "inf" and "its noise depends on the private weights" in result["certified"]["reasons"][0]
    assert result["claimed"]["epsilon"] == 6.0 and result["claimed"]["accountant"].startswith("nominal")
    spent = {}
    for record in map(json.loads, (tmp_path / "a/rounds.jsonl").open()):
        for client, z in zip(record["clients"], record["multipliers"]):
            spent[client] = spent.get(client, 0.0) + z**-2
    assert composed([math.sqrt(3) / 2 / math.sqrt(max(spent.values()))], 1e-4) == pytest.approx(6.0, abs=0.02)


@pytest.mark.parametrize("name, ratio", [("time-varying faithful", 0.9), ("dpa as-run", 0.7**0.25), ("full faithful", 1.0)])
def test_a_schedule_keeps_its_shape_under_a_budget(budgeted, make_work, name, ratio):
    work = make_work(budgeted(name))
    z = Calendar.of(work, 0, 8).multipliers
    assert [later / now for now, later in zip(z, z[1:])] == pytest.approx([ratio] * 7)


def test_equal_budgets_are_equally_long_noise_whatever_its_shape(see):
    """Else one method would only be a shorter clip."""
    lengths = []
    for name in HONEST:
        scene = Scene(see, method(name))
        scene.seen = replace(scene.seen, allowance=Allowance(torch.full((3,), 2.0, dtype=torch.float64), 0.5, torch.zeros(3, dtype=torch.int64)))
        lengths.append(release(scene.method, scene.seen, scene.rows.clone(), [Key(0).at("noise", k) for k in range(3)], scene.memory).sigma.square().mean().sqrt().item())
    assert lengths == pytest.approx([1.0] * len(lengths))


def test_the_report_leaves_those_that_peek_out_of_the_certified_table(budgeted, tmp_path):
    for name in ("full as-run", "time-varying as-run", "ladp"):
        ladp.run(budgeted(name), tmp_path / name)
    rows = report.rows([tmp_path])
    kept = report.certified(rows)
    assert [row["method"] for row in kept] == ["full", "time-varying"] and {row["method"] for row in rows} > {"ladp"}
    page = report.write([tmp_path], tmp_path / "page.html").read_text("utf-8")
    table = page.split("With a finite certified ε")[1].split("</table>")[0]
    assert "time-varying" in table and "ladp" not in table and "Left out, as no finite ε is certified: ladp" in page
    shown = CliRunner().invoke(app, ["report", str(tmp_path), "--certified", "--format", "csv"]).stdout
    assert [line.split(",")[1] for line in shown.splitlines()[1:]] == ["full", "time-varying"]
    with pytest.raises(Problem, match="no finite epsilon is certified of any of these runs"):
        CliRunner().invoke(app, ["report", str(tmp_path / "ladp"), "--certified"], catch_exceptions=False)


@pytest.mark.parametrize("change, words", [
    (dict(mean="size"), "set mean = 'equal'"), (dict(method=ladp.NoNoise()), "method 'none' adds no noise"), (dict(norm="batch"), "would leave without noise.*norm = 'group'"),
    (dict(active=1), "no noise but their own is left"),
])  # fmt: skip
def test_what_no_budget_can_be_kept_for_is_refused(budgeted, tmp_path, change, words):
    with pytest.raises(Problem, match=words):
        ladp.run(replace(budgeted("full as-run"), **change), tmp_path / "a")


@pytest.mark.parametrize("options, words", [(dict(epsilon=0.0), "epsilon"), (dict(clip=0.0), "clip of the budget must be positive, got 0"), (dict(view="pear"), "did you mean 'peer'"), (dict(colluders=-1), "colluders must not be negative")])
def test_a_wrong_budget_is_refused(options, words):
    with pytest.raises(Problem, match=words):
        Budget(**options)
