import json
import runpy
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from chainfl.codec import vector
from chainfl.errors import InputError, LengthError, ParameterRangeError

VECTORS_DIR = Path(__file__).parents[1] / "vectors"
VECTORS = json.loads((VECTORS_DIR / "vector.json").read_text())
CASES = [dict(zip(VECTORS, row, strict=True)) for row in zip(*VECTORS.values(), strict=True)]

scales = st.integers(0, 31)
words = st.integers(0, 2**32 - 1) | st.sampled_from([0, 2**31 - 1, 2**31, 2**32 - 1])
vectors = st.lists(words, min_size=1, max_size=40).map(lambda u: np.array(u, np.uint32))


@pytest.fixture(scope="module", params=["compiled", "plain"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAINFL_NO_NUMBA", "1" if request.param == "plain" else "0")
        yield


@st.composite
def encodable(draw: st.DrawFn, width: int) -> tuple[NDArray[np.floating], int]:
    """Floats of the given width that fit, and the scale they fit."""
    s = draw(scales)
    limit = 2.0 ** (31 - s)
    floats = st.floats(-limit, limit, width=32 if width == 32 else 64, exclude_max=True)
    ties = st.integers(-(2**22), 2**22).map(lambda k: (k + 0.5) / 2.0**s)
    values = st.lists(floats | ties.filter(lambda x: -limit <= x < limit), min_size=1, max_size=40)
    x = np.array(draw(values.filter(lambda x: max(x) * 2**s < 2**31 - 1)), f"f{width // 8}")
    return x, s


def exactly(x: NDArray[np.floating], s: int) -> list[int]:
    return [round(Fraction(float(each)) * 2**s) + 2**31 for each in x]


@given(encodable(32) | encodable(64))
def test_encoding_rounds_the_exact_value_half_to_even(case: tuple[NDArray[np.floating], int]) -> None:
    x, s = case

    u = vector.encode(x, s)

    assert u.dtype == np.uint32
    assert u.tolist() == exactly(x, s)


@given(encodable(32) | encodable(64))
def test_decoding_what_was_encoded_is_within_half_a_step(case: tuple[NDArray[np.floating], int]) -> None:
    x, s = case

    back = vector.decode(vector.encode(x, s), s, x.dtype)

    half = Fraction(1, 2 ** (s + 1))
    assert back.dtype == x.dtype
    assert all(abs(Fraction(float(a)) - Fraction(float(b))) <= half for a, b in zip(x, back, strict=True))


@given(vectors, scales)
def test_every_vector_survives_float64(u: vector.Vector, s: int) -> None:
    assert vector.encode(vector.decode(u, s, np.float64), s).tolist() == u.tolist()


@given(vectors, scales)
def test_decoding_to_float32_rounds_once(u: vector.Vector, s: int) -> None:
    exact = vector.decode(u, s, np.float64)

    assert vector.decode(u, s).tolist() == exact.astype(np.float32).tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 2048.0, -2048.5, 3e38])
def test_a_value_that_does_not_fit_is_named_and_nothing_is_written(
    kind: type[np.floating], bad: float
) -> None:
    x = np.zeros(300_000, kind)
    x[[271_828, 299_999]] = bad
    out = np.full(300_000, 7, np.uint32)

    with pytest.raises(ParameterRangeError, match=r"^parameter 271828 is .*±2048$") as refusal:
        vector.encode(x, 20, out=out)

    assert repr(float(kind(bad))) in str(refusal.value)
    assert (out == 7).all()


def test_the_edges_of_the_range_fit_and_what_rounds_past_them_does_not() -> None:
    edges = np.array([-(2.0**31) - 0.5, -(2.0**31), 2.0**31 - 1, 2.0**31 - 0.75])

    assert vector.encode(edges, 0).tolist() == [0, 0, 2**32 - 1, 2**32 - 1]
    for beyond in (2.0**31 - 0.5, -(2.0**31) - 0.75):
        with pytest.raises(ParameterRangeError, match="parameter 0"):
            vector.encode(np.array([beyond]), 0)


