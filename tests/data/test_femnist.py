import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from ladp.data.femnist import CLASSES, Femnist
from ladp.errors import Problem

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (24, 28, 28), np.uint8)
LABELS = np.arange(24) % 62
NAMES = np.repeat(["f0_01", "f0_02", "f1_03"], [10, 11, 3])


def leaf(rows, **changes):
    """LEAF's JSON of those rows; floats with 1 for paper."""
    users = list(dict.fromkeys(NAMES[rows]))
    own = {user: [row for row in rows if NAMES[row] == user] for user in users}
    data = {user: {"x": (PIXELS[own[user]].reshape(-1, 784) / 255).tolist(), "y": LABELS[own[user]].tolist()} for user in users}
    return json.dumps({"users": users, "num_samples": [len(own[user]) for user in users], "user_data": data} | changes)


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def packed(root, **changes):
    """A femnist.npz and a source that expects it."""
    path = root / "femnist" / "femnist.npz"
    path.parent.mkdir(parents=True)
    arrays = {"x": PIXELS, "y": LABELS.astype(np.uint8), "writer": NAMES, "split": (np.arange(24) % 5 == 4).astype(np.uint8)}
    np.savez_compressed(path, **(arrays | changes))
    return replace(Femnist(), digest=f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")


@pytest.mark.parametrize("place", ["femnist/train/a.json femnist/test/b.json", "train/a.json test/b.json", "data/train/a.json data/test/b.json",
                                   "all_data_0_niid_1_keep_0_train_9.json all_data_0_niid_1_keep_0_test_9.json"])
def test_leaf_training_and_test_files_give_back_every_pixel(tmp_path, place):
    train, test = place.split()
    put(tmp_path / train, leaf(range(0, 20))), put(tmp_path / test, leaf(range(20, 24)))
    reading = Femnist().read(tmp_path)
    held = reading.dataset
    assert np.array_equal(held.images[:, 0], PIXELS[:20]) and np.array_equal(held.test_images[:, 0], PIXELS[20:])
    assert held.labels.tolist() == LABELS[:20].tolist() and held.writers.tolist() == [0] * 10 + [1] * 10
    assert reading.layout == "leaf" and len(reading.digests) == 2 and len(held.classes) == 62


def test_several_files_are_read_in_the_order_of_their_names(tmp_path):
    for name, rows in (("1", range(10, 20)), ("0", range(0, 10))):
        put(tmp_path / f"train/all_data_{name}_train_9.json", leaf(rows))
    put(tmp_path / "test/all_data_0_test_9.json", leaf(range(20, 24)))
    assert np.array_equal(Femnist().read(tmp_path).dataset.images[:, 0], PIXELS[:20])


def test_from_all_data_every_tenth_image_of_a_writer_is_for_testing(tmp_path):
    put(tmp_path / "femnist/all_data/all_data_0.json", leaf(range(24)))
    held = Femnist().read(tmp_path).dataset
    assert np.array_equal(held.test_images[:, 0], PIXELS[[9, 19]])
    assert np.array_equal(held.images[:, 0], np.delete(PIXELS, [9, 19], axis=0))
    assert held.writers.tolist() == [0] * 9 + [1] * 10 + [2] * 3


def test_the_packed_file_gives_training_and_test_images_with_writers(tmp_path):
    held = packed(tmp_path).read(tmp_path).dataset
    train = np.arange(24) % 5 != 4
    assert np.array_equal(held.images[:, 0], PIXELS[train]) and np.array_equal(held.test_labels, LABELS[~train])
    assert held.writers.tolist() == np.unique(NAMES[train], return_inverse=True)[1].tolist()


def test_a_packed_file_of_other_content_is_refused_with_its_digest(tmp_path):
    packed(tmp_path)
    with pytest.raises(Problem, match="femnist.npz is damaged or not the published file .* expected sha256:f4c36d1c"):
        Femnist().read(tmp_path)


def test_a_packed_file_of_python_objects_is_never_unpickled(tmp_path):
    source = packed(tmp_path, writer=np.array([{}] * 24, dtype=object))
    with pytest.raises(Problem, match="not the packed data set"):
        source.read(tmp_path)


BROKEN = {
    "cut short": leaf(range(20))[:-40],
    "no users": json.dumps({"users": [], "num_samples": [], "user_data": {}}),
    "a count that does not agree": leaf(range(20), num_samples=[10, 9]),
    "a writer without data": leaf(range(20), user_data={}),
    "fewer counts than writers": leaf(range(20), num_samples=[10]),
    "grey levels up to 255": leaf(range(20)).replace("0.", "3."),
    "not an object": "[1, 2]",
    "a label beyond 61": leaf(range(1)).replace('"y": [0]', '"y": [62]'),
    "no text": "\x00\x01",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_broken_leaf_files_are_refused_in_one_line(tmp_path, content):
    put(tmp_path / "train/a.json", content), put(tmp_path / "test/b.json", leaf(range(20, 24)))
    with pytest.raises(Problem, match="run LEAF's script again") as problem:
        Femnist().read(tmp_path)
    assert "\n" not in str(problem.value)


def test_nothing_there_says_what_to_do_by_hand(tmp_path):
    with pytest.raises(Problem, match=f"no femnist under {tmp_path}; by hand: run LEAF's script .*preprocess.sh"):
        Femnist().read(tmp_path)


def test_digits_come_first_then_capitals_then_small_letters():
    assert len(CLASSES) == 62 and (CLASSES[0], CLASSES[10], CLASSES[36], CLASSES[61]) == ("0", "A", "a", "z")
