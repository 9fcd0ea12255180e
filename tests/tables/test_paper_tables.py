"""The tables are the paper's, number by number, misprints and all."""

import re

import paper
import pytest

from ladp.errors import Problem
from ladp.tables import NAMES, load

printed_here = pytest.mark.skipif(paper.SOURCE is None, reason="the paper's source does not lie beside the checkout")


@printed_here
@pytest.mark.parametrize("name", paper.TABLES)
def test_every_number_stands_where_the_paper_prints_it(name):
    axes = paper.AXES.get(name, paper.GENERAL)
    held = {tuple(entry.where[axis] for axis in axes): entry.printed for entry in load(name).entries}
    assert held == {at: cell for at, cell in paper.TABLES[name]().items() if cell != "-"}


@printed_here
def test_the_combinations_are_the_printed_ones():
    said = [" ".join(line).strip() for line in paper.lines("tab:datasets")]
    assert said[1:5] == ["Performance CIFAR-100 100 ResNet-18, CNN", "CIFAR-10 10 ResNet-18, CNN", "Attack defense CIFAR-10 10 ResNet-18", "FEMNIST 62 CNN"]
    held = {(e.where["evaluation"], e.where["data"], e.where["model"], e.printed) for e in load("combinations").entries}
    assert held == {("performance", d, m, c) for d, c in (("cifar100", "100"), ("cifar10", "10")) for m in ("resnet18", "cnn")} | {
        ("attack", "cifar10", "resnet18", "10"), ("attack", "femnist", "cnn", "62")}


@printed_here
def test_every_table_of_the_paper_is_there():
    labels = {label for body in re.findall(r"\\begin\{table\*?\}(.*?)\\end\{table\*?\}", paper.source(), re.S) for label in re.findall(r"\\label\{(.*?)\}", body)}
    assert labels == {load(name).label for name in NAMES} - {"text"}


@printed_here
def test_the_text_table_holds_every_percentage_of_every_section_and_no_other():
    held: dict[str, set] = {}
    for entry in load("text").entries:
        held.setdefault(entry.where["place"], set()).add(entry.printed)
    prose = paper.sections()
    for name, text in prose.items():
        found = set(re.findall(r"\d+(?:\.\d+)?(?=\\%)", text))
        assert found == {printed[:-1] for printed in held.get(name, ()) if printed.endswith("%")}, name
    assert all(printed in prose[name] for name, ones in held.items() for printed in ones if not printed.endswith("%"))


@pytest.mark.parametrize("name", NAMES)
def test_no_place_holds_two_numbers_and_every_entry_can_be_asked_for(name):
    table = load(name)
    kinds = {tuple(entry.where) for entry in table.entries}
    assert len(kinds) == 1
    if name != "text":  # says many things twice
        assert len(table.cells) == len(table.entries) and all(table.entry(**entry.where) is entry for entry in table.entries)


def test_misprints_are_kept_and_what_they_mean_is_told():
    wrong = [entry for name in NAMES for entry in load(name).entries if entry.meant != entry.printed]
    assert {(entry.table, entry.printed, entry.value) for entry in wrong} == {("accuracy", "8.4A", 8.44), ("p-values", "6,62e-5", 6.62e-5)}
    assert all(entry.mark for entry in wrong)
    assert load("accuracy").entry(model="cnn", data="cifar10", epsilon=0.2, quantity="improvement", method="adapldp").printed == "8.4A"


def test_a_number_is_asked_for_by_where_it_stands():
    table = load("noise")
    assert table.entry(model="resnet18", data="cifar10", epsilon=0.2, method="full", quantity="noise_scale").value == 727_901
    assert load("heterogeneity").entry(method="none", distribution="II", quantity="accuracy").where["epsilon"] is None
    assert load("fid").entry(epsilon=0.5, method="ladp", role="private", data="femnist").printed == "72.48"
    with pytest.raises(Problem, match="has 8 entries"):
        load("noise").entry(model="cnn", method="full", quantity="noise_scale")
    with pytest.raises(Problem, match="did you mean 'noise'"):
        load("nois")


def test_units_follow_the_quantity():
    units = {entry.where["quantity"]: entry.unit for name in NAMES for entry in load(name).entries if name != "text"}
    assert units == {"accuracy": "%", "improvement": "%", "noise_scale": "", "reduction": "%", "seconds": "s", "increment": "%", "p": "", "fid": "", "classes": ""}


@pytest.mark.parametrize("name, where, value, agrees", [
    ("accuracy", dict(model="resnet18", data="cifar100", epsilon=0.5, quantity="accuracy", method="full"), 41.24, True),  # printed 41.2
    ("accuracy", dict(model="resnet18", data="cifar100", epsilon=0.5, quantity="accuracy", method="full"), 41.26, False),
    ("noise", dict(model="cnn", data="cifar10", epsilon=0.5, quantity="reduction", method="time-varying"), 37.9513, False),  # printed 37.94
    ("noise", dict(model="resnet18", data="cifar10", epsilon=0.2, quantity="noise_scale", method="full"), 727_901.4, True),
    ("p-values", dict(about="noise_scale", model="mean", method="full"), 8.085e-6, True),  # a tie: 8.09e-6
    ("p-values", dict(about="noise_scale", model="mean", method="adapldp"), 6.68e-5, False),
])
def test_agreement_is_to_the_digits_printed(name, where, value, agrees):
    assert load(name).entry(**where).agrees(value) is agrees


def test_ours_is_written_with_the_digits_of_the_paper():
    assert load("noise").entries[0].like(12345.678) == "12,346"
    assert load("accuracy").entries[0].like(7.0) == "7.00"
    assert load("p-values").entries[0].like(0.00012345) == "1.23e-4" and load("p-values").entries[0].like(1.0) == "1.00e0"
