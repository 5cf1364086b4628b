"""A task of VaRSeL for the bench of gas: its first accounts are internal, and every update has a part."""

from dataclasses import replace
from functools import cache

from chainfl.codec.admission import ANYONE, Entry
from chainfl.protocol.admission import Admission, admit_all, list_root
from chainfl.protocol.varsel import WHOLE, varsel_shares
from chainfl.types import WAD, Address, Role, TaskConfig


def with_internals(config: TaskConfig, internals: tuple[Address, ...]) -> TaskConfig:
    """The terms with these as committee that trains, and a budget for all others; the head has no part."""
    return replace(
        config,
        alpha=WAD,
        budget=255,
        admission_root=list_root(_entries(internals)),
        min_internals=len(internals),
        internals_train=True,
    )


def enrolment(account: Address, internals: tuple[Address, ...]) -> tuple[str, *tuple[object, ...]]:
    """How an account enrols in a task with these internals: the call and what it takes."""
    shown = _shown(internals)
    admission = shown.get(account, shown[ANYONE])
    return "enrolAdmitted", account, admission.role, admission.proof


def whole_shares(updates: int, internals: int) -> list[int]:
    """Every external update counts as an internal one."""
    return [0, *varsel_shares([WHOLE] * updates, [i < internals for i in range(updates)])]


def _entries(internals: tuple[Address, ...]) -> list[Entry]:
    return [(ANYONE, Role.PARTICIPANT), *((each, Role.INTERNAL) for each in internals)]


@cache
def _shown(internals: tuple[Address, ...]) -> dict[Address, Admission]:
    return admit_all(_entries(internals))
