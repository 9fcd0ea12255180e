"""A ledger that is damaged, cut, edited, put back or locked is refused in one line, and never repaired."""

import os
import resource
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from ladp.errors import Problem
from ladp.ledger import Ledger
from ladp.privacy.accounting import Charge

COSTS = {"server": (Charge(1.0),), "peer": (Charge(3.0),)}


@pytest.fixture
def path(tmp_path) -> Path:
    """Thirty releases of three clients."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path, tmp_path / "anchor") as ledger:
        for round in range(1, 11):
            ledger.charge_all("a/1", round, "client", {client: COSTS for client in "123"})
    return path


def more(path, rounds, anchor=None):
    with Ledger(path, anchor) as ledger:
        for round in rounds:
            ledger.charge_all("a/1", round, "client", {client: COSTS for client in "123"})


def refused(path, anchor=None) -> str:
    """The one line; the file is as it was."""
    before = path.read_bytes()
    with pytest.raises(Problem) as problem:
        Ledger(path, anchor, timeout=0.1)
    assert path.read_bytes() == before and "\n" not in str(problem.value) and path.name in str(problem.value)
    return str(problem.value)


def edit(path, statement):
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()


@pytest.mark.parametrize("statement, complaint", [
    ("UPDATE entries SET charges = replace(charges, '3.0', '30.0') WHERE sequence = 12", "release 12 was changed"),
    ("UPDATE entries SET client = '9' WHERE sequence = 12", "release 12 was changed"),
    ("UPDATE entries SET time = 0 WHERE sequence = 12", "release 12 was changed"),
    ("UPDATE entries SET replay = x'00' WHERE sequence = 12", "release 12 was changed"),
    ("UPDATE entries SET charges = 'none' WHERE sequence = 12", "release 12 was changed"),
    ("DELETE FROM entries WHERE sequence = 12", "release 12 was changed or taken out"),
    ("DELETE FROM entries WHERE sequence = 30", "rows end at release 29"),
    ("DELETE FROM entries", "rows end at release 0"),
    ("INSERT INTO entries SELECT 31, client, run, round, unit, charges, replay, time, seal FROM entries WHERE sequence = 30", "release 31 was changed"),
    ("UPDATE entries SET sequence = 99 WHERE sequence = 30", "release 30 was changed"),
    ("UPDATE head SET sequence = 29", "with another seal than its head"),
    ("UPDATE head SET seal = origin", "with another seal than its head"),
    ("DELETE FROM head", "does not say where it stands"),
    ("UPDATE head SET origin = 'x'", "release 1 was changed"),
    ("DROP TABLE entries", "no such table"),
    ("PRAGMA user_version = 2", "has format 2, and this version reads 1"),
    ("PRAGMA application_id = 5", "is a database, but no ledger"),
])
def test_whatever_is_edited_is_found(path, statement, complaint):
    edit(path, statement)
    assert complaint in refused(path)


def test_the_last_rows_cannot_be_cut_off_even_with_their_head(path):
    edit(path, "DELETE FROM entries WHERE sequence > 20")
    edit(path, "UPDATE head SET sequence = 20, seal = (SELECT seal FROM entries WHERE sequence = 20)")
    assert "stands at release 20, but" in refused(path)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_refused(path, part):
    os.truncate(path, int(path.stat().st_size * part))
    assert "corrupt" in refused(path)


def test_a_flipped_byte_is_found_or_changes_nothing(path, tmp_path):
    whole, found = path.read_bytes(), 0
    with Ledger(path) as ledger:
        entries = ledger.entries()
    for place in range(0, len(whole), 61):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            with Ledger(path, tmp_path / "anchor") as ledger:
                assert ledger.entries() == entries, place
        except Problem as problem:
            found += "\n" not in str(problem)
        path.with_name(path.name + "-wal").unlink(missing_ok=True)
    assert found > 50


def test_an_older_copy_put_back_is_refused(path, tmp_path):
    shutil.copy(path, tmp_path / "old")
    more(path, [11])
    shutil.copy(tmp_path / "old", path)
    assert "it stands at release 30, but" in refused(path)


def test_an_older_copy_of_all_its_files_is_refused_by_an_anchor_elsewhere_alone(path, tmp_path):
    head, anchor = path.with_name(path.name + ".head"), tmp_path / "anchor"
    shutil.copy(path, tmp_path / "old"), shutil.copy(head, tmp_path / "old.head")
    more(path, [11], anchor)
    shutil.copy(tmp_path / "old", path), shutil.copy(tmp_path / "old.head", head)
    Ledger(path).close()
    assert "but" in refused(path, anchor) and str(anchor) in refused(path, anchor)


def test_a_copy_that_went_on_by_itself_is_refused_by_the_anchor(path, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (path.name, path.name + ".head"):
        shutil.copy(tmp_path / name, elsewhere / name)
    more(path, [11], tmp_path / "anchor")
    more(elsewhere / path.name, [12, 13])
    assert "is not the one that" in refused(elsewhere / path.name, tmp_path / "anchor")


def test_rows_lost_with_the_write_ahead_log_are_missed(path, tmp_path):
    ledger = Ledger(path)
    ledger.charge("1", "a/1", 11, "client", COSTS)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (path.name, path.name + ".head"):  # as a careless backup would, without FILE-wal
        shutil.copy(tmp_path / name, copy / name)
    ledger.close()
    assert "it stands at release 30, but" in refused(copy / path.name)


def test_a_ledger_that_was_deleted_is_missed(path):
    path.unlink()
    with pytest.raises(Problem, match="it is gone, but .* stands at release 30"):
        Ledger(path)


def test_a_missing_head_file_is_refused_and_can_be_adopted(path):
    head = path.with_name(path.name + ".head")
    said = head.read_bytes()
    head.unlink()
    assert "is missing, so whether releases are missing too cannot be known" in refused(path)
    Ledger(path, adopt=True).close()
    assert head.read_bytes() == said
    head.write_bytes(said[:-9] + b"00000000\n")
    assert "does not say where a ledger stood" in refused(path)


def test_what_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no database at all\n" * 100)
    assert "corrupt: file is not a database" in refused(path)
    other = tmp_path / "other.sqlite"
    edit(other, "CREATE TABLE songs (title TEXT)")
    assert "but no ledger: name another file" in refused(other)


def test_a_file_put_in_its_place_while_in_use_is_noticed(path, tmp_path):
    shutil.copy(path, tmp_path / "old")
    with Ledger(path) as ledger:
        ledger.charge("1", "a/1", 11, "client", COSTS)
        os.replace(tmp_path / "old", path)
        with pytest.raises(Problem, match="another file was put in its place"):
            ledger.charge("1", "a/1", 12, "client", COSTS)
        path.unlink()
        with pytest.raises(Problem, match="taken away while in use"):
            ledger.charge("1", "a/1", 12, "client", COSTS)


def test_an_older_content_written_over_it_while_in_use_is_noticed(path, tmp_path):
    with Ledger(path) as ledger:
        ledger.charge("1", "a/1", 11, "client", COSTS)
        with sqlite3.connect(path) as db:
            db.execute("DELETE FROM entries WHERE sequence = 31")
            db.execute("UPDATE head SET sequence = 30, seal = (SELECT seal FROM entries WHERE sequence = 30)")
        db.close()
        with pytest.raises(Problem, match="stands at release 30 and has stood at 31"):
            ledger.spent("1", "peer", 1e-5, "client")


def test_a_locked_ledger_is_one_clear_line(path):
    with Ledger(path, timeout=0.2) as ledger, sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Problem, match=r"locked by another process for 0.2 s: end that process or wait"):
            ledger.charge("1", "a/1", 11, "client", COSTS)
        other.execute("ROLLBACK")
        assert ledger.charge("1", "a/1", 11, "client", COSTS).sequence == 31
    other.close()


def test_a_full_database_is_one_clear_line_and_nothing_is_charged(path):
    with Ledger(path) as ledger:
        pages = ledger._store.db.execute("PRAGMA page_count").fetchone()[0]
        ledger._store.db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(Problem, match="cannot be written: database or disk is full; nothing may leave"):
            ledger.charge_all("a/1", 11, "client", {str(client): COSTS for client in range(100)})
        ledger._store.db.execute("PRAGMA max_page_count = 1000000")
        assert ledger.charge("1", "a/1", 11, "client", COSTS).sequence == 31


def test_a_disk_that_takes_no_more_is_one_clear_line(path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    quiet = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Ledger(path) as ledger:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            with pytest.raises(Problem, match="cannot be written: .*; nothing may leave"):
                ledger.charge("1", "a/1", 11, "client", COSTS)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, quiet)
        assert ledger.charge("1", "a/1", 11, "client", COSTS).sequence == 31


@pytest.mark.parametrize("place", ["/proc/ledger.sqlite", "/nowhere/ledger.sqlite"])
def test_a_folder_that_cannot_be_written_is_one_clear_line(place):
    with pytest.raises(Problem, match=f"ledger {place} cannot be written: unable to open database file; nothing may leave"):
        Ledger(place)
