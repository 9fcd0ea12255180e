import numpy as np
import pytest
import torch

from crafted import RECORDS, SOURCES, craft, expecting, images, lay_out, pack
from ladp.data.cifar import CIFAR10, CIFAR100
from ladp.errors import Problem

FORMS = [(name, form) for name in SOURCES for form in ("binary folder", "python folder", "binary archive", "python archive")]


def place(root, source, made, archives, form):
    layout = next(layout for layout in source.layouts if layout.name == form.split()[0])
    packed = archives[source.layouts.index(layout)]
    lay_out(root, {layout.archive.file: packed} if "archive" in form else {file: made[file] for file in layout.files})


@pytest.mark.parametrize("name, form", FORMS)
def test_every_published_form_gives_the_same_images_and_labels(tmp_path, name, form):
    source, made, archives = craft(SOURCES[name])
    place(tmp_path, source, made, archives, form)
    reading = source.read(tmp_path)
    held, batches = reading.dataset, len(source.layouts[0].train)
    assert reading.layout == form
    assert held.images.shape == (RECORDS * batches, 3, 32, 32) and held.images.dtype == torch.uint8
    assert np.array_equal(held.images.reshape(-1, 3072), np.concatenate([images(seed) for seed in range(batches)]))
    assert np.array_equal(held.test_images.reshape(-1, 3072), images(batches))
    assert held.labels.tolist() == list(range(RECORDS)) * batches and held.labels.dtype == torch.int64


def test_an_archive_is_read_without_writing_anything(tmp_path):
    source, made, archives = craft(CIFAR10)
    place(tmp_path, source, made, archives, "binary archive")
    source.read(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-binary.tar.gz"]


def test_one_changed_byte_is_refused_with_both_digests_and_the_remedy(tmp_path):
    source, made, archives = craft(CIFAR10)
    lay_out(tmp_path, made)
    path = tmp_path / "cifar-10-batches-bin/data_batch_3.bin"
    path.write_bytes(bytes([made["cifar-10-batches-bin/data_batch_3.bin"][0] ^ 1]) + made["cifar-10-batches-bin/data_batch_3.bin"][1:])
    with pytest.raises(Problem) as problem:
        source.read(tmp_path)
    line = str(problem.value)
    assert str(path) in line and line.count("sha256:") == 2 and f"ladp data get cifar10 --root {tmp_path}" in line and "\n" not in line


@pytest.mark.parametrize("form", ["binary folder", "python folder", "binary archive", "python archive"])
def test_a_truncated_file_is_refused(tmp_path, form):
    source, made, archives = craft(CIFAR100)
    place(tmp_path, source, made, archives, form)
    path = next(path for path in tmp_path.rglob("*") if path.is_file())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Problem, match="damaged or not the published file"):
        source.read(tmp_path)


def test_a_mislabelled_file_is_named_by_what_it_holds(tmp_path):
    source, made, _ = craft(CIFAR10)
    lay_out(tmp_path, made | {"cifar-10-batches-bin/test_batch.bin": made["cifar-10-batches-bin/data_batch_1.bin"]})
    with pytest.raises(Problem, match=r"test_batch.bin holds the content of cifar-10-batches-bin/data_batch_1.bin"):
        source.read(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    source, made, _ = craft(CIFAR10)
    lay_out(tmp_path, {file: content for file, content in made.items() if "bin/" in file and "batch_4" not in file})
    with pytest.raises(Problem, match="data_batch_4.bin is missing; run `ladp data get cifar10"):
        source.read(tmp_path)


def test_the_wrong_archive_under_the_right_name_is_refused(tmp_path):
    source, _, archives = craft(CIFAR10)
    lay_out(tmp_path, {"cifar-10-binary.tar.gz": archives[1]})
    with pytest.raises(Problem, match="cifar-10-binary.tar.gz holds the content of cifar-10-python.tar.gz: expected md5:"):
        source.read(tmp_path)


def test_the_product_knows_only_the_published_digests(tmp_path):
    lay_out(tmp_path, craft(CIFAR10)[1])
    with pytest.raises(Problem, match="cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"):
        CIFAR10.read(tmp_path)


@pytest.mark.parametrize("content, line", [(b"", "not whole records"), (bytes(3073) + b"1", "not whole records"), (b"\x0b" + bytes(3072), "0 to 9")])
def test_files_that_are_no_records_are_refused_even_with_the_right_digest(tmp_path, content, line):
    made = craft(CIFAR10)[1] | {"cifar-10-batches-bin/data_batch_1.bin": content}
    lay_out(tmp_path, made)
    with pytest.raises(Problem, match=line):
        expecting(CIFAR10, made, [pack({}), pack({})]).read(tmp_path)


def test_class_names_are_complete():
    assert len(set(CIFAR10.classes)) == 10 and len(set(CIFAR100.classes)) == 100 and CIFAR100.classes[-1] == "worm"
