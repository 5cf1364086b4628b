"""What a node shows of itself on its port, and in its logs."""

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest

from chainfl.devnet.processes import free_port
from chainfl.errors import InputError, LedgerError
from chainfl.logs import JsonFormatter, set_up_logs
from chainfl.node.status import Status, serve_status
from chainfl.types import Rule
from tests.sim.network import network


@pytest.fixture
def shown() -> Iterator[tuple[Status, int]]:
    status, port = Status(), free_port()
    server = serve_status(status, port)
    with closing(server.socket):
        yield status, port
        server.shutdown()


def asked(port: int, path: str) -> tuple[int, str]:
    """What the port answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_health_follows_the_ledger_and_what_fails(shown: tuple[Status, int]) -> None:
    status, port = shown

    before = asked(port, "/health")
    status.failed(LedgerError("the endpoint does not answer"))
    failing = asked(port, "/health")
    status.saw(network(Rule.SOFTMAX).task)
    well = asked(port, "/health")

    assert (before[0], failing[0], well[0]) == (503, 503, 200)
    assert json.loads(failing[1])["last_error"] == "the endpoint does not answer"
    assert json.loads(well[1])["last_error"] == ""
    assert asked(port, "/elsewhere")[0] == 404


def test_a_long_step_is_no_bad_sign() -> None:
    status = Status()
    status.saw(network(Rule.SOFTMAX).task)

    assert not status.health(patience=0.0)[0]
    with status.at_work("commit update"):
        healthy, body = status.health(patience=0.0)
    assert (healthy, body["step"]) == (True, "commit update")
    assert not status.health(patience=0.0)[0]


def test_metrics_count_steps_refusals_failures_and_where_the_time_goes(shown: tuple[Status, int]) -> None:
    status, port = shown
    status.saw(network(Rule.SOFTMAX).task)
    status.took("commit update", 2.5, {"training": 2.0, "chain": 0.5})
    status.refused()
    status.failed(LedgerError("away"))

    _, text = asked(port, "/metrics")

    lines = text.splitlines()
    assert "chainfl_round 1.0" in lines
    assert 'chainfl_steps_total{step="commit update"} 1.0' in lines
    assert 'chainfl_cause_seconds_total{cause="training"} 2.0' in lines
    assert 'chainfl_step_seconds_sum{step="commit update"} 2.5' in lines
    assert "chainfl_refused_total 1.0" in lines
    assert "chainfl_failures_total 1.0" in lines


def test_a_port_that_is_taken_is_refused_by_name(shown: tuple[Status, int]) -> None:
    with pytest.raises(InputError, match=f"status port {shown[1]}: .*; choose another --status-port"):
        serve_status(Status(), shown[1])


def test_a_json_log_is_one_object_a_line_with_the_facts_of_the_step() -> None:
    record = logging.LogRecord("chainfl.node", logging.INFO, "", 0, "round %d: done", (7,), None)
    record.facts = {"round": 7, "seconds": 0.25}

    line = JsonFormatter().format(record)

    told = json.loads(line)
    assert "\n" not in line
    assert (told["level"], told["message"], told["round"], told["seconds"]) == (
        "info",
        "round 7: done",
        7,
        0.25,
    )
    with pytest.raises(InputError, match="log level 'loud': there are debug, info, warning"):
        set_up_logs(as_json=False, level="loud")
