"""The fuzzer itself: it finds what is planted, and finds it again."""

from dataclasses import replace

import pytest

from chainfl.errors import InputError
from tests.fuzz.mutate import Mutator
from tests.fuzz.run import check, fuzz, shrink
from tests.fuzz.target import Form, Target
from tests.fuzz.targets import TARGETS


def reader(data: bytes) -> None:
    """Refuses everything in its own words, but one byte in the third place, which it does not expect."""
    if len(data) < 3:
        raise InputError("too short")
    if data[2] == 0x7F:
        raise KeyError("not expected")
    raise InputError("no")


PLANTED = Target("planted", reader, (InputError,), 1000, 1000)


def test_an_exception_that_is_not_named_is_found_and_shrunk() -> None:
    outcome = fuzz(PLANTED, 30_000)

    assert [failure.what for failure in outcome.failures] == ["KeyError: 'not expected'"]
    assert shrink(PLANTED, outcome.failures[0]).data == b"\0\0\x7f"


def test_the_same_seed_finds_the_same_and_another_something_else() -> None:
    def inputs(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        fuzz(replace(PLANTED, read=seen.append), 2000, seed=seed)
        return seen

    assert inputs(1) == inputs(1)
    assert inputs(1) != inputs(2)


def test_a_named_error_is_no_defect_and_a_broken_promise_is_one() -> None:
    def promise(data: bytes) -> None:
        assert data == b"only this"

    assert check(PLANTED, b"") is None
    found = check(replace(PLANTED, read=promise), b"that")
    assert found is not None
    assert found.what.startswith("AssertionError")


def test_an_endless_loop_is_cut_and_found() -> None:
    def endless(_data: bytes) -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    found = check(replace(PLANTED, read=endless), b"")

    assert found is not None
    assert found.what.startswith("HangError: computes for more than 2 s")


def test_memory_beyond_a_gigabyte_is_found_even_if_the_reader_hides_it() -> None:
    def greedy(_data: bytes) -> None:
        bytearray(2 << 30)

    def hiding(data: bytes) -> None:
        try:
            greedy(data)
        except MemoryError as error:
            raise InputError("too large") from error

    plain, hidden = check(replace(PLANTED, read=greedy), b""), check(replace(PLANTED, read=hiding), b"")

    assert plain is not None
    assert plain.what.startswith("MemoryError")
    assert hidden is not None
    assert hidden.what.startswith("more than 1024 MiB of memory")


def test_what_is_new_is_kept_so_that_later_changes_start_from_it() -> None:
    """Four bytes, one after the other, each told from a wrong one by its line: blind changes would need 2^32 tries."""

    def lock(data: bytes) -> None:
        if data[:1] != b"k":
            raise InputError("first")
        if data[1:2] != b"e":
            raise InputError("second")
        if data[2:3] != b"y":
            raise InputError("third")
        raise KeyError("open")

    outcome = fuzz(replace(PLANTED, read=lock), 100_000)

    assert [failure.data[:3] for failure in outcome.failures] == [b"key"]


@pytest.mark.parametrize("form", Form)
def test_no_input_is_longer_than_allowed_and_no_two_are_alike_for_long(form: Form) -> None:
    mutator = Mutator([b'{"a": [1, 2]}', b""], form, (), 100, seed=3)

    made = [mutator.next() for _ in range(2000)]

    assert max(map(len, made)) <= 100
    assert len(set(made)) > 500


def test_a_bug_planted_in_a_real_reader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of dag-cbor that takes integers in more bytes than they need: two encodings for one value."""
    from chainfl.codec import cbor

    def lax_head(self: cbor._Reader) -> tuple[int, int]:
        first = self.data[self.at]
        code = first & 31
        size = cbor._ARGUMENT_BYTES.get(code, 0)
        if size and first >> 5 == 0 and len(self.data) - self.at > size:
            self.at += 1 + size
            return 0, int.from_bytes(self.data[self.at - size : self.at], "big")
        return strict(self)

    strict = cbor._Reader.head
    monkeypatch.setattr(cbor._Reader, "head", lax_head)

    outcome = fuzz(TARGETS["cbor"], 20_000)

    assert any(failure.what.startswith("AssertionError") for failure in outcome.failures)
