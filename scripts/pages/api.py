"""docs/reference/api.md: every route of the audit API, read from its OpenAPI document."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chainfl.api.app import create_app
from chainfl.api.settings import ApiSettings
from chainfl.protocol.terms import Floors
from chainfl.protocol.world import World
from chainfl.sim.memory import Chain
from chainfl.store.directory import DirectoryStore
from chainfl.types import Address
from tests.api.memory import MemorySource

ABOUT: Final = """\
# Routes of the audit API

Made from its OpenAPI document by `python -m scripts.make_docs`; a test compares. A running service serves the document
itself at `/openapi.json`. What the answers mean, paging, ETags and errors: [the audit API](../api.md).

All routes are `GET`. Every route may also answer 503 where chain or store are away, and 429 to a client with too much
under way.
"""


def page() -> str:
    """The whole page."""
    document = openapi()
    routes = [_route(path, each["get"]) for path, each in document["paths"].items() if "get" in each]
    schemas = document["components"]["schemas"]
    shapes = [_shape(name, schema) for name, schema in sorted(schemas.items())]
    return "\n".join([ABOUT, *routes, "## Shapes\n", *shapes])


def openapi() -> dict[str, Any]:
    """The document of a service over an empty chain; routes do not depend on what is on it."""
    with tempfile.TemporaryDirectory(prefix="chainfl-docs-") as folder:
        chain = Chain(World(1, Address(bytes(20)), Floors(1)), bytes(32))
        store = DirectoryStore(Path(folder) / "store")
        app = create_app(MemorySource(chain), store, ApiSettings(index=Path(folder) / "index.sqlite"))
        try:
            return app.openapi()
        finally:
            app.state.services.auditor.pool.close()
            app.state.services.index.close()


def _route(path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"## `{path}`", _text(operation.get("description") or operation.get("summary", ""))]
    parameters = operation.get("parameters", [])
    if parameters:
        parts.append(_table(("parameter", "in", "type", ""), [_parameter(each) for each in parameters]))
    parts.append(_table(("status", "answer"), _answers(operation["responses"])))
    return "\n\n".join(parts) + "\n"


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str, str, str]:
    schema = parameter["schema"]
    about = [parameter.get("description", "")]
    if "default" in schema and schema["default"] is not None:
        about.append(f"default `{schema['default']}`")
    if "maximum" in schema:
        about.append(f"at most {schema['maximum']}")
    return f"`{parameter['name']}`", parameter["in"], _type(schema), _text("; ".join(filter(None, about)))


def _answers(responses: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A row for each kind of answer, with every status that gives it."""
    codes: dict[str, list[str]] = {}
    for code, response in sorted(responses.items()):
        codes.setdefault(_answer(response), []).append(code)
    return [(", ".join(each), answer) for answer, each in codes.items()]


def _answer(response: Mapping[str, Any]) -> str:
    for media, content in response.get("content", {}).items():
        schema = content.get("schema", {})
        return f"{_type(schema)} ({media})" if schema else media
    return _text(response.get("description", ""))


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    parts = [f'<a id="shape-{name.lower()}"></a>', f"### {name}", _text(schema.get("description", ""))]
    properties = schema.get("properties", {})
    if properties:
        rows = [
            (f"`{key}`", _type(each), _text(each.get("description", ""))) for key, each in properties.items()
        ]
        parts.append(_table(("field", "type", ""), rows))
    elif "enum" in schema:
        parts.append("One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + ".")
    return "\n\n".join(part for part in parts if part) + "\n"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a word or two, with a link where it has a name."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#shape-{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(each) for each in schema[key])
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _text(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
