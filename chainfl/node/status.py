"""A node's health and numbers on a loopback port: `/health` for supervisors, `/metrics` for Prometheus."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from chainfl.errors import InputError
from chainfl.node.own_rounds import OwnRound
from chainfl.protocol.state import Task


class Status:
    """What a node shows of itself."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.registry = CollectorRegistry()
        self._round = Gauge("chainfl_round", "Running round", registry=self.registry)
        self._phase = Gauge("chainfl_phase", "Running phase (number of the contract)", registry=self.registry)
        self._steps = Counter("chainfl_steps", "Steps taken", ["step"], registry=self.registry)
        self._refused = Counter("chainfl_refused", "Steps the rules refused", registry=self.registry)
        self._failures = Counter("chainfl_failures", "Failures of chain or store", registry=self.registry)

        self._seconds = Histogram(
            "chainfl_step_seconds", "How long steps took", ["step"], registry=self.registry
        )
        self._causes = Counter(
            "chainfl_cause_seconds", "Seconds of steps by cause", ["cause"], registry=self.registry
        )
        self._agreeing = Gauge(
            "chainfl_endpoint_ok",
            "Whether an endpoint agrees with the others",
            ["endpoint"],
            registry=self.registry,
        )

        self._of_round = Gauge(
            "chainfl_own_round",
            "What the last settled round was for this account: round, share, head_score, own_score, given_score",
            ["what"],
            registry=self.registry,
        )
        self._training = Gauge(
            "chainfl_training",
            "Metrics of the last training, such as its loss",
            ["what"],
            registry=self.registry,
        )
        self._earned = Counter(
            "chainfl_earned_wei", "Pay of the rounds settled since the start", registry=self.registry
        )
        self._pay = Gauge("chainfl_round_pay_wei", "Pay of the last settled round", registry=self.registry)

        self._epsilon = Gauge(
            "chainfl_privacy_epsilon", "Privacy spent by updates so far (--dp)", registry=self.registry
        )

        self._endpoints: dict[str, str] = {}
        self._seen: float = 0.0
        self._last_error = ""
        self._step = ""

    def saw(self, task: Task) -> None:
        """The ledger was read."""
        self._seen = time.monotonic()
        self._last_error = ""
        self._round.set(task.round.number)
        self._phase.set(int(task.round.phase))

    def heard(self, endpoints: Mapping[str, str]) -> None:
        """How the endpoints do: `ok`, or why one is left out."""
        self._endpoints = dict(endpoints)
        for name, state in endpoints.items():
            self._agreeing.labels(name).set(state == "ok")

    @contextmanager
    def at_work(self, step: str) -> Iterator[None]:
        """A step is under way: as long as it takes, silence is no bad sign."""
        self._step = step
        try:
            yield
        finally:
            self._step = ""

    def took(self, step: str, seconds: float, causes: Mapping[str, float]) -> None:
        """A step was taken."""
        self._steps.labels(step).inc()
        self._seconds.labels(step).observe(seconds)
        for cause, spent in causes.items():
            self._causes.labels(cause).inc(spent)

    def settled(self, own: OwnRound) -> None:
        """A round is over; what it did not have is no number."""
        for what in ("round", "share", "head_score", "own_score", "given_score"):
            value = getattr(own, what)
            self._of_round.labels(what).set(nan if value is None else value)
        for what, value in own.training.items():
            self._training.labels(what).set(value)
        self._pay.set(own.pay)
        self._earned.inc(own.pay)

    def spent(self, epsilon: float) -> None:
        """How much privacy all updates so far have cost."""
        self._epsilon.set(epsilon)

    def refused(self) -> None:
        """The rules refused a step."""
        self._refused.inc()

    def failed(self, error: Exception) -> None:
        """Chain or store failed."""
        self._failures.inc()
        self._last_error = str(error)

    def health(self, patience: float = 60.0) -> tuple[bool, dict[str, object]]:
        """Healthy while a step is under way or the ledger was read not long ago."""
        age = time.monotonic() - self._seen if self._seen else None
        step = self._step
        healthy = bool(step) or (age is not None and age < patience)
        facts = {"ledger_read_seconds_ago": age, "step": step, "last_error": self._last_error}
        return healthy, {"ok": healthy, **facts, "endpoints": self._endpoints}


def serve_status(status: Status, port: int) -> ThreadingHTTPServer:
    """Serve on loopback in a thread of its own; `shutdown()` ends it.

    Raises:
        InputError: the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers from the status of this node alone."""

        def do_GET(self) -> None:
            if self.path == "/health":
                healthy, body = status.health()
                self._answer(200 if healthy else 503, "application/json", json.dumps(body).encode())
            elif self.path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4", generate_latest(status.registry))
            else:
                self._answer(404, "text/plain", b"/health and /metrics are here\n")

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not worth a line."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"status port {port}: {error.strerror}; choose another --status-port") from None
    threading.Thread(target=server.serve_forever, name="status", daemon=True).start()
    return server