def test_threads_and_output_arrays_change_nothing() -> None:
    x = np.random.default_rng(1).standard_normal((1 << 22) + 1, np.float32)  # enough for three threads
    u, back = np.empty(x.size, np.uint32), np.empty(x.size, np.float32)

    assert vector.encode(x, 20, out=u, threads=3) is u
    assert vector.decode(u, 20, out=back, threads=3) is back

    assert np.array_equal(u, vector.encode(x, 20, threads=1))
    assert np.array_equal(back, vector.decode(u, 20, threads=1))


@given(vectors)
def test_bytes_are_big_endian_and_come_back(u: vector.Vector) -> None:
    data = vector.to_bytes(u)

    assert data == struct.pack(f">{u.size}I", *u.tolist())
    assert vector.from_bytes(data, u.size).tolist() == u.tolist()
    assert vector.from_bytes(memoryview(b"x" + data)[1:], u.size).tolist() == u.tolist()
    assert vector.to_bytes(vector.view_bytes(data, u.size)) == data


@pytest.mark.parametrize(
    ("length", "fault"), [(0, "truncated"), (11, "truncated"), (13, "oversized"), (16, "oversized")]
)
def test_bytes_of_another_length_are_refused(length: int, fault: str) -> None:
    out = np.full(3, 7, np.uint32)

    with pytest.raises(LengthError, match=f"{fault}: {length} bytes for d = 3, which takes 12"):
        vector.from_bytes(bytes(length), 3, out=out)

    assert out.tolist() == [7, 7, 7]


@given(vectors)
def test_signed_and_biased_are_one_to_one(u: vector.Vector) -> None:
    w = vector.to_signed(u)

    assert w.tolist() == [each - 2**31 for each in u.tolist()]
    assert vector.from_signed(w).tolist() == u.tolist()
    assert vector.from_signed(w.astype(np.int64)).tolist() == u.tolist()


@pytest.mark.parametrize("w", [2**31, -(2**31) - 1, 2**40])
def test_signed_values_beyond_32_bits_are_refused(w: int) -> None:
    with pytest.raises(ParameterRangeError, match=f"parameter 1 is {w}"):
        vector.from_signed(np.array([0, w]))


def test_what_is_not_a_vector_is_refused() -> None:
    u = np.zeros(3, np.uint32)

    with pytest.raises(InputError, match="values are int64"):
        vector.encode(np.array([1, 2]), 20)
    with pytest.raises(InputError, match="shape"):
        vector.encode(np.zeros((2, 2)), 20)
    with pytest.raises(InputError, match="uint32, not int32"):
        vector.decode(u.view(np.int32), 20)
    with pytest.raises(InputError, match="float16"):
        vector.decode(u, 20, np.float16)
    with pytest.raises(InputError, match="integers"):
        vector.from_signed(np.array([0.5]))
    with pytest.raises(LengthError, match="3 parameters are to be written"):
        vector.encode(np.zeros(3), 20, out=np.zeros(4, np.uint32))
    with pytest.raises(InputError, match="out must be"):
        vector.encode(np.zeros(3), 20, out=np.zeros(6, np.uint32)[::2])


@pytest.mark.parametrize("s", [-1, 32])
def test_a_scale_outside_0_to_31_is_refused(s: int) -> None:
    with pytest.raises(InputError, match=f"scale s is {s}"):
        vector.encode(np.zeros(1), s)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['float64']}-{case['s']}")
def test_published_vectors_hold(case: dict[str, str]) -> None:
    x = np.frombuffer(bytes.fromhex(case["float64"][2:]), ">f8")

    u = vector.encode(x, int(case["s"]))

    assert u.tolist() == [int(case["u"])]
    assert vector.to_signed(u).tolist() == [int(case["w"])]
    assert "0x" + vector.to_bytes(u).hex() == case["bytes"]


def test_published_files_are_what_the_generator_writes() -> None:
    files: dict[str, str] = runpy.run_path(str(VECTORS_DIR / "generate.py"))["files"]()

    assert files == {name: (VECTORS_DIR / name).read_text() for name in files}
