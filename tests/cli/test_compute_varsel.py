import json
from typing import Any

import pytest

from chainfl.cli import run
from chainfl.cli.compute_varsel import weights
from chainfl.cli.inputs import Json
from chainfl.errors import InputError
from chainfl.types import TOTAL

QUESTION: dict[str, Json] = {
    "distances": [[0, 16, 100], [16, 0, 36], [100, 36, 0]],
    "internals": [True, True, False],
    "budget": 1,
}


def test_weights_and_shares_by_hand() -> None:
    """a = 8 and |d|^2 = 64 around the mean 2 of 0 and 4: (8 + 64 w^2) / (2 + w)^2 is least at w = 1/16."""
    share = TOTAL * 16 // 33

    answer = weights(QUESTION)

    assert answer["weights"] == [2**20, 2**20, 2**16]
    assert answer["shares"] == [0, TOTAL - share - share // 16, share, share // 16]


def test_updates_give_what_their_distances_give() -> None:
    updates: list[Json] = [[0], {"w": [4 - 2**31]}, "0x0000000a"]

    answer = weights({"updates": updates, "internals": [True, True, False], "budget": "1"})

    assert answer == weights(QUESTION)


def test_the_command_prints_what_the_function_gives(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    file = tmp_path / "question.json"
    file.write_text(json.dumps(QUESTION))

    assert run(["compute", "weights", str(file), "--json"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert report["metrics"]["weights"] == [2**20, 2**20, 2**16]
    assert sum(report["metrics"]["shares"]) == TOTAL


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"updates": [[0]]}, 'give either "updates" or "distances"'),
        ({"internals": [True, True]}, "input.internals: 2 for 3 updates"),
        ({"internals": [True, 1, False]}, r"input.internals\[1\]: expected true or false, found an integer"),
        ({"internals": [False] * 3}, "no update is internal"),
        ({"budget": -1}, "input.budget: -1 is too small"),
        ({"budget": None}, "input.budget: expected an integer"),
        ({"distances": [[0, 16], [16, 0, 36], [100, 36, 0]]}, "3 rows of 3 squared distances"),
        ({"distances": [[0, 1600, 1], [1600, 0, 1], [1, 1, 0]]}, "not those of any vectors"),
        ({"distances": [[0] * 129] * 129, "internals": [True] * 129}, "at most 128"),
        ({"extra": 1}, "unknown key 'extra'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Json], says: str) -> None:
    with pytest.raises(InputError, match=says):
        weights(QUESTION | changes)
