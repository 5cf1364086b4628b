"""Whatever is asked, no answer is a defect of the server, and every answer is what the OpenAPI document promises."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from chainfl.api.app import create_app
from chainfl.api.settings import ApiSettings
from tests.api.scene import Scene

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SOMEBODY = "0x0000000000000000000000000000000000000005"
KNOWN = {"task": "1", "round": 3, "leaf": 1, "account": SOMEBODY}
QUICK, DEEP = 60, 2_000


@pytest.fixture
def schema(made: Scene, tmp_path: Path) -> Iterator[schemathesis.BaseSchema]:
    """An app for one test: when the last question is answered, it shuts down."""
    app = create_app(made.source, made.net.store, ApiSettings(index=tmp_path / "index.sqlite"))
    app.state.services.follower.step()
    yield schemathesis.openapi.from_asgi("/openapi.json", app)
    app.state.services.auditor.pool.close()
    app.state.services.index.close()


def search(schema: schemathesis.BaseSchema, examples: int) -> None:
    """Ask at random, right and wrong, of all routes; half of the time about things that exist."""
    routes = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    routes = [route for route in routes if route.path != "/live"]  # a stream that does not end
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    cases = st.one_of(
        *(route.as_strategy(generation_mode=mode) for route in routes for mode in modes if _can(route, mode))
    )

    @settings(max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases, st.booleans())
    def ask(case: schemathesis.Case[Any], about_what_exists: bool) -> None:
        if about_what_exists:
            names = case.path_parameters or {}
            case.path_parameters = {name: KNOWN[name] for name in names}
        case.call_and_validate(checks=CHECKS)

    ask()


def _can(route: Any, mode: GenerationMode) -> bool:
    has_parameters = bool(list(route.path_parameters) + list(route.query))
    return mode is GenerationMode.POSITIVE or has_parameters


def test_no_question_breaks_the_server_or_its_promises(schema: schemathesis.BaseSchema) -> None:
    search(schema, QUICK)


@pytest.mark.deep
def test_two_thousand_questions_break_nothing(schema: schemathesis.BaseSchema) -> None:
    search(schema, DEEP)
