"""Model files give back the very integers, and no byte of one can be changed unseen."""

import json
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from chainfl.codec.model_file import About, ModelFile, read_model_file, write_model_file
from chainfl.codec.records import Layout, Tensor
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, ModelFileError

LAYOUT = Layout((Tensor("a.weight", (3, 4)), Tensor("b.bias", (5,)), Tensor("c", ())))


def about(s: int) -> About:
    return About(31337, b"\x11" * 20, 3, b"\x22" * 32, s)


def vectors(d: int) -> st.SearchStrategy[Vector]:
    return st.lists(st.integers(0, 2**32 - 1), min_size=d, max_size=d).map(lambda u: np.array(u, np.uint32))


@given(u_D=vectors(LAYOUT.d), s=st.integers(0, 31))
def test_every_vector_comes_back_bit_for_bit(u_D: Vector, s: int) -> None:
    read = read_model_file(write_model_file(u_D, LAYOUT, about(s)))

    assert np.array_equal(read.vector, u_D)
    assert read.layout == LAYOUT
    assert read.about == about(s)


@given(u_D=vectors(LAYOUT.d), s=st.integers(0, 31))
def test_other_programs_read_the_values(u_D: Vector, s: int) -> None:
    tensors = load(write_model_file(u_D, LAYOUT, about(s)))

    flat = np.concatenate([tensors[t.name].astype(np.float64).ravel() for t in LAYOUT.tensors])
    assert np.array_equal(flat, (u_D.astype(np.int64) - 2**31) / 2.0**s)


NAMES = st.text(
    st.characters(codec="utf-8"), min_size=1, max_size=6
).filter(lambda name: name != "__metadata__")  # fmt: skip


@given(
    shapes=st.dictionaries(NAMES, st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=5),
    large=st.sets(st.integers(0, 40)),
)
def test_the_bytes_are_those_of_the_formats_own_library(
    shapes: dict[str, list[int]], large: set[int]
) -> None:
    layout = Layout(tuple(Tensor(name, tuple(shape)) for name, shape in sorted(shapes.items())))
    assume(layout.d)
    u_D = np.full(layout.d, 2**31, np.uint32)
    u_D[[at for at in large if at < layout.d]] += 2**24 + 1
    data = write_model_file(u_D, layout, about(20))

    metadata = {"chainfl": json.dumps(about(20).plain(), sort_keys=True, separators=(",", ":"))}

    assert save(load(data), metadata) == data
    assert np.array_equal(read_model_file(data).vector, u_D)


