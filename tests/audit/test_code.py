"""What the code of a task's contracts proves: they are this release's, and belong together."""

import pytest

from chainfl.audit import evidence
from chainfl.audit.bundle import open_bundle
from chainfl.chain.code import contracts_of, fill_of, read_task_code
from chainfl.errors import VerificationError
from chainfl.types import Address
from tests.audit.scene import History

Codes = dict[Address, bytes]
OTHER = Address(b"\x22" * 20)


@pytest.fixture
def codes(played: History) -> Codes:
    """The code of every contract, by address, as the bundle proves it."""
    with open_bundle(played.bundle) as bundle:
        subject = bundle.subject
        headers = bundle.items("headers", evidence.MAX_HEADER_BYTES)
        chain = evidence.follow_headers(headers, subject.task, subject.created, subject.block, subject.hash)
        return evidence.read_accounts(bundle.items("accounts", evidence.MAX_ACCOUNT_BYTES), chain.state_root)


def prove(played: History, codes: Codes) -> None:
    contracts_of(played.task.address, lambda at: codes.get(at, b""))


def place_of(played: History, codes: Codes, name: str) -> Address:
    return contracts_of(played.task.address, codes.__getitem__).addresses[name]


def test_the_contracts_of_a_deployment_belong_together(played: History, codes: Codes) -> None:
    prove(played, codes)

    assert len(codes) == 9


@pytest.mark.parametrize(
    "name",
    [
        "TrainingTask",
        "StakeRegistry",
        "TaskFactory",
        "Enrolment",
        "Transitions",
        "Proof",
        "Tally",
        "Settlement",
    ],
)
@pytest.mark.parametrize("place", [0, 100, -1])
def test_one_other_byte_of_code_is_another_release(
    played: History, codes: Codes, name: str, place: int
) -> None:
    at = place_of(played, codes, name)
    code = bytearray(codes[at])
    code[place] ^= 1

    with pytest.raises(
        VerificationError, match=rf"{name} 0x{at.hex()}: its code is not {name} of this release"
    ):
        prove(played, codes | {at: bytes(code)})
    with pytest.raises(VerificationError, match="its code is not"):
        prove(played, codes | {at: codes[at][:-1]})


def test_a_factory_with_another_registry_or_code_is_refused(played: History, codes: Codes) -> None:
    factory = place_of(played, codes, "TaskFactory")
    for name in ("StakeRegistry", "TrainingTask"):
        code = codes[factory].replace(place_of(played, codes, name), OTHER)

        with pytest.raises(VerificationError, match="makes its tasks with another registry or code"):
            prove(played, codes | {factory: code})


def test_a_registry_of_another_factory_leads_to_that_factory(played: History, codes: Codes) -> None:
    registry = place_of(played, codes, "StakeRegistry")
    code = codes[registry].replace(place_of(played, codes, "TaskFactory"), OTHER)

    with pytest.raises(VerificationError, match=f"TaskFactory 0x{OTHER.hex()}: its code is not"):
        prove(played, codes | {registry: code})


def test_a_registry_with_two_factories_is_refused(played: History, codes: Codes) -> None:
    registry = place_of(played, codes, "StakeRegistry")
    code = codes[registry].replace(place_of(played, codes, "TaskFactory"), OTHER, 1)

    with pytest.raises(VerificationError, match="StakeRegistry: its code holds 2 immutable values, not 1"):
        prove(played, codes | {registry: code})


def test_a_task_whose_code_calls_two_versions_of_a_library_is_refused(played: History, codes: Codes) -> None:
    implementation = place_of(played, codes, "TrainingTask")
    code = codes[implementation].replace(place_of(played, codes, "Transitions"), OTHER, 1)

    with pytest.raises(VerificationError, match="names two addresses for Transitions"):
        prove(played, codes | {implementation: code})


def test_a_library_that_takes_itself_for_another_is_refused(played: History, codes: Codes) -> None:
    library = place_of(played, codes, "Tally")
    code = codes[library].replace(library, OTHER)

    with pytest.raises(VerificationError, match="does not hold its own address"):
        prove(played, codes | {library: code})


def test_terms_are_read_from_a_tasks_code_alone(played: History, codes: Codes) -> None:
    made, read = read_task_code(codes[played.task.address]), played.task.reader().created

    assert (made.config, made.task_id, made.sponsor) == (read.config, read.task_id, read.sponsor)


def test_code_that_is_no_tasks_is_refused(played: History, codes: Codes) -> None:
    code = codes[played.task.address]

    for wrong in (
        b"",
        code[1:],
        code[:-1601],
        b"\1" + code[1:],
        codes[place_of(played, codes, "TaskFactory")],
    ):
        with pytest.raises(VerificationError, match="its code is not that of a task"):
            read_task_code(wrong)
    for wrong in (code[:-1], code[:-1500], code[:-1600]):
        with pytest.raises(VerificationError, match="the terms in its code cannot be read"):
            read_task_code(wrong)


def test_every_contract_of_the_release_has_its_holes_where_they_are_filled(
    played: History, codes: Codes
) -> None:
    contracts = contracts_of(played.task.address, codes.__getitem__)

    filled = fill_of("TrainingTask", codes[contracts.made.implementation])

    assert filled.libraries == contracts.libraries
    assert filled.immutables == frozenset()
    assert len(fill_of("TaskFactory", codes[contracts.factory]).immutables) == 3
