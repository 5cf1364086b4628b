"""Exported models: from chain and store alone, proven by one block's hash, and no byte changed unseen."""

import json
import random
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from chainfl.audit.provenance import read_statement
from chainfl.chain.keys import signer_of
from chainfl.cli.app import run
from chainfl.codec import merkle
from chainfl.codec.model_file import About, ModelFile, read_model_file, write_model_file
from chainfl.codec.records import Layout, Tensor
from chainfl.errors import InputError, ModelFileError
from chainfl.types import TOTAL
from chainfl.workflows.audit import played_rounds
from chainfl.workflows.model import (
    ExportedModel,
    export_model,
    root_of,
    statement_path,
    verify_model,
    write_export,
)
from tests.audit.scene import History


@pytest.fixture(scope="module")
def exported(played: History, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExportedModel]:
    """Round 1's model, as a file with its statement."""
    out = tmp_path_factory.mktemp("models") / "model.safetensors"
    made = export_model(played.task.reader(), played.blobs(), out.name, 1)
    write_export(made, out)
    return out, made


def test_the_file_holds_the_model_that_the_chain_names(
    played: History, exported: tuple[Path, ExportedModel]
) -> None:
    out, _ = exported
    file = read_model_file(out.read_bytes())
    first = played_rounds(played.task.reader())[0]

    assert merkle.root(file.vector) == root_of(first) == file.about.root
    assert file.about.task == played.task.address


def test_without_a_round_it_is_the_head_and_round_0_is_the_first_model(played: History) -> None:
    reader = played.task.reader()
    head = export_model(reader, played.blobs(), "m")
    first = export_model(reader, played.blobs(), "m", 0)

    assert head.file.about.root == reader.task.head_root
    assert first.file.about.root == reader.task.config.first_root
    assert first.statement["predicate"]["chainfl"]["contributors"] == []


def test_the_same_round_gives_the_same_bytes(played: History, exported: tuple[Path, ExportedModel]) -> None:
    again = export_model(played.task.reader(), played.blobs(), "model.safetensors", 1)

    assert again.data == exported[1].data
    assert again.statement == exported[1].statement


def test_the_statement_says_who_contributed_what(
    played: History, exported: tuple[Path, ExportedModel]
) -> None:
    told = exported[1].statement["predicate"]["chainfl"]
    task = played_rounds(played.task.reader())[0].standing()
    by_account = {"0x" + task.by_id(id_).address.hex(): share
                  for id_, share in zip(task.round.order, task.round.decided.shares[1:], strict=True)}  # fmt: skip

    assert {each["account"]: each["share"] for each in told["contributors"]} == {
        account: share for account, share in by_account.items() if share
    }
    assert told["whole"] == TOTAL
    assert told["rule"] == "softmax"
    block = played.chain.w3.eth.get_block(told["block"]["number"])
    assert told["block"]["hash"] == block["hash"].to_0x_hex()


def test_the_statement_has_the_layout_of_model_signing(exported: tuple[Path, ExportedModel]) -> None:
    out, made = exported
    (resource,) = made.statement["predicate"]["resources"]
    (subject,) = made.statement["subject"]

    assert resource["digest"] == sha256(out.read_bytes()).hexdigest()
    assert subject["digest"]["sha256"] == sha256(bytes.fromhex(resource["digest"])).hexdigest()


def test_a_bundle_and_one_hash_prove_it_offline(
    played: History, exported: tuple[Path, ExportedModel]
) -> None:
    done = verify_model(exported[0], bundle=played.bundle, block_hash=played.hash)

    assert done.proven_by is not None
    assert done.statement is not None
    assert done.file.about.round == 1


def test_a_model_that_no_round_made_is_refused_by_bundle_and_chain(
    played: History, exported: tuple[Path, ExportedModel], tmp_path: Path
) -> None:
    file = exported[1].file
    forged = file.vector.copy()
    forged[0] += 1
    claims = About(file.about.chain, file.about.task, 1, merkle.root(forged), file.about.s)
    out = tmp_path / "forged.safetensors"
    out.write_bytes(write_model_file(forged, file.layout, claims))

    assert verify_model(out).proven_by is None  # by itself it only agrees with itself
    with pytest.raises(ModelFileError, match="round 1 made the model"):
        verify_model(out, bundle=played.bundle, block_hash=played.hash)
    with pytest.raises(ModelFileError, match="round 1 made the model"):
        verify_model(out, reader=played.task.reader())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round": 7}, "round 7 of this task made no model"),
        ({"chain": 1}, "chain: the bundle says 31337, the file 1"),
        ({"task": b"\x01" * 20}, "task: the bundle says"),
    ],
)
def test_claims_that_the_chain_does_not_bear_out_are_refused(
    played: History,
    exported: tuple[Path, ExportedModel],
    tmp_path: Path,
    change: dict[str, object],
    message: str,
) -> None:
    file = exported[1].file
    fields = {"chain": file.about.chain, "task": file.about.task, "round": 1} | change
    claims = About(fields["chain"], fields["task"], fields["round"], file.about.root, file.about.s)  # type: ignore[arg-type]
    out = tmp_path / "claims.safetensors"
    out.write_bytes(write_model_file(file.vector, file.layout, claims))

    with pytest.raises(ModelFileError, match=message):
        verify_model(out, bundle=played.bundle, block_hash=played.hash)


