import builtins
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from ladp.data import pickles
from ladp.errors import Problem

PLAIN = {b"data": np.arange(12, dtype=np.uint8).reshape(3, 4), b"labels": [1, 2, 3], b"name": "batch", b"nested": [(1, 2.5, None, True), {b"a": b"b"}]}


class Call:
    """Pickles as a call of any function: what a hostile file does."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


class Own:
    pass


def same(left, right):
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_plain_data_comes_back_as_it_was(protocol):
    assert same(PLAIN, pickles.loads(pickle.dumps(PLAIN, protocol), "file"))


@pytest.mark.parametrize("code", ["u1", "<i4", ">i4", "<i8", ">f8", "?"])
def test_arrays_keep_their_numbers_whatever_the_byte_order(code):
    array = np.array([[0, 1, 2], [3, 4, 5]], order="F").astype(code)
    loaded = pickles.loads(pickle.dumps(array, 4), "file")
    assert np.array_equal(loaded, array) and loaded.dtype == array.dtype


def gadgets():
    """Pickles that would do something if they could."""
    text = lambda *lines: "\n".join(lines).encode()
    return {
        "os.system": pickle.dumps(Call(os.system, "touch owned")),
        "posix.system": text("cposix", "system", "(S'touch owned'", "tR."),
        "subprocess": pickle.dumps(Call(subprocess.call, ["touch", "owned"])),
        "eval": pickle.dumps(Call(eval, "open('owned', 'w')"), 2),
        "exec": pickle.dumps(Call(exec, "open('owned', 'w')")),
        "python 2 builtins": text("c__builtin__", "eval", "(S\"open('owned', 'w')\"", "tR."),
        "getattr": pickle.dumps(Call(getattr, dict, "fromkeys")),
        "import": pickle.dumps(Call(builtins.__import__, "os")),
        "open": pickle.dumps(Call(open, "owned", "w")),
        "numpy.load": pickle.dumps(Call(np.load, "owned")),
        "numpy.fromfile": pickle.dumps(Call(np.fromfile, "owned")),
        "numpy.save": pickle.dumps(Call(np.save, "owned", 1)),
        "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
        "dotted through an allowed name": b"\x80\x04\x8c\x05numpy\x8c\x0fdtype.__class__\x93.",
        "numpy.testing": text("cnumpy.testing._private.utils", "runstring", "(S\"open('owned','w')\"", "}tR."),
        "copyreg._reconstructor": pickle.dumps(Own(), 1),
        "copyreg.__newobj__": text("ccopyreg", "__newobj__", "(tR."),
        "own class": pickle.dumps(Own()),
        "extension registry": b"\x80\x02\x82\xf0.",
        "persistent id": text("Pos.system", "."),
        "INST": text("(S'touch owned'", "ios", "system", "."),
        "OBJ": text("(cos", "system", "S'touch owned'", "o."),
        "code of this package": text("cladp.data.pickles", "Restricted", "(tR."),
        "other codec": text("c_codecs", "encode", "(Va", "Vrot13", "tR."),
        "set": pickle.dumps({1, 2}, 4),
        "bytearray": pickle.dumps(bytearray(b"x"), 5),
        "complex": pickle.dumps(1j),
    }


def array(kind: bytes = b"cnumpy\ndtype\n(Vu1\nI00\nI01\ntR", state: bytes = b"(I1\n(I3\nt%sI00\nC\x03abctb") -> bytes:
    return b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\x01btR" + (state % kind if b"%s" in state else state) + b"."


ARRAYS = {
    "object type": array(b"cnumpy\ndtype\n(VO8\nI00\nI01\ntR"),
    "object type by name": pickle.dumps(np.array([1, b"x"], dtype=object), 4),
    "structured type": pickle.dumps(np.zeros(2, dtype=[("a", "u1"), ("b", "i4")]), 4),
    "text type": pickle.dumps(np.array(["a"]), 4),
    "fields smuggled into the state": array(b"cnumpy\ndtype\n(Vu1\nI00\nI01\ntR(I3\nV|\nNVfield\nNI-1\nI-1\nI0\ntb"),
    "too few bytes": array(state=b"(I1\n(I9\nt%sI00\nC\x03abctb"),
    "a huge shape": array(state=b"(I1\n(I999999999999\nI999999999999\nt%sI00\nC\x03abctb"),
    "a negative shape": array(state=b"(I1\n(I-1\nI-3\nt%sI00\nC\x03abctb"),
    "a list for the bytes": array(state=b"(I1\n(I3\nt%sI00\n]tb"),
    "no state tuple": array(state=b"}b"),
    "a subclass": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(I0\ntC\x01btR.",
    "calling numpy.ndarray": b"cnumpy\nndarray\n((I999999999\ntVu1\ntR.",
    "state of a function": b"cnumpy.core.multiarray\n_reconstruct\n}Vmake\nNsb.",
    "slots of a function": b"cnumpy\ndtype\n(N}Vmake\nNstb.",
    "a stand-in left over": b"cnumpy\ndtype\n.",
    "a number type left over": b"(lcnumpy\ndtype\n(Vu1\nI00\nI01\ntRa.",
}


@pytest.mark.parametrize("content", [*gadgets().values(), *ARRAYS.values()], ids=[*gadgets(), *ARRAYS])
def test_anything_but_plain_data_is_refused_and_nothing_happens(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Problem, match="^batch is not a plain pickle"):
        pickles.loads(content, "batch")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["os.system", "eval", "copyreg._reconstructor", "getattr"])
def test_an_ordinary_unpickler_would_have_obeyed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert pickle.loads(gadgets()[name]) is not None or set(tmp_path.iterdir()) != before


def test_files_that_would_exhaust_the_machine_are_refused():
    circle = []
    circle.append(circle)
    deep = b"]" * 200_000 + b"a" * 199_999 + b"."
    for content in (pickle.dumps(circle), deep, b"N" + b"r\xff\xff\xff\x7f.", b"T\xff\xff\xff\x7fabc."):
        with pytest.raises(Problem):
            pickles.loads(content, "batch")


def test_shared_parts_stay_shared():
    shared = [1]
    for _ in range(60):
        shared = [shared, shared]
    loaded = pickles.loads(pickle.dumps(shared), "batch")
    assert loaded[0] is loaded[1]


@pytest.mark.parametrize("keep", [0, 1, 10, 60, -1])
def test_a_cut_off_pickle_is_refused(keep):
    with pytest.raises(Problem):
        pickles.loads(pickle.dumps(PLAIN, 4)[:keep], "batch")


def test_random_damage_never_escapes_as_another_exception():
    whole, random = pickle.dumps(PLAIN, 4), np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            damaged[place] = random.integers(0, 256)
        try:
            pickles.loads(bytes(damaged), "batch")
        except Problem:
            pass
    assert "owned" not in sys.modules
