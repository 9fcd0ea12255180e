"""What attacks found stands on the page: scores beside accuracy, pictures that can do nothing."""

import json
import re

import pytest
from invented import make

from ladp import report
from ladp.errors import Problem


def find(folder, name="0a", score=0.7, **more):
    out = folder / "attacks" / name
    out.mkdir(parents=True)
    (out / "sheet.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    findings = {"attack": "gan", "view": "peer", "options": {"steps": 2}, "scores": {"fid": score, "by": {"class 5": 1.5}}, "notes": ["small"], "pictures": ["sheet"]}
    (out / "findings.json").write_text(json.dumps(findings | more))


@pytest.fixture
def page(tmp_path):
    for seed, score in ((0, 0.5), (1, 1.5)):
        find(make(tmp_path, "none", seed=seed), score=score)
    find(make(tmp_path, "full"), score=9.0)
    find(make(tmp_path, "ladp"), score=4.0, options={"steps": 3})
    return lambda: report.write([tmp_path], tmp_path / "report.html").read_text("utf-8")


def test_scores_stand_beside_accuracy_over_seeds_and_options_tell_attacks_apart(page):
    text = page()
    assert "What an adversary got out of it" in text and "gan (view peer)" in text and "1.0 ± 0.7" in text and "ladp ε 0.5, steps 3" in text
    assert "fid against accuracy" in text and text.count('class="leader') >= 3 and "by.class 5" in text and "<li>small</li>" in text


def test_pictures_are_images_and_their_scripts_are_not_on_the_page(page):
    text = page()
    assert text.count('src="data:image/svg+xml;base64,') == 3 and "alert(1)" not in text and "img-src data:" in text
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)


@pytest.mark.parametrize(("content", "said"), [("{", "is damaged"), ("[]", "is damaged"), ('{"attack": "gan"}', "'view' is missing")])
def test_damaged_findings_are_refused_by_name(tmp_path, content, said):
    find(make(tmp_path))
    path = next(tmp_path.glob("*/attacks/*/findings.json"))
    path.write_text(content)
    with pytest.raises(Problem, match=f"{path.name}.*{said}"):
        report.write([tmp_path], tmp_path / "report.html")


def test_without_attacks_there_is_no_such_section(tmp_path):
    make(tmp_path)
    assert "adversary got" not in report.write([tmp_path], tmp_path / "report.html").read_text("utf-8")
