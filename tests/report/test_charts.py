"""The pictures: places follow values, labels keep apart, whatever is given is escaped."""

import json
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from ladp.report import chart, heatmap, number
from ladp.report.chart import Series, apart, curves
from ladp.report.layers import Observed, layers
from ladp.report.markup import Markup, join, tag
from ladp.report.number import Spread
from ladp.report.scale import Scale, logarithmic, straight

CELLS = {"conv.weight": {1: 0.1, 2: 10.0}, "conv.bias": {1: 0.0, 2: 0.5}}


def test_what_is_not_markup_is_escaped_in_content_and_in_attributes():
    assert tag("p", "<b>&", title='"><i>') == '<p title="&quot;&gt;&lt;i&gt;">&lt;b&gt;&amp;</p>'
    assert join(Markup("<br/>"), "<", None) == "<br/>&lt;"


def test_a_scale_maps_its_ends_to_its_ends_and_a_decade_to_a_decade():
    assert [Scale(2, 4, 10, 20)(value) for value in (2, 3, 4, 9)] == [10, 15, 20, 20]
    assert Scale(0.01, 100, 0, 4, log=True)(1) == pytest.approx(2)


def test_ticks_are_round_numbers_inside_the_scale():
    assert straight([0, 1], 0, 1, 0.0, 1.0).ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert logarithmic([1e-7, 1e-3]).ticks(6) == pytest.approx([1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
    assert all(2 <= len(straight([low, high], 0, 1).ticks()) <= 8 for low, high in ((0, 1), (3, 3), (-2, 900), (1e-9, 2e-9)))


@pytest.mark.parametrize("heights", [[50, 51, 52, 53], [255, 256, 257], [5, 5, 5, 250, 260, 262], []])
def test_labels_keep_a_line_apart_and_inside_the_picture(heights):
    places = apart([float(height) for height in heights])
    assert all(after - before >= chart.GAP - 1e-9 for before, after in pairwise(places))
    assert all(0 < place <= chart.BOTTOM for place in places)


def test_labels_that_are_far_apart_stay_where_their_lines_end():
    assert apart([40.0, 90.0, 200.0]) == [40.0, 90.0, 200.0]


def test_curves_are_sound_xml_that_says_title_and_text_and_every_label():
    picture = curves("Loss <1>", "ends & all", [Series('"a" <script>', [(1, 0.5, 0.4, 0.6), (2, 0.2, 0.1, 0.3)])])
    root = ElementTree.fromstring(picture)
    words = [element.text for element in root.iter() if element.text]
    assert {"Loss <1>", "ends & all", '"a" <script>'} <= set(words) and "<script>" not in picture
    assert json.loads(root.get("data-curves"))["lines"][0]["at"][1][3] == "0.200 (0.100 to 0.300)"


def test_lines_that_span_decades_get_a_logarithmic_scale():
    picture = curves("loss", "", [Series("a", [(1, 1.0, 1.0, 1.0), (2, 1000.0, 1000.0, 1000.0)])])
    assert ">10<" in picture and ">100<" in picture


def test_a_share_is_shown_in_percent():
    assert ">80<" in curves("accuracy", "", [Series("a", [(1, 0.1, 0.1, 0.1), (2, 0.95, 0.9, 1.0)])], share=True)


def test_nothing_measured_is_said_and_not_drawn():
    assert curves("loss", "", [Series("a", [])]) == '<p class="absent">Nothing was measured.</p>'


def test_a_single_round_is_drawn():
    ElementTree.fromstring(curves("loss", "", [Series("a", [(1, 0.0, 0.0, 0.0)])]))
    ElementTree.fromstring(heatmap.heatmap("noise", "", {"w": {1: 2.0}}, heatmap.scale([2.0])))


def test_a_heatmap_gives_the_least_the_first_shade_the_most_the_last_and_zero_a_stroke():
    picture = heatmap.heatmap("noise", "", CELLS, heatmap.scale([0.1, 0.5, 10.0]))
    shades = re.findall(r'<path d="[^"]+" class="(\w+)"', picture)
    assert sorted(shades) == ["c0", "c11", "c4", "zero"]
    assert json.loads(ElementTree.fromstring(picture).get("data-heat"))["values"] == [[0.1, 10.0], [0.0, 0.5]]


def test_many_rounds_are_averaged_into_columns_that_lose_none():
    columns = heatmap.bins(list(range(1, 401)))
    assert len(columns) <= heatmap.COLUMNS and [place for span in columns for place in span] == list(range(1, 401))
    picture = heatmap.heatmap("noise", "", {"w": {place: float(place) for place in range(1, 401)}}, heatmap.scale([1, 400]))
    assert json.loads(ElementTree.fromstring(picture).get("data-heat"))["values"][0][0] == 4.0


def test_layers_without_p_or_selection_are_still_listed():
    rows = [Observed("a", 1e-6, 1e-7, 1e-5, 3e-6, 0.5), Observed("b", None, None, None, None, None), Observed("c", 0.0, 0.0, 0.0, 0.0, 0.0)]
    words = [element.text for element in ElementTree.fromstring(layers("P", "", rows)).iter()]
    assert {"a", "b", "c", "50 %", "0 %"} <= set(words)


def test_pictures_of_layers_side_by_side_share_their_scale():
    low, high = Observed("a", 1e-6, 1e-6, 1e-6, None, 1.0), Observed("a", 1e-3, 1e-3, 1e-3, None, 1.0)
    dot = lambda rows: re.search(r'<circle cx="([^"]+)"', layers("P", "", rows, [low, high])).group(1)  # noqa: E731
    assert float(dot([low])) < float(dot([high]))
    assert re.findall(r">10[⁻\d⁰¹²³⁴-⁹]+<", layers("P", "", [low], [high])) == re.findall(r">10[⁻\d⁰¹²³⁴-⁹]+<", layers("P", "", [high], [low]))


@pytest.mark.parametrize(("value", "said"), [
    (0.0, "0"), (727906.2, "727,906"), (0.1234, "0.123"), (4.5e-7, "4.5×10⁻⁷"), (float("inf"), "∞"), (None, "–"), (-2.0, "−2.00")])
def test_numbers_are_short(value, said):
    assert number.short(value) == said


@pytest.mark.parametrize(("mean", "deviation", "said"), [
    (93.123, 0.4567, "93.1 ± 0.5"), (1709.04, 119.6, "1,709 ± 120"), (0.5706, 0.0081, "0.571 ± 0.008"), (2.0, None, "2.00"), (788.1, 0.0, "788 ± 0")])
def test_a_mean_has_the_digits_that_its_deviation_allows(mean, deviation, said):
    assert number.ranged(Spread(mean, deviation, 3)) == said


def test_one_run_shows_no_deviation():
    assert number.spread([1.0]).deviation is None and number.spread([1.0, 3.0]).deviation == pytest.approx(2**0.5)
