"""The paper's averages come out of its cells; where they do not, it is known which, and what does."""

import pytest

from ladp.metrics.rates import RATES
from ladp.tables import NAMES, load
from ladp.tables.arithmetic import BASELINES, derive, figures, overall, scenarios
from ladp.tables.claims import RULES, SAID, reason, recompute, stated
from ladp.tables.compare import check

GAIN = dict(zip(BASELINES, ("236.32", "144.93", "102.42", "25.18", "6.10")))
SAVING = dict(zip(BASELINES, ("69.32", "51.35", "1.20", "40.54", "68.31")))


@pytest.mark.parametrize("rate, printed, all_of_them", [("improvement", GAIN, "102.99"), ("reduction", SAVING, "46.14")])
def test_the_averages_of_the_introduction_come_out_of_the_cells(rate, printed, all_of_them):
    assert {name: f"{overall(rate, name, figures()):.2f}" for name in BASELINES} == printed
    assert f"{overall(rate, 'all', figures()):.2f}" == all_of_them


def test_the_averages_are_of_ratios_that_were_not_rounded():
    """From the scenario means as printed, Time-Varying DP's would be 144.94."""
    means = [entry.value for entry in load("accuracy").find(epsilon="mean", method="time-varying")]
    assert len(means) == 4 and f"{sum(means) / 4 + 1e-9:.2f}" == "144.94" != GAIN["time-varying"]


def test_an_average_of_other_ratios_is_another():
    """A ratio of means instead of a mean of ratios, and 236 % over Full DP are 65 %."""
    cells = load("accuracy").find(quantity="accuracy")
    total = lambda method: sum(entry.value for entry in cells if entry.where["method"] == method)
    assert 100 * (total("ladp") - total("full")) / total("full") == pytest.approx(64.52, abs=0.01)


def test_most_of_the_improvement_comes_of_two_cells_of_sixteen_where_baselines_are_near_chance():
    near_chance = [overall("improvement", "all", figures(), model="cnn", data="cifar100", epsilon=epsilon) for epsilon in (0.2, 0.3)]
    assert sum(near_chance) / 16 > 0.59 * overall("improvement", "all", figures())


def test_all_that_does_not_come_out_is_known_and_marked():
    wrong = [(row["table"], row["printed"]) for row in check() if row["agrees"] is False]
    assert all(row["mark"] for row in check() if row["agrees"] is False)
    assert wrong == [
        ("accuracy-main", "36.22%"), ("accuracy-main", "24.73%"), ("accuracy-main", "18.45%"), ("accuracy-main", "4.62%"),
        ("noise", "37.94"), ("noise", "69.68%"), ("noise-main", "69.68%"), ("p-values", "1.01e-2"),
        ("text", "25.21%"), ("text", "83.15%"), ("text", "80.3%"), ("text", "9.4%"), ("text", "21.4%"), ("text", "15.9%"), ("text", "26.6%"), ("text", "71.6%"),
        ("text", "13.56%"), ("text", "3.09%"), ("text", "17.58%"), ("text", "17.05%"), ("text", "69.68%"),
    ]  # fmt: skip


def test_all_else_that_follows_does_come_out():
    rows = check()
    assert sum(row["agrees"] is True for row in rows) == 330 and len(rows) == 366
    assert all((row["reason"] is None) == (row["recomputed"] is not None) for row in rows)


@pytest.mark.parametrize("claim, value", [
    ("improvement/full/resnet18/cifar10/0.2", 100 * (77.82 - 58.35) / 58.35),
    ("improvement/all/cnn/cifar100/0.2", (1175.61 + 739.04 + 446.69 + 102.98 + 30.32) / 5),
    ("reduction/full/resnet18/cifar10/0.5", 100 * (203_968 - 51_658) / 203_968),
    ("below-full/time-varying", 100 * (203_968 - 193_487) / 203_968),
    ("resnet152/improvement/full", 50 * (82.44 / 45.18 + 89.40 / 72.33 - 2)),
    ("heterogeneity/improvement/full/I", 50 * (42.13 / 30.32 + 48.73 / 35.49 - 2)),
    ("heterogeneity-noise/ladp/II", 274_003),
    ("fid/ladp/cifar10", (147.22 + 94.82) / 2),
    ("fid/none/femnist", 24.35),
    ("fid-gain-least", 50 * ((147.22 + 94.82) / (139.02 + 81.49) + (93.77 + 72.48) / (80.57 + 62.86) - 2)),
    ("increment-most", 100 * (93_775 / 80_110 - 1)),
    ("increment-adaptive-most", 8.3418),
    ("accumulated/time-varying", 100 * (1 - 36.7 / 157.3)),
    ("slope", 3.6),
])
def test_a_claim_is_recomputed_as_a_reader_would(claim, value):
    assert recompute(claim) == pytest.approx(value, rel=1e-4)


def test_what_no_table_holds_is_said_to_be_so():
    assert recompute("ablation/0.2") is None and "figure" in reason("ablation/0.2")
    assert reason("improvement/full") is None and stated("improvement/full") == 236.32


def test_a_claim_about_cells_that_are_missing_has_no_value():
    claims = {str(entry.where["claim"]) for entry in load("text").entries}
    assert all(recompute(claim, {}) is None for claim in claims)
    assert claims >= set(SAID) and {claim.split("/")[0] for claim in claims} >= set(RULES)


def test_one_missing_cell_leaves_its_averages_without_a_value():
    missing = frozenset(load("accuracy").entry(model="cnn", data="cifar10", epsilon=0.3, quantity="accuracy", method="full").where.items())
    cells = {at: value for at, value in figures().items() if at != missing}
    assert overall("improvement", "full", cells) is None and overall("improvement", "dpa", cells) is not None
    assert overall("improvement", "full", cells, model="resnet18") is not None
    mean = load("accuracy").entry(model="cnn", data="cifar10", epsilon="mean", method="full")
    assert derive(mean.where, cells) is None and derive(mean.where, figures()) == pytest.approx(94.955, abs=0.01)


def test_durations_and_their_totals_come_out():
    assert f"{overall('increment', 'full', figures(), model='resnet18'):.2f}" == "16.10"
    total = sum(entry.value for entry in load("time").find(method="ladp", model="resnet18", quantity="seconds"))
    assert total == 93_775 + 93_455 + 94_985 + 96_008


def test_the_main_text_repeats_the_supplement():
    for short, long in (("accuracy-main", "accuracy"), ("noise-main", "noise")):
        for entry in load(short).entries:
            if entry.where["epsilon"] != "mean":
                assert load(long).entry(**entry.where).printed == entry.printed


def test_figures_stand_at_one_place_only():
    names = set(NAMES) - {"text", "combinations", "accuracy-main", "noise-main"}
    assert len(figures()) == sum(len(load(name).entries) for name in names)


def test_scenarios_are_the_papers():
    assert scenarios(load("accuracy")) == [("resnet18", "cifar10"), ("resnet18", "cifar100"), ("cnn", "cifar10"), ("cnn", "cifar100")] == scenarios(load("p-values"))
    assert set(RATES) == {"improvement", "reduction", "increment"}