def test_any_changed_byte_of_a_large_file_is_found_and_its_tensor_named(tmp_path: Path) -> None:
    out, file = large(tmp_path)
    data = out.read_bytes()
    draw = random.Random(20261118)
    header = 8 + int.from_bytes(data[:8], "little")
    places = [draw.randrange(header, len(data)) for _ in range(60)] + [
        draw.randrange(header) for _ in range(60)
    ]

    for at in places:
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        out.write_bytes(changed)
        with pytest.raises(ModelFileError) as refused:
            verify_model(out)
        if at >= header:
            assert f"tensor {tensor_at(file, at - header)!r}" in str(refused.value)


def large(home: Path) -> tuple[Path, ModelFile]:
    """A file of 6.65 MB, as of the papers' network for digits, with its statement."""
    from chainfl.audit.provenance import Origin, statement_of

    layout = Layout((
        Tensor("conv1.bias", (32,)), Tensor("conv1.weight", (32, 1, 5, 5)),
        Tensor("conv2.bias", (64,)), Tensor("conv2.weight", (64, 32, 5, 5)),
        Tensor("fc1.bias", (512,)), Tensor("fc1.weight", (512, 3136)),
        Tensor("fc2.bias", (10,)), Tensor("fc2.weight", (10, 512)),
    ))  # fmt: skip
    steps = np.random.default_rng(1).integers(-(2**18), 2**18, layout.d)
    vector = (steps + 2**31).astype(np.uint32)
    file = ModelFile(vector, layout, About(1, b"\x05" * 20, 9, merkle.root(vector), 20))
    data = write_model_file(vector, layout, file.about)
    out = home / "large.safetensors"
    statement = statement_of(out.name, data, file, Origin("softmax", None, None, ()))
    write_export(ExportedModel(data, file, statement), out)
    return out, file


def tensor_at(file: ModelFile, offset: int) -> str:
    """The tensor that holds this byte; safetensors orders tensors of one type by name, as layouts do."""
    for tensor, span in file.spans():
        if 4 * span.start <= offset < 4 * span.stop:
            return tensor.name
    raise AssertionError(offset)


# Statements


def test_a_signed_statement_names_its_signer_and_cannot_be_changed(played: History, tmp_path: Path) -> None:
    keystore, password = played.keystore("exporter")
    out = tmp_path / "signed.safetensors"
    arguments = [
        "model",
        "export",
        "--rpc-url",
        played.chain.url,
        "--task",
        played.address,
        "--store",
        played.store,
    ]
    code = run([*arguments, "--round", "1", "--out", str(out), "--keystore", str(keystore),
                "--password-file", str(password), "--json"])  # fmt: skip
    beside = statement_path(out)
    envelope = json.loads(beside.read_text())

    assert code == 0
    signed_by = verify_model(out).statement.signed_by  # type: ignore[union-attr]
    assert envelope["signatures"][0]["keyid"] == "0x" + signed_by.hex()  # type: ignore[union-attr]
    envelope["payload"] = envelope["payload"][:-8] + "AAAA" + envelope["payload"][-4:]
    beside.write_text(json.dumps(envelope))
    with pytest.raises(ModelFileError, match="statement"):
        verify_model(out)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b'{"payload": 1}', b'{"payload": "", "signatures": []}', b"[" * 100_000],
)
def test_what_is_no_statement_is_refused(data: bytes) -> None:
    with pytest.raises(ModelFileError, match="statement"):
        read_statement(data, signer_of)


# Commands


def test_the_commands_export_and_prove(
    played: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.safetensors"
    where = ["--rpc-url", played.chain.url]
    assert (
        run(["model", "export", *where, "--task", played.address, "--store", played.store, "--out", str(out)])
        == 0
    )
    capsys.readouterr()

    proof = ["--bundle", str(played.bundle), "--block-hash", "0x" + played.hash.hex()]
    assert run(["model", "verify", str(out), *proof, "--json"]) == 0
    offline = json.loads(capsys.readouterr().out)["metrics"]
    assert run(["model", "verify", str(out), *where, "--online", "--json"]) == 0
    online = json.loads(capsys.readouterr().out)["metrics"]

    assert offline["root"] == online["root"] == "0x" + played.task.reader().refresh().head_root.hex()
    assert offline["proven_by"].startswith("block 0x")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["verify", "nowhere.safetensors"], 2, "No such file"),
        (["verify", "x", "--bundle", "b.car"], 2, "--bundle and --block-hash go together"),
        (["verify", "x", "--bundle", "b", "--block-hash", "0x12"], 2, "is not a block's hash"),
        (
            ["verify", "x", "--online", "--bundle", "b", "--block-hash", "0x" + "11" * 32],
            2,
            "give one of them",
        ),
    ],
)
def test_bad_questions_are_refused_in_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model", *arguments]) == code

    said = capsys.readouterr().err.strip()
    assert message in said
    assert "\n" not in said


def test_a_round_that_made_no_model_lists_those_that_did(played: History) -> None:
    with pytest.raises(InputError, match="final rounds: 1, 2; --round 0 is the first model"):
        export_model(played.task.reader(), played.blobs(), "m", 3)


def test_tensors_under_other_names_are_refused_though_the_root_is_right(
    played: History, exported: tuple[Path, ExportedModel], tmp_path: Path
) -> None:
    file = exported[1].file
    (tensor,) = file.layout.tensors
    renamed = tmp_path / "renamed.safetensors"
    renamed.write_bytes(write_model_file(file.vector, Layout((Tensor("other", tensor.shape),)), file.about))

    with pytest.raises(ModelFileError, match=f"tensor 0 is 'other'.*task names '{tensor.name}'"):
        verify_model(renamed, bundle=played.bundle, block_hash=played.hash)
