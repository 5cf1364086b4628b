import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from chainfl.errors import InputError, LedgerError
from chainfl.report import bar, emit, encode, envelope, narrate, refusal, report

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schemas"
SCHEMA = Draft202012Validator(json.loads((SCHEMAS / "report.json").read_text()))


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_is_a_schema(path: Path) -> None:
    Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("value", "op", "limit", "ok"),
    [
        (5.1, "<=", 6, True),
        (6, "<=", 6, True),
        (6.1, "<=", 6, False),
        (6, "<", 6, False),
        (2, ">=", 2, True),
        (2, ">", 2, False),
        (0, "==", 0, True),
        (float("nan"), "<=", 6, False),
        (float("inf"), ">", 1, False),
    ],
)
def test_a_bar_is_kept_when_its_comparison_holds(value: float, op: str, limit: float, ok: bool) -> None:
    assert bar("codec.tree_ratio", value, op, limit).ok is ok  # type: ignore[arg-type]


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"bar codec.tree_ratio: operator '~' is not one of <=, <, >=, >, =="
    ):
        bar("codec.tree_ratio", 1, "~", 2)  # type: ignore[arg-type]


def test_one_missed_bar_makes_the_report_negative() -> None:
    kept, missed = bar("a.b", 1, "<=", 2), bar("a.c", 3, "<=", 2)

    assert report("codec", {}, [kept]).exit_code == 0
    assert report("codec", {}, [kept, missed]).exit_code == 1
    assert report("codec", {}, [kept], ok=False).exit_code == 1


def test_the_envelope_has_the_published_keys_in_order() -> None:
    body = envelope(
        report("codec", {"tree": 1.5}, [bar("codec.tree_ratio", 5.1, "<=", 6)], seed=7, seconds=1.25)
    )

    assert list(body) == ["schema", "ok", "commit", "machine", "seed", "seconds", "metrics", "bars"]
    assert body["schema"] == "chainfl/codec/1"
    assert body["bars"] == [{"id": "codec.tree_ratio", "value": 5.1, "op": "<=", "limit": 6, "ok": True}]
    SCHEMA.validate(body)


@given(
    value=st.floats(),
    metrics=st.dictionaries(st.text(), st.recursive(st.floats() | st.text() | st.none(), st.lists)),
)
def test_any_report_is_strict_json_that_keeps_the_schema(value: float, metrics: dict[str, object]) -> None:
    text = encode(report("codec", metrics, [bar("codec.tree_ratio", value, "<=", 6)]))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    SCHEMA.validate(json.loads(text, parse_constant=refuse))


def test_a_refusal_keeps_the_schema_and_the_exit_code() -> None:
    refused = refusal("task-show", LedgerError("no answer from http://127.0.0.1:8545"))

    SCHEMA.validate(json.loads(encode(refused)))
    assert refused.exit_code == 5


def test_stdout_holds_exactly_one_object_and_narration_goes_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    narrate("measuring")
    code = emit(report("codec", {"x": 1}))

    out, err = capsys.readouterr()
    assert code == 0
    assert json.loads(out)["metrics"] == {"x": 1}
    assert out.count("\n") == 1
    assert err == "measuring\n"
