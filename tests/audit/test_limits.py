"""`chainfl audit verify` and `chainfl watch` refuse a task that is too large, in one line."""

import pytest

from chainfl.cli.app import run
from tests.audit.scene import History


@pytest.mark.parametrize("more", [[], ["--challenge"]])
def test_a_task_over_the_limit_is_refused_in_one_line(
    standing: History, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    chain = ["--rpc-url", standing.chain.url, "--task", standing.address, "--store", standing.store]

    code = run(["audit", "verify", *chain, "--max-parameters", "10", *more])

    assert code == 4
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: the task's models have ")
    assert line.endswith(
        "parameters, more than the 10 allowed here: leave it alone, or raise --max-parameters"
    )
