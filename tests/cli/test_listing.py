"""`ladp list` says what each name means in a whole sentence."""

import json

import pytest

from ladp.cli.listing import show


@pytest.mark.parametrize("what", ["methods", "models", "data", "features", "partitions"])
def test_every_meaning_is_a_whole_sentence(what, capsys):
    show(what, True)
    found = json.loads(capsys.readouterr().out)
    assert found and all(entry["meaning"].endswith(".") for entry in found)
