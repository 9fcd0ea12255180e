"""The page stands alone, says what was run and what was proved, and runs nobody else's script."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from invented import make

from ladp import report
from ladp.errors import Problem

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Checks that elements close in order, and keeps names, attributes and words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.found, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, name, attributes):
        self.found.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.found.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.words.append(text)


@pytest.fixture
def page(runs, tmp_path) -> str:
    return report.write([runs], tmp_path / "report.html").read_text("utf-8")


def test_the_page_is_whole(page):
    reader = Reader(page)
    assert reader.open == [] and page.startswith("<!doctype html>")


def test_the_page_fetches_nothing(page):
    reader = Reader(page)
    addresses = [value for name, attributes in reader.found for key, value in attributes.items() if key in ("src", "href")]
    assert addresses and all(address.startswith("#") for address in addresses)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)


def test_every_inner_link_leads_somewhere_and_no_address_occurs_twice(page):
    reader = Reader(page)
    places = [attributes["id"] for _, attributes in reader.found if "id" in attributes]
    assert len(places) == len(set(places))
    assert {attributes["href"][1:] for name, attributes in reader.found if name == "a"} <= set(places)


def test_only_the_page_s_own_script_may_run(page):
    policy = next(a["content"] for _, a in Reader(page).found if a.get("http-equiv") == "Content-Security-Policy")
    script = re.search(r"<script>(.*?)</script>", page, re.S).group(1)
    assert page.count("<script") == 1
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy


def test_the_first_sentence_says_what_was_run(page):
    assert ("cnn-small trained on digits over 20 clients, 5 of them active in each of 6 rounds: 15 runs in 5 configurations, "
            "seeds 0, 1 and 2, on cpu, by ladp 0.1.0.") in page


def test_every_private_method_is_certified_infinite_with_its_reasons(page):
    words = " ".join(Reader(page).words)
    assert page.count('class="infinite"') == 5
    assert "σ depends on the private weights through P and through the selection of layers" in words


def test_the_terms_of_an_epsilon_stay_on_one_line(page):
    assert "δ\u00a00.02\u00a0·\u00a0record\u00a0·\u00a0one\u00a0upload" in page and "Theorem\u00a03" in page


def test_every_measure_of_the_headline_is_explained(page):
    terms = re.findall(r"<dt>(.*?)</dt>", page)
    assert terms == ["claimed", "certified", "noise scale", "seconds", "±"]
    assert "equal claimed ε is not equal protection" in page


def test_every_picture_has_a_title_and_its_numbers_as_a_table(page):
    pictures = re.findall(r'<svg class="chart.*?</svg>|<svg [^>]*?class="chart.*?</svg>', page, re.S)
    assert len(pictures) == 2 + 4 + 2 and all("<title>" in picture and "<desc>" in picture for picture in pictures)
    assert page.count("<summary>As numbers</summary>") == len(pictures)


def test_a_certified_epsilon_is_shown_with_its_terms_and_no_excuse(tmp_path):
    folder = make(tmp_path, rounds=3)
    facts = json.loads((folder / "run.json").read_text())
    facts["certified"] = {"epsilon": 4.25, "delta": 1e-5, "unit": "client", "view": "peer", "accountant": "PLD", "reasons": []}
    (folder / "run.json").write_text(json.dumps(facts))
    page = report.write([folder], tmp_path / "report.html").read_text("utf-8")
    assert "4.25" in page and "unit client, view peer, accountant: PLD" in page and "infinite" not in Reader(page).words


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    first = report.write([runs], tmp_path / "a.html").read_bytes()
    assert report.write([runs], tmp_path / "b.html").read_bytes() == first


def test_names_that_look_like_markup_stay_words(tmp_path):
    evil = "</style><script>alert(1)</script>\"'&"
    make(tmp_path / "runs", method="safe", rounds=3)
    folder = tmp_path / "runs" / "safe-0.5-0"
    facts = json.loads((folder / "run.json").read_text())
    facts |= {"method": evil, "model": evil, "data": evil, "device": evil, "version": evil, "layers": [evil], "digest": evil}
    facts["claimed"]["accountant"] = facts["certified"]["reasons"][0] = evil
    (folder / "run.json").write_text(json.dumps(facts))
    (folder / "rounds.jsonl").write_text(json.dumps({"round": 1, "accuracy": 0.5, "noise": {evil: 1.0}, "P": {evil: 1.0}, "selected": {evil: 1.0}}))
    page = report.write([folder], tmp_path / "report.html", title=evil).read_text("utf-8")
    assert Reader(page).open == [] and page.count("<script>") == 1 and "alert(1)</script>" not in page


def test_runs_with_the_least_a_folder_can_hold_make_a_page(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "run.json").write_text('{"method": "x", "rounds": 3, "seed": 0}')
    (folder / "recipe.toml").write_text("")
    page = report.write([folder], tmp_path / "report.html").read_text("utf-8")
    assert "unfinished, round 0 of 3" in page and "Nothing was measured." in page
    assert "the run folder holds no certificate" in page


def test_a_place_that_cannot_be_written_is_a_problem_and_leaves_nothing(runs, tmp_path):
    (tmp_path / "taken").mkdir()
    for out in (tmp_path / "taken", runs / "none-free-0" / "run.json" / "report.html"):
        with pytest.raises(Problem, match="cannot write"):
            report.write([runs], out)
    assert not list(tmp_path.rglob("*.part"))
