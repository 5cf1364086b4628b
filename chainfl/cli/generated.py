"""Options that are generated: one for each described field of a dataclass.

A field is described by its metadata: `help` makes it an option, `shown` names a default that is not simply the value,
`choices` lists what it may be, `required` and `wei` say so, `term` is its entry in the table of terms.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import click

from chainfl.cli.chain_options import Ether, Exact
from chainfl.protocol.term_table import Term, Unit
from chainfl.types import WAD

F = TypeVar("F", bound=Callable[..., Any])

_UNBOUNDED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Described:
    """A field that becomes an option: its type, its default and what its metadata says."""

    name: str
    kind: Any
    default: Any
    metadata: Mapping[str, Any]

    @property
    def term(self) -> Term | None:
        """Its entry in the table of terms, if it is a term."""
        term: Term | None = self.metadata.get("term")
        return term


def field_options(*kinds: type) -> Callable[[F], F]:
    """One option for each described field of these dataclasses; a name that several have is one option, the first's."""
    found: dict[str, Described] = {}
    for kind in kinds:
        for each in described(kind):
            found.setdefault(each.name, each)

    def add(command: F) -> F:
        # Decorators apply from the last to the first, so the help keeps the order of the fields.
        for each in reversed(found.values()):
            command = click.option(
                *_names(each),
                type=_type(each),
                required=each.metadata.get("required", False),
                help=_help(each),
                **({"default": None} if _type(each) is bool else {}),
            )(command)
        return command

    return add


def described(kind: type, defaults: object = None) -> Iterator[Described]:
    """The described fields of a dataclass and of those in it; an instance in `defaults` overrides the defaults."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        default = _default(each) if defaults is None else getattr(defaults, each.name)
        inner = hints[each.name]
        if isinstance(inner, type) and is_dataclass(inner):
            yield from described(inner, default)
        elif "help" in each.metadata:
            yield Described(each.name, inner, default, each.metadata)


def _default(field: "Field[Any]") -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _names(each: Described) -> tuple[str, str]:
    """How it is typed, and the parameter that it fills; what is or is not can be said either way."""
    name = each.name.replace("_", "-")
    return (f"--{name}/--no-{name}" if _type(each) is bool else f"--{name}", each.name)


def _type(each: Described) -> Any:
    """How click reads it: a term by its unit and bounds, any other field by its type."""
    if "choices" in each.metadata:
        return click.Choice(each.metadata["choices"])
    term = each.term
    if each.metadata.get("wei") or (term is not None and term.unit is Unit.WEI):
        return Ether()
    if term is not None and term.unit is Unit.WAD:
        return Exact(term.low, term.high)
    if term is not None and term.unit in (Unit.COUNT, Unit.SECONDS):
        return click.IntRange(term.low, term.high if term.high < _UNBOUNDED else None)

    # `int | None` is an int that may be left out.
    (plain,) = (kind for kind in (get_args(each.kind) or (each.kind,)) if kind is not NoneType)
    return plain


def _help(each: Described) -> str:
    """What it is, the bound that click does not show by itself, and the default in brackets."""
    text: str = each.metadata["help"]
    term = each.term
    if term is not None and term.bound and term.unit in (Unit.WAD, Unit.WEI):
        text += f"; {term.bound}"

    shown = each.metadata.get("shown") or _shown(each)
    if shown and not each.metadata.get("required"):
        text += f" [{shown}]"
    return f"{text}."


def _shown(each: Described) -> str:
    """The default as one would type it."""
    if each.default is None:
        return ""
    if each.term is not None and each.term.unit in (Unit.WAD, Unit.WEI):
        return f"{each.default / WAD:g}"
    return f"{each.default:g}" if isinstance(each.default, float) else str(each.default)
