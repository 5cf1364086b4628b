import time

import pytest

from chainfl.codec import plain_json
from chainfl.errors import InputError


def test_what_json_holds_is_read() -> None:
    assert plain_json.loads(b'{"a": ["[[[", "\\"", "\\\\", {"b": null}]}', "it") == {
        "a": ["[[[", '"', "\\", {"b": None}]
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"9" * 5000,
        b'"\\',
        b'"\xed\xa0\x80"',
    ],
)
def test_anything_else_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^the file is not JSON: ") as refused:
        plain_json.loads(data, "the file")

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("data", [b'{"a":' + b'"\\' * 500_000, b'"' * 1_000_001, b"[" + b'"",' * 300_000])
def test_a_megabyte_of_quotes_takes_no_longer_than_a_megabyte_of_anything(data: bytes) -> None:
    started = time.process_time()

    with pytest.raises(InputError):
        plain_json.loads(data, "the file")

    assert time.process_time() - started < 2
