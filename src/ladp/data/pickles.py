"""Pickles that can build nothing but arrays, dicts, lists, bytes, text and numbers, whoever wrote them.

A pickle is a program that may call any function it can name. Here it can name four things, all of them our own stand-ins: numpy's array,
the step that rebuilds one, its number type, and the spelling of bytes. Everything else is refused before it is looked up.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Callable

import numpy as np

from ladp.errors import Problem

NUMBERS = {"b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"}
# What plain data needs. Left out: the extension registry, persistent ids, classes (INST, OBJ, NEWOBJ), sets, byte arrays, buffers.
OPCODES = set(
    """
    PROTO FRAME STOP MARK POP POP_MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
    EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3
    GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD
    """.split()
)
MEMORY = 1 << 20  # remembered objects; a larger number would only serve to exhaust the machine


def loads(content: bytes, file: str) -> object:
    """What the pickle holds; text of Python 2 comes as bytes. Refuses all but plain data with a Problem naming the file."""
    try:
        refuse_opcodes(content)
        return plain(Restricted(io.BytesIO(content), encoding="bytes").load(), {})
    except Exception as error:  # a hostile pickle may raise anything; none of it may pass
        raise Problem(f"{file} is not a plain pickle ({error}); fetch it again from its publisher") from error


def refuse_opcodes(content: bytes) -> None:
    """Read the opcodes without running them."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in OPCODES:
            raise Problem(f"opcode {opcode.name} is not allowed")
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= argument < MEMORY:
            raise Problem(f"it remembers object number {argument}, the most is {MEMORY}")


class Restricted(pickle.Unpickler):
    """An unpickler for which only the stand-ins have names."""

    def find_class(self, module: str, name: str) -> object:
        """Our own stand-in for an allowed name, a Problem for any other."""
        if (module, name) not in NAMES:
            raise Problem(f"it asks for {module}.{name}, which is not allowed")
        return NAMES[module, name]


class Named:
    """An allowed name: calling it makes an empty stand-in, and no pickle can change it."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., object]) -> None:
        self.make = make

    def __call__(self, *arguments: object) -> object:
        return self.make(*arguments)

    def __setstate__(self, state: object) -> None:
        raise Problem("it sets the state of a function")


class Number:
    """A number type: its code now, its byte order when its state comes."""

    __slots__ = ("type",)

    def __init__(self, code: object, align: object = False, copy: object = True) -> None:
        code = code.decode("ascii", "replace") if isinstance(code, bytes) else code
        if not isinstance(code, str) or code not in NUMBERS:
            raise Problem(f"number type {code!r} is not allowed")
        self.type = np.dtype(code)

    def __setstate__(self, state: tuple) -> None:
        order = state[1].decode("ascii", "replace") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise Problem("structured number types are not allowed")
        self.type = self.type.newbyteorder(order)


class Array:
    """An array to be: its values come as bytes, with shape and number type, and must fill the shape exactly."""

    __slots__ = ("values",)

    def __init__(self, kind: object, shape: object, code: object) -> None:
        if kind is not NDARRAY:
            raise Problem("only plain arrays are allowed")
        self.values = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple) -> None:
        _, shape, number, fortran, raw = state
        if not isinstance(number, Number) or not isinstance(raw, bytes) or not all(type(n) is int and n >= 0 for n in shape):
            raise Problem("array state is malformed")
        if math.prod(shape) * number.type.itemsize != len(raw):
            raise Problem(f"array of shape {shape} does not match its {len(raw)} bytes")
        self.values = np.frombuffer(raw, number.type).reshape(shape, order="F" if fortran else "C")


def latin(text: object, codec: object) -> bytes:
    """Bytes as Python 3 writes them into a pickle of Python 2."""
    if not isinstance(text, str) or codec not in ("latin1", b"latin1"):
        raise Problem(f"it encodes with {codec!r}")
    return text.encode("latin1")


def forbidden(*arguments: object) -> None:
    """numpy's array class may be named, as an argument, but not called."""
    raise Problem("it calls numpy.ndarray itself")


OPEN = object()
NDARRAY = Named(forbidden)
NAMES = {
    ("numpy", "ndarray"): NDARRAY,
    ("numpy", "dtype"): Named(Number),
    ("_codecs", "encode"): Named(latin),
    ("numpy.core.multiarray", "_reconstruct"): Named(Array),
    ("numpy._core.multiarray", "_reconstruct"): Named(Array),
}


def plain(value: object, known: dict[int, object]) -> object:
    """The value with arrays in place of their stand-ins; `known` keeps shared parts shared and finds a part that holds itself."""
    if id(value) not in known:
        known[id(value)] = OPEN
        known[id(value)] = rebuild(value, known)
    if known[id(value)] is OPEN:
        raise Problem("a part of it contains itself")
    return known[id(value)]


def rebuild(value: object, known: dict[int, object]) -> object:
    """One level of `plain`: refuses whatever is not plain data."""
    if isinstance(value, Array):
        return value.values
    if type(value) is dict:
        return {plain(key, known): plain(item, known) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(item, known) for item in value)
    if value is None or type(value) in (bytes, str, int, float, bool):
        return value
    raise Problem(f"a {type(value).__name__} is not plain data")
