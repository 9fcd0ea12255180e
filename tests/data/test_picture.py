from xml.etree import ElementTree

import numpy as np

from ladp.data import picture

SVG = "{http://www.w3.org/2000/svg}"
COUNTS = np.array([[100, 25, 0], [0, 4, 9]])


def test_the_picture_is_whole_xml_that_refers_to_nothing_outside():
    drawn = picture.draw(COUNTS, [0, 7], ("a", "b", "<&>"), 'title "&"', curious=7)
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg" and "href" not in drawn and drawn.count("http") == 1
    assert "title" in root.get("aria-label")


def test_the_area_of_a_disc_is_proportional_to_its_records():
    discs = list(ElementTree.fromstring(picture.draw(COUNTS, [0, 7], tuple("abc"), "t")).iter(f"{SVG}circle"))
    areas = {int(disc[0].text): float(disc.get("r")) ** 2 for disc in discs}
    assert set(areas) == {100, 25, 4, 9} and areas[100] / areas[25] == np.float64(4)
    assert areas[9] / areas[4] == np.float64(2.25) or abs(areas[9] / areas[4] - 2.25) < 0.05


def test_only_the_curious_client_is_orange():
    drawn = picture.draw(COUNTS, [0, 7], tuple("abc"), "t", curious=7)
    colours = {int(disc[0].text): disc.get("fill") for disc in ElementTree.fromstring(drawn).iter(f"{SVG}circle")}
    assert colours[100] == colours[25] == picture.BLUE and colours[4] == colours[9] == picture.ORANGE


def test_the_curious_client_is_always_among_those_shown():
    assert picture.chosen(100, 5, 99) == [0, 1, 2, 3, 99]
    assert picture.chosen(100, 5, 2) == [0, 1, 2, 3, 4] == picture.chosen(100, 5, None)
    assert picture.chosen(3, 20, 2) == [0, 1, 2]
