"""A command line that cannot be read: one line that names the value and where to look, exit code 2."""

import pytest

from ladp.cli.commands import call
from ladp.errors import Problem

WRONG = {  # what was typed: what the line must name
    "frobnicate": ("frobnicate", "`ladp --help`"),
    "run --epsilo 3": ("--epsilo", "--epsilon", "`ladp run --help`"),
    "run --epsilon abc": ("--epsilon", "'abc'", "`ladp run --help`"),
    "run --clients=1.5": ("--clients", "1.5"),
    "run --epsilon": ("--epsilon",),
    "privacy sigma --epsilon 1": ("--delta", "`ladp privacy sigma --help`"),
    "resume here there": ("there",),
}


@pytest.mark.parametrize("line", WRONG)
def test_what_cannot_be_read_is_one_line_that_names_it(line):
    with pytest.raises(Problem) as refusal:
        call(line.split())
    assert "\n" not in str(refusal.value) and all(word in str(refusal.value) for word in WRONG[line])


@pytest.mark.parametrize("line, code, shown", [("", 2, "Usage: ladp"), ("privacy", 2, "Usage: ladp privacy"), ("run --help", 0, "--epsilon"), ("list engines --json", 0, "parallel")])
def test_help_and_answers_are_as_before(line, code, shown, capfd):
    with pytest.raises(SystemExit) as ended:
        call(line.split())
    assert (ended.value.code or 0) == code and shown in capfd.readouterr().out


def test_a_refusal_of_a_command_passes_through():
    with pytest.raises(Problem, match="did you mean 'exact'"):
        call("privacy sigma --epsilon 1 --delta 0.1 --rule exat".split())
