import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from chainfl.cli import run
from chainfl.cli.compute import cid, combine, root
from chainfl.cli.inputs import Json
from chainfl.errors import ChainflError

ROOT = Path(__file__).resolve().parents[2]
REPORT = Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / "report.json").read_text()))
HALF = 2**30

numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    numbers, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner)
)


def tree_by_hand(leaves: list[bytes]) -> bytes:
    """The tree of the specification, in the fewest words."""
    level = [hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        level = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def objects(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects with our keys and anybody's values."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, anything))


def ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, question: Json
) -> tuple[int, dict[str, Any]]:
    file = tmp_path / "in.json"
    file.write_text(json.dumps(question))
    code = run(["compute", command, str(file), "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    REPORT.validate(answer)
    return code, answer


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=256))
def test_the_root_is_the_one_of_the_specification(u: list[int]) -> None:
    data = b"".join(each.to_bytes(4, "big") for each in u)
    count = 1 << (-(-len(u) // 64) - 1).bit_length()
    padded = data + bytes.fromhex("80000000") * (count * 64 - len(u))
    expected = tree_by_hand([padded[at : at + 256] for at in range(0, len(padded), 256)])

    assert root({"u": list(u)})["root"] == "0x" + expected.hex()


def test_all_forms_of_a_vector_have_the_same_root() -> None:
    forms: list[dict[str, Json]] = [
        {"values": [0.5, -0.25], "s": 20},
        {"values": [0.5, -0.25]},
        {"w": [2**19, -(2**18)]},
        {"u": [2**31 + 2**19, str(2**31 - 2**18)]},
        {"bytes": "0x800800007ffc0000"},
    ]

    assert len({root(form)["root"] for form in forms}) == 1


def test_a_proof_leads_to_the_root() -> None:
    answer = root({"w": list(range(200)), "leaf": 2})

    digest, index = hashlib.sha256(b"\0" + bytes.fromhex(answer["proof"]["leaf"][2:])).digest(), 2
    for sibling in answer["proof"]["siblings"]:
        other = bytes.fromhex(sibling[2:])
        digest = hashlib.sha256(b"\1" + (other + digest if index & 1 else digest + other)).digest()
        index >>= 1
    assert "0x" + digest.hex() == answer["root"]


@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=8), st.integers(0, 2**31))
def test_combining_is_the_formula(columns: list[tuple[int, int, int]], first: int) -> None:
    shares = [first, (2**31 - first) // 2, 2**31 - first - (2**31 - first) // 2]
    head, *updates = ([column[at] for column in columns] for at in range(3))
    expected = [(sum(p * u for p, u in zip(shares, column, strict=True)) + 2**30) >> 31 for column in columns]

    answer = combine(json.loads(json.dumps({"head": head, "updates": updates, "shares": shares})))

    assert answer["u"] == expected


def test_combining_by_ranks_takes_the_median() -> None:
    answer = combine({"updates": [[5, 1], [3, 9], [4, 2]], "shares": [0, 0, 2**31, 0], "by": "ranks"})

    assert answer["u"] == [4, 2]


def test_the_cid_of_hello_is_the_one_ipfs_gives() -> None:
    assert cid({"bytes": "0x68656c6c6f"})["cid"] == (
        "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"
    )


def test_a_record_has_the_cid_of_its_canonical_bytes() -> None:
    link = cid({"bytes": "0x00"})["cid"]
    written = cid({"record": {"list": [1, None, True], "link": {"/": link}, "b": {"/": {"bytes": "aGk"}}}})

    read = cid({"bytes": written["bytes"], "codec": "dag-cbor"})

    assert read["cid"] == written["cid"]
    assert written["cid"].startswith("bafyrei")


@pytest.mark.parametrize(
    ("command", "question", "message"),
    [
        ("root", {"values": [1e9]}, "parameter 0 is 1000000000.0: with s = 20 values must be finite"),
        ("root", {"values": [10**400]}, "input.values[0]: an integer is too large for a float64"),
        ("root", {"values": ["1"]}, "input.values[0]: expected a number, found text"),
        (
            "root",
            {"values": [1], "scale": 3},
            "input: unknown key 'scale'; known: values, s, w, u, bytes, leaf",
        ),
        (
            "root",
            {"w": [1], "u": [1]},
            "input: give exactly one of values (with s), w, u or bytes, found w, u",
        ),
        ("root", {"u": []}, "d is 0: a model has at least one parameter"),
        ("root", {"u": [2**32]}, "input.u[0]: 4294967296 is too large: give at most 4294967295"),
        ("root", {"bytes": "0x8000"}, "input.bytes: 2 bytes are no whole number of parameters of 4"),
        ("root", {"u": [1], "leaf": 1}, "input.leaf: 1 is too large: give at most 0"),
        ("root", [1], "input: expected an object, found an array"),
        ("combine", {"updates": [[1], [2]], "shares": [0, HALF]}, "2 shares for 2 updates"),
        ("combine", {"updates": [[1], [2]], "shares": [0, HALF, 1]}, "shares sum to 1073741825, not to 2^31"),
        ("combine", {"updates": [[1], [2, 3]], "shares": [0, HALF, HALF]}, "input 1 has 2 parameters"),
        ("combine", {"updates": [[1]], "shares": [HALF, HALF]}, "input 0 of those with a share is missing"),
        (
            "combine",
            {"updates": [[1]], "shares": [0, -1]},
            "input.shares[1]: -1 is too small: give at least 0",
        ),
        (
            "combine",
            {"updates": [], "shares": [], "by": "luck"},
            "input.by: expected one of updates, ranks, found 'luck'",
        ),
        ("combine", {"updates": []}, "input.shares: this value is missing, and needed"),
        ("combine", {"updates": None, "shares": []}, "input.updates: expected an array, found null"),
        ("combine", {"updates": [5], "shares": []}, "input.updates[0]: expected an object, found an integer"),
        ("combine", {"updates": [[1, True]], "shares": []}, "input.updates[0].u[1]: expected an integer"),
        (
            "combine",
            {"updates": [{"v": []}], "shares": []},
            "input.updates[0]: unknown key 'v'; known: values,",
        ),
        (
            "combine",
            {"updates": ["0x00"], "shares": []},
            "input.updates[0].bytes: 1 bytes are no whole number",
        ),
        ("combine", {"updates": [[]], "shares": [0, 2 * HALF]}, "d is 0: a model has at least one parameter"),
        ("root", {"u": ["0x" + "f" * 5000]}, "input.u[0]: '0xffff"),
        ("root", {"u": ["1.5"]}, "input.u[0]: '1.5' is not an integer"),
        ("root", {"u": [1.0]}, "input.u[0]: expected an integer, found a float"),
        ("root", {"u": [1], "\ud800": 1}, r"input: unknown key '\ud800'; known: values"),
        ("cid", {}, 'input: give either "bytes" or "record"'),
        ("cid", {"bytes": "0xzz"}, "input.bytes: '0xzz' is not hexadecimal text"),
        (
            "cid",
            {"bytes": "0x00", "codec": "json"},
            "input.codec: expected one of raw, dag-cbor, found 'json'",
        ),
        ("cid", {"record": 1, "codec": "raw"}, 'input.codec: a record is "dag-cbor"; "raw" is for bytes'),
        ("cid", {"record": {"x": 0.5}}, "input.record.x: 0.5 is a float, which records do not hold"),
        ("cid", {"record": {"/": 1}}, 'input.record: the key "/" is only for links and bytes'),
    ],
)
def test_bad_input_is_refused_with_what_and_where(
    command: str, question: Json, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = ask(tmp_path, capsys, command, question)

    assert code == 2
    assert answer["error"]["message"].startswith(message)


def test_bytes_that_are_not_canonical_do_not_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_in_two_bytes = "0x1801"

    code, answer = ask(tmp_path, capsys, "cid", {"bytes": one_in_two_bytes, "codec": "dag-cbor"})

    assert code == 4
    assert answer["error"]["kind"] == "RecordError"


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b'{"u": [' + b"9" * 5000 + b"]}"])
def test_text_that_is_no_json_is_refused(
    text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.json"
    file.write_bytes(text)

    assert run(["compute", "root", str(file)]) == 2

    assert capsys.readouterr().err.startswith("error: input is not JSON: ")


def test_a_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compute", "root", "/nonexistent.json"]) == 2

    assert "/nonexistent.json" in capsys.readouterr().err


@given(objects("values", "s", "w", "u", "bytes", "leaf"))
@example({"values": [float("nan")]})
@example({"values": [True]})
@example({"u": [1], "leaf": True})
def test_whatever_is_asked_root_answers_or_refuses(question: dict[str, Json]) -> None:
    _answers_or_refuses(root, question)


@given(objects("head", "updates", "shares", "by"))
@example({"head": [1], "updates": [], "shares": [2**31]})
@example({"updates": None, "shares": None})
def test_whatever_is_asked_combine_answers_or_refuses(question: dict[str, Json]) -> None:
    _answers_or_refuses(combine, question)


@given(objects("bytes", "codec", "record"))
@example({"record": {"\ud800": "\udfff"}})
@example({"record": 2**64})
def test_whatever_is_asked_cid_answers_or_refuses(question: dict[str, Json]) -> None:
    _answers_or_refuses(cid, question)


def _answers_or_refuses(compute: Any, question: dict[str, Json]) -> None:
    with suppress(ChainflError):
        json.dumps(compute(question))
