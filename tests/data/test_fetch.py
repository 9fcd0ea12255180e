import hashlib

import pytest

from ladp.data import fetch as fetching
from ladp.data.dataset import Archive
from ladp.data.fetch import fetch
from ladp.errors import Problem
from publishing import publisher

CONTENT = bytes(range(256)) * 2000
BY_HAND = "by hand: put it there"


def archive(server, content=CONTENT):
    return Archive(f"http://127.0.0.1:{server.server_port}/set.tar.gz", f"md5:{hashlib.md5(content).hexdigest()}")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_checked_and_named(tmp_path):
    seen = []
    with publisher(CONTENT) as server:
        path = fetch(archive(server), tmp_path / "new", BY_HAND, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT and names(tmp_path / "new") == ["set.tar.gz"]
    assert seen[0] == (0, len(CONTENT)) and seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_file_that_is_there_and_right_is_not_fetched_again(tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(CONTENT)
    with publisher(CONTENT) as server:
        fetch(archive(server), tmp_path, BY_HAND)
    assert server.asked == []


def test_a_file_that_is_there_and_wrong_is_replaced(tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(CONTENT[:-1])
    with publisher(CONTENT) as server:
        assert fetch(archive(server), tmp_path, BY_HAND).read_bytes() == CONTENT


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(tmp_path):
    with publisher(CONTENT, cut=[1000, 2000]) as server:
        assert fetch(archive(server), tmp_path, BY_HAND).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000-", "bytes=3000-"]


def test_a_part_left_by_an_earlier_try_is_continued(tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT[:5000])
    with publisher(CONTENT) as server:
        assert fetch(archive(server), tmp_path, BY_HAND).read_bytes() == CONTENT
    assert server.asked == ["bytes=5000-"] and names(tmp_path) == ["set.tar.gz"]


def test_a_part_that_is_whole_already_only_gets_its_name(tmp_path):
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT)
    with publisher(CONTENT) as server:
        assert fetch(archive(server), tmp_path, BY_HAND).read_bytes() == CONTENT


def test_a_server_that_ignores_ranges_starts_the_file_anew(tmp_path):
    with publisher(CONTENT, cut=[1000], ranges=False) as server:
        assert fetch(archive(server), tmp_path, BY_HAND).read_bytes() == CONTENT


def test_another_content_is_thrown_away_and_both_digests_are_named(tmp_path):
    with publisher(CONTENT) as server, pytest.raises(Problem) as problem:
        fetch(archive(server, b"something else"), tmp_path, BY_HAND)
    line = str(problem.value)
    assert line.count("md5:") == 2 and hashlib.md5(CONTENT).hexdigest() in line and BY_HAND in line
    assert names(tmp_path) == []


def test_a_transfer_that_brings_nothing_more_gives_up_and_keeps_its_part(tmp_path):
    with publisher(CONTENT, cut=[1000] + [0] * 99) as server, pytest.raises(Problem, match=f"the connection ended after 1,000 of .*{BY_HAND}"):
        fetch(archive(server), tmp_path, BY_HAND)
    assert len(server.asked) == 1 + fetching.ATTEMPTS and (tmp_path / "set.tar.gz.part").stat().st_size == 1000


@pytest.mark.parametrize("status, asked", [(404, 1), (403, 1), (503, fetching.ATTEMPTS)])
def test_a_refusal_is_taken_at_once_and_a_failure_after_some_tries(tmp_path, status, asked):
    with publisher(CONTENT, status=status) as server, pytest.raises(Problem, match=f"cannot fetch http://.*; {BY_HAND}"):
        fetch(archive(server), tmp_path, BY_HAND)
    assert len(server.asked) == asked


def test_without_a_network_the_line_says_what_to_do_by_hand(tmp_path):
    with publisher(CONTENT) as server:
        gone = archive(server)
    with pytest.raises(Problem, match=f"cannot fetch {gone.url}: .*refused.*; {BY_HAND}"):
        fetch(gone, tmp_path, BY_HAND)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with publisher(CONTENT) as server, pytest.raises(Problem, match="cannot write .*choose a folder you may write with --root"):
        fetch(archive(server), tmp_path / "file", BY_HAND)


def test_a_full_disk_is_one_line_that_says_it_can_go_on(tmp_path):
    (tmp_path / "set.tar.gz.part").symlink_to("/dev/full")
    with publisher(CONTENT) as server, pytest.raises(Problem, match="No space left on device; free some space and run it again"):
        fetch(archive(server), tmp_path, BY_HAND)
