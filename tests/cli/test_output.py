"""Tables for people: narrow terminals fold sentences, never names."""

import pytest

from chainfl.cli.output import print_table

ROWS = (
    ("challenge seconds", "0x" + "ab" * 32, "Length of Challenge, in seconds"),
    ("rule", "softmax", "Aggregation rule, such as softmax or fedrob:b=2,alpha=0.88"),
)


@pytest.mark.parametrize("columns", ["20", "80", "104", "200"])
def test_no_word_of_a_table_is_broken_however_narrow_the_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    print_table(("term", "value", "what it is"), ROWS)

    said = capsys.readouterr().out
    assert [word for row in ROWS for word in " ".join(row[1:]).split() if word not in said.split()] == []
    assert all(row[0] in said for row in ROWS)


def test_a_table_of_nothing_shows_its_heads(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "what it is"), ())

    assert capsys.readouterr().out.split()[:4] == ["name", "what", "it", "is"]
