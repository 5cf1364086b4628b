"""Artifacts: loaded by name and linked. That they are fresh, `scripts/build_contracts.py --check` says."""

import pytest

from chainfl import artifacts
from chainfl.artifacts import Artifact, ArtifactError

LIMIT = 24_576


def test_every_contract_fits_in_a_block() -> None:
    for name in artifacts.names():
        assert len(artifacts.load(name).deployed_bytecode) // 2 - 1 <= LIMIT


def test_a_contract_that_is_not_there_is_refused_with_the_names_that_are() -> None:
    with pytest.raises(ArtifactError, match="StakeRegistry"):
        artifacts.load("Registry")


def test_the_build_record_is_no_contract() -> None:
    with pytest.raises(ArtifactError, match="no contract named 'build'"):
        artifacts.load("build")


def test_linking_fills_in_every_place() -> None:
    code = "0x60" + "__$" + "0" * 34 + "$__" + "61" + "__$" + "0" * 34 + "$__"
    artifact = Artifact("Task", (), code, "0x", {"Maths": (1, 22)})

    linked = artifact.link({"Maths": "0x" + "aB" * 20})

    assert linked == "0x60" + "ab" * 20 + "61" + "ab" * 20


def test_linking_without_a_library_is_refused() -> None:
    with pytest.raises(ArtifactError, match="Maths"):
        Artifact("Task", (), "0x", "0x", {"Maths": (1,)}).link({})


def test_linking_with_what_is_no_address_is_refused() -> None:
    with pytest.raises(ArtifactError, match="40 hex digits"):
        Artifact("Task", (), "0x", "0x", {"Maths": (1,)}).link({"Maths": "0x12"})