@pytest.mark.parametrize("without", ["0", "1"])
@given(u_D=vectors(LAYOUT.d), s=st.integers(0, 31))
def test_compiled_and_plain_kernels_read_the_same(without: str, u_D: Vector, s: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAINFL_NO_NUMBA", without)
        assert np.array_equal(read_model_file(write_model_file(u_D, LAYOUT, about(s))).vector, u_D)


def test_small_parameters_are_float32_and_others_float64() -> None:
    u_D = np.full(LAYOUT.d, 2**31, np.uint32)
    u_D[0] += 2**24 + 1

    tensors = load(write_model_file(u_D, LAYOUT, about(26)))

    assert tensors["a.weight"].dtype == np.float64
    assert tensors["b.bias"].dtype == np.float32


def test_no_byte_can_be_changed_without_a_refusal_or_another_model() -> None:
    u_D = np.arange(2**31 - 9, 2**31 + 9, dtype=np.uint32)
    data = write_model_file(u_D, LAYOUT, about(20))
    draw = random.Random(7)
    header = 8 + int.from_bytes(data[:8], "little")

    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        found, read = attempt(bytes(changed))
        if read is None:
            assert at < header or "tensor" in found
        else:
            assert not np.array_equal(read.vector, u_D) or read.about != about(20) or read.layout != LAYOUT


def attempt(data: bytes) -> tuple[str, ModelFile | None]:
    """What is said of a file, and its content where it is taken for one."""
    try:
        return "", read_model_file(data)
    except ModelFileError as error:
        return str(error), None


@pytest.mark.parametrize("without", ["0", "1"])
@pytest.mark.parametrize(
    ("what", "value", "found"),
    [
        ("a value between two steps", 2.0**-21, "no step of 2^-20"),
        ("a negative zero", -0.0, "no step of 2^-20"),
        ("no number", float("nan"), "parameter 0"),
        ("beyond the range", 3000.0, "parameter 0"),
        ("just beyond the range", 2048.0, "parameter 0"),
        ("infinite", float("-inf"), "parameter 0"),
        ("next to nothing", 1e-45, "no step of 2^-20"),
    ],
)
def test_values_that_are_no_parameters_are_refused_by_their_tensor(
    what: str, value: float, found: str, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del what
    monkeypatch.setenv("CHAINFL_NO_NUMBA", without)
    data = bytearray(write_model_file(np.full(LAYOUT.d, 2**31, np.uint32), LAYOUT, about(20)))
    header = 8 + int.from_bytes(data[:8], "little")
    data[header : header + 4] = np.float32(value).tobytes()

    with pytest.raises(ModelFileError, match=r"tensor 'a\.weight'") as refused:
        read_model_file(bytes(data))

    assert found in str(refused.value)


def test_a_padded_header_is_found() -> None:
    data = write_model_file(np.zeros(LAYOUT.d, np.uint32), LAYOUT, about(20))
    length = int.from_bytes(data[:8], "little")
    padded = (length + 8).to_bytes(8, "little") + data[8 : 8 + length] + b" " * 8 + data[8 + length :]

    with pytest.raises(ModelFileError, match="header: not as"):
        read_model_file(padded)


@pytest.mark.parametrize(
    "claims",
    [
        None,
        "no json",
        "[]",
        "{}",
        json.dumps({**about(20).plain(), "s": 32}),
        json.dumps({**about(20).plain(), "round": -1}),
        json.dumps({**about(20).plain(), "task": "0x11"}),
        json.dumps({**about(20).plain(), "more": 1}),
        "[" * 100_000,
    ],
)
def test_claims_that_are_none_are_refused(claims: str | None) -> None:
    data = save({"w": np.zeros(3, np.float32)}, None if claims is None else {"chainfl": claims})

    with pytest.raises(ModelFileError):
        read_model_file(data)


HEADERS = {
    "no object": b"[]",
    "nested without end": b"[" * 100_000,
    "no description": b'{"w": 1}',
    "integers": b'{"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}',
    "a shape that is none": b'{"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
    "a type that is a list": b'{"w": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}',
    "half a letter": b'{"\\ud800": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
    "nothing to train": b"{}",
    "no UTF-8": b'{"\xff": 1}',
    "thousands of digits": b'{"w": {"dtype": "F32", "shape": [' + b"1" * 5000 + b"]}}",
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_that_are_none_are_refused(what: str) -> None:
    header = HEADERS[what]

    with pytest.raises(ModelFileError, match=r"^(header|tensor)"):
        read_model_file(len(header).to_bytes(8, "little") + header + bytes(8))


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_files_that_are_cut_off_or_go_on_are_refused(length: int) -> None:
    data = write_model_file(np.zeros(LAYOUT.d, np.uint32), LAYOUT, about(20))

    with pytest.raises(ModelFileError):
        read_model_file(data[:length])
    with pytest.raises(ModelFileError, match="its header describes"):
        read_model_file(data + b"\0")


def test_the_formats_own_word_is_no_name_of_a_tensor() -> None:
    with pytest.raises(InputError, match="__metadata__"):
        write_model_file(np.zeros(1, np.uint32), Layout((Tensor("__metadata__", (1,)),)), about(20))


@given(data=st.binary(max_size=200))
def test_any_bytes_end_in_a_named_error(data: bytes) -> None:
    with pytest.raises(ModelFileError):
        read_model_file(data)


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="3 parameters, its layout 18"):
        write_model_file(np.zeros(3, np.uint32), LAYOUT, about(20))
