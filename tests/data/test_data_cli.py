import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from crafted import craft, lay_out
from ladp import data
from ladp.cli.data import app
from ladp.data.cifar import CIFAR10
from ladp.data.dataset import Archive
from ladp.errors import Problem
from publishing import publisher


def ladp(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def small(monkeypatch, url=None):
    """cifar10 with three records a file in the table, its files and its binary archive."""
    source, made, archives = craft(CIFAR10)
    if url:
        first = replace(source.layouts[0], archive=Archive(f"{url}/cifar-10-binary.tar.gz", source.layouts[0].archive.digest))
        source = replace(source, layouts=(first, source.layouts[1]))
    monkeypatch.setitem(data.DATA, "cifar10", source)
    return source, made, archives[0]


def test_check_tells_what_is_there_as_json():
    told = json.loads(ladp("check", "digits", "--json").stdout)
    assert told["ok"] is True and (told["train"], told["test"], told["classes"]) == (1437, 360, 10)
    assert set(told) == {"name", "root", "ok", "train", "test", "classes", "layout", "digests"}


def test_check_of_a_good_folder_names_its_layout_and_digests(tmp_path, monkeypatch):
    source, made, _ = small(monkeypatch)
    lay_out(tmp_path, made)
    told = json.loads(ladp("check", "cifar10", "--root", tmp_path, "--json").stdout)
    assert told["layout"] == "binary folder" and told["digests"] == source.layouts[0].files and told["train"] == 15


def test_check_of_a_bad_folder_says_so_in_json_and_as_a_problem(tmp_path):
    result = ladp("check", "cifar10", "--root", tmp_path, "--json")
    assert json.loads(result.stdout)["ok"] is False and isinstance(result.exception, Problem)
    assert isinstance(ladp("check", "cifar10", "--root", tmp_path).exception, Problem)


def test_the_command_exits_with_2_and_one_line(tmp_path):
    words = [sys.executable, "-c", "from ladp.cli import main; main()", "data", "check", "cifar10", "--root", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "ladp data get cifar10" in done.stderr.replace("\n", " ")


def test_get_fetches_checks_and_the_set_can_be_read(tmp_path, monkeypatch):
    packed = small(monkeypatch)[2]
    with publisher(packed, cut=[100]) as server:
        small(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        result = ladp("get", "cifar10", "--root", tmp_path, "--json")
    assert json.loads(result.stdout)["layout"] == "binary archive" and server.asked == [None, "bytes=100-"]


def test_get_leaves_a_good_copy_alone(tmp_path, monkeypatch):
    with publisher(b"") as server:
        _, made, _ = small(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        lay_out(tmp_path, made)
        assert ladp("get", "cifar10", "--root", tmp_path).exit_code == 0
    assert server.asked == []


def test_get_without_a_network_gives_address_place_and_digest(tmp_path, monkeypatch):
    with publisher(b"") as server:
        url = f"http://127.0.0.1:{server.server_port}"
    source, _, packed = small(monkeypatch, url)
    line = str(ladp("get", "cifar10", "--root", tmp_path).exception)
    assert all(part in line for part in (f"{url}/cifar-10-binary.tar.gz", str(tmp_path), f"md5:{hashlib.md5(packed).hexdigest()}"))


def test_get_femnist_explains_the_script():
    assert "preprocess.sh" in str(ladp("get", "femnist", "--root", "/nowhere").exception)


@pytest.mark.parametrize("partition", ["iid", "isolation", "isolation-overlap", "labels", "quantity", "dirichlet", "draw"])
def test_show_draws_every_partition_of_the_digits(tmp_path, partition):
    out = tmp_path / "picture.svg"
    told = json.loads(ladp("show", "digits", "--partition", partition, "--clients", 12, "--out", out, "--json").stdout)
    discs = list(ElementTree.parse(out).getroot().iter("{http://www.w3.org/2000/svg}circle"))
    counts = np.array([client["labels"] for client in told["shown"]])
    assert counts.shape == (12, 10) and len(discs) == (counts > 0).sum() and told["picture"] == str(out)
    assert [client["size"] for client in told["shown"]] == counts.sum(1).tolist()


def test_show_prints_a_table_with_the_curious_client(tmp_path):
    result = ladp("show", "digits", "--clients", 30, "--show-clients", 4, "--out", tmp_path / "p.svg")
    assert result.exit_code == 0 and "29 *" in result.stdout and "47 to 48 records" in result.stdout


def test_show_takes_options_of_the_partition(tmp_path):
    words = ("show", "digits", "--partition", "draw", "--out", tmp_path / "p.svg", "--json")
    assert json.loads(ladp(*words, "--set", "size=33").stdout)["sizes"]["most"] == 33
    assert "alpha=0.1" in str(ladp(*words, "--set", "size").exception)
    assert "unknown option" in str(ladp(*words, "--set", "sizes=3").exception)


def test_show_refuses_a_file_that_cannot_be_written(tmp_path):
    assert "choose another file with --out" in str(ladp("show", "digits", "--out", tmp_path / "no" / "p.svg").exception)
