"""Offline bundles: they say what the chain says, need no network, and no byte of them can be changed unseen."""

import json
import random
import re
import socket
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from chainfl.audit import evidence
from chainfl.audit.bundle import EVIDENCE, LISTS, Bundle, Subject, begin_bundle, open_bundle
from chainfl.audit.verify import Verdict
from chainfl.chain import evidence as endpoint
from chainfl.chain.rpc import open_rpc
from chainfl.cli.app import run
from chainfl.codec import car, cbor, rlp
from chainfl.codec.cid import Cid, Codec
from chainfl.devnet.processes import CHAIN_ID
from chainfl.errors import BundleError, InputError, LedgerError, StoreError, VerificationError
from chainfl.store.directory import DirectoryStore
from chainfl.types import Address, Outcome, Phase
from chainfl.workflows.audit import AuditedRound, audit
from chainfl.workflows.bundle import export_bundle, verify_bundle
from tests.audit.scene import History

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
MAX = {"headers": evidence.MAX_HEADER_BYTES, "accounts": evidence.MAX_ACCOUNT_BYTES}
MAX |= {"receipts": evidence.MAX_RECEIPTS_BYTES}


def findings(rounds: Iterable[AuditedRound]) -> list[tuple[int, Outcome, list[tuple[str, str, str]]]]:
    return [
        (
            one.played.number,
            one.played.outcome,
            [(f.check, f.verdict.value, f.expected) for f in one.findings],
        )
        for one in rounds
    ]


# What it says


def test_a_bundle_says_what_the_chain_says(played: History) -> None:
    online = list(audit(played.task.reader(), DirectoryStore(played.home / "store")))

    offline = verify_bundle(played.bundle, played.hash)

    assert findings(offline.rounds) == findings(online)
    assert [one.verdict for one in offline.rounds] == [Verdict.OK, Verdict.MISMATCH]
    assert [f.check for f in offline.rounds[1].findings if not f.is_ok] == ["model root"]


def test_a_bundle_names_the_contracts_that_it_proves(played: History) -> None:
    done = verify_bundle(played.bundle, played.hash, played.task.address)

    deployed = played.chain.deployment
    assert done.contracts.factory == deployed.factory_address
    assert done.contracts.made.registry == deployed.registry_address
    libraries = {name: "0x" + at.hex() for name, at in done.contracts.libraries.items()}
    assert libraries == {name: deployed.steps[name].address.lower() for name in libraries}
    assert done.contracts.made.config == played.task.reader().created.config


def test_one_round_takes_its_own_blobs_only(played: History, tmp_path: Path) -> None:
    whole = played.exported
    one = played.export(tmp_path / "one.car", number=2)

    done = verify_bundle(tmp_path / "one.car", played.hash)

    assert one.rounds == (2,)
    assert one.blobs < whole.blobs
    assert findings(done.rounds) == findings(verify_bundle(played.bundle, played.hash, number=2).rounds)
    with pytest.raises(InputError, match="holds round 2 only, not round 1"):
        verify_bundle(tmp_path / "one.car", played.hash, number=1)


def test_the_same_history_gives_the_same_bytes(played: History, tmp_path: Path) -> None:
    played.export(tmp_path / "again.car")

    assert (tmp_path / "again.car").read_bytes() == played.bundle.read_bytes()


def test_blobs_that_nobody_has_are_listed_and_cost_only_their_checks(played: History, tmp_path: Path) -> None:
    store, gone = damaged_store(played, tmp_path), update_of_round_one(played)
    (path,) = (tmp_path / "store" / "blocks").rglob(str(gone))
    path.unlink()

    done = played.export(tmp_path / "poor.car", store)
    offline = verify_bundle(tmp_path / "poor.car", played.hash)

    assert gone in done.missing
    assert offline.rounds[0].verdict is Verdict.UNAVAILABLE
    assert {f.check for f in offline.rounds[0].findings if not f.is_ok} == {"update roots", "model root"}
    (told,) = (f.found for f in offline.rounds[0].findings if f.check == "update roots")
    assert f"{gone} was not found when the bundle was written" in told


def test_a_damaged_store_is_named_and_nothing_is_written(played: History, tmp_path: Path) -> None:
    store, gone = damaged_store(played, tmp_path), update_of_round_one(played)
    (path,) = (tmp_path / "store" / "blocks").rglob(str(gone))
    path.write_bytes(b"x" + path.read_bytes()[1:])

    (tmp_path / "out").mkdir()

    with pytest.raises(VerificationError, match=f"{gone}.*damaged"):
        played.export(tmp_path / "out" / "bad.car", store)

    assert list((tmp_path / "out").iterdir()) == []


def damaged_store(played: History, home: Path) -> DirectoryStore:
    """A copy of the store that a test may damage."""
    for file in (played.home / "store").rglob("b*"):
        if file.is_file():
            copy = home / "store" / file.relative_to(played.home / "store")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return DirectoryStore(home / "store")


def update_of_round_one(played: History) -> Cid:
    """The node of an update that counted."""
    done = verify_bundle(played.bundle, played.hash, number=1).rounds[0].played.standing()
    assert done.round.tally is not None
    id_ = next(id_ for id_, counts in zip(done.round.order, done.round.tally.included, strict=True) if counts)
    cid = done.round.revealed(id_).cid
    return Cid.dag_cbor(cid)


# What it rests on


def test_a_bundle_that_rests_on_another_block_is_refused(played: History) -> None:
    with pytest.raises(BundleError, match="rests on block 0x" + played.hash.hex() + ", not on 0x1111"):
        verify_bundle(played.bundle, b"\x11" * 32)


def test_a_bundle_about_another_task_is_refused(played: History) -> None:
    with pytest.raises(BundleError, match="is about task"):
        verify_bundle(played.bundle, played.hash, Address(b"\x22" * 20))


def test_a_round_that_is_not_settled_is_in_no_bundle(played: History, tmp_path: Path) -> None:
    assert played.task.reader().refresh().round.phase in (Phase.CHALLENGE, Phase.PROPOSE)

    with pytest.raises(InputError, match="round 3 of this task is not settled; 2 rounds are"):
        played.export(tmp_path / "early.car", number=3)

    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_without_the_task_or_its_creation_is_refused(played: History, tmp_path: Path) -> None:
    store, w3 = DirectoryStore(tmp_path), played.chain.w3

    with pytest.raises(VerificationError, match="its code is not that of a task"):
        export_bundle(w3, CHAIN_ID, Address(b"\x22" * 20), store, tmp_path / "a.car")
    with pytest.raises(LedgerError, match="give an earlier --from-block"):
        export_bundle(w3, CHAIN_ID, played.task.address, store, tmp_path / "b.car", from_block=60)
    with pytest.raises(LedgerError, match="no such block"):
        export_bundle(w3, CHAIN_ID, played.task.address, store, tmp_path / "c.car", block=10**6)


def test_a_websocket_exports_the_same(played: History, tmp_path: Path) -> None:
    store, out = DirectoryStore(played.home / "store"), tmp_path / "ws.car"
    block, w3 = played.exported.subject.block, open_rpc(played.chain.url.replace("http", "ws"))

    export_bundle(w3, CHAIN_ID, played.task.address, store, out, block=block)

    assert out.read_bytes() == played.bundle.read_bytes()


def test_a_folder_that_cannot_be_written_to_is_named(played: History, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"writing .*nowhere"):
        played.export(tmp_path / "nowhere" / "task.car")


# Changed bytes


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a bundle's bytes, and what a change in it has to be named."""

    kind: str
    start: int
    stop: int
    name: str


def spans(path: Path) -> list[Span]:
    """Every byte of a bundle, by what it belongs to."""
    found = list[Span]()
    with open_bundle(path) as bundle:
        names = ["root"]
        names += [f"page {n} of {name}" for name in LISTS for n in range(len(bundle.node.pages[name]))]
        names += [
            f"block {n} of {name}" for name in (*EVIDENCE, "blobs") for n in range(len(bundle.blocks[name]))
        ]
    with path.open("rb") as file:
        car.read_header(file)
        at = file.tell()
        found.append(Span("header", 0, at, "root|the header"))
        for name, (section, _) in zip(names, car.sections(file), strict=True):
            kind = re.sub(r"\d+ of ", "", name)
            head = len(car.varint(section.size + 36))
            found.append(Span(f"{kind} length", at, at + head, name))
            found.append(Span(f"{kind} name", at + head, section.at, name))
            if section.size:
                found.append(Span(f"{kind} bytes", section.at, section.at + section.size, name))
            at = section.at + section.size
    assert at == path.stat().st_size
    return found


def assert_found(played: History, data: bytes, span: Span, at: int, out: Path) -> None:
    changed = bytearray(data)
    changed[at] ^= 1 << random.Random(at).randrange(8)
    out.write_bytes(changed)
    with pytest.raises(BundleError, match=rf"^({span.name})"):
        verify_bundle(out, played.hash)


def test_changed_bytes_of_every_kind_are_found_and_named(played: History, tmp_path: Path) -> None:
    data, dice = played.bundle.read_bytes(), random.Random(7)
    by_kind: dict[str, list[Span]] = {}
    for span in spans(played.bundle):
        by_kind.setdefault(span.kind, []).append(span)

    assert len(by_kind) == 1 + 3 * (1 + 5 + 4), sorted(by_kind)
    for among in by_kind.values():
        for _ in range(20):
            span = dice.choice(among)
            assert_found(played, data, span, dice.randrange(span.start, span.stop), tmp_path / "bad.car")


@pytest.mark.deep
def test_every_changed_name_and_length_and_every_tenth_other_byte_is_found(
    played: History, tmp_path: Path
) -> None:
    data = played.bundle.read_bytes()

    for span in spans(played.bundle):
        for at in range(span.start, span.stop, 10 if span.kind.endswith("bytes") else 1):
            assert_found(played, data, span, at, tmp_path / "bad.car")


def test_a_bundle_cut_off_anywhere_is_found(played: History, tmp_path: Path) -> None:
    data, dice, out = played.bundle.read_bytes(), random.Random(8), tmp_path / "bad.car"
    ends = [span.start for span in spans(played.bundle)]

    for length in [0, 1, *dice.sample(ends, 30), *dice.sample(range(len(data)), 60), len(data) - 1]:
        out.write_bytes(data[:length])
        with pytest.raises(BundleError, match=r"cut off|no CARv1"):
            verify_bundle(out, played.hash)


def test_what_stands_after_the_last_block_is_found(played: History, tmp_path: Path) -> None:
    data, out = played.bundle.read_bytes(), tmp_path / "bad.car"
    last = spans(played.bundle)[-3]
    another = car.section(Cid.of(b"another", Codec.RAW), b"another")

    for junk in (b"\x00", b"\n", b"junk" * 100, data[last.start :], another, data, b"\xff" * 20):
        out.write_bytes(data + junk)
        with pytest.raises(BundleError, match="after the last block that is listed"):
            verify_bundle(out, played.hash)


def test_swapped_blocks_are_found(played: History, tmp_path: Path) -> None:
    data, parts = played.bundle.read_bytes(), spans(played.bundle)
    starts = [span for span in parts if span.kind == "block blobs length"]
    one, two, three = (span.start for span in starts[:3])

    (tmp_path / "bad.car").write_bytes(data[:one] + data[two:three] + data[one:two] + data[three:])

    with pytest.raises(BundleError, match=r"^block 0 of blobs .*another block stands in its place"):
        verify_bundle(tmp_path / "bad.car", played.hash)


def test_files_that_are_no_bundles_are_refused_in_one_line(tmp_path: Path) -> None:
    other = cbor.encode({"kind": "other"})
    cid = Cid.of(other, Codec.DAG_CBOR)
    for data in (
        b"",
        b"\x00",
        b"PK\x03\x04" + bytes(1000),
        b"\xff" * 100,
        car.header(cid) + car.section(cid, other),
    ):
        (tmp_path / "x.car").write_bytes(data)
        with pytest.raises(BundleError) as refused:
            verify_bundle(tmp_path / "x.car", bytes(32))
        assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="No such file"):
        verify_bundle(tmp_path / "none.car", bytes(32))
    with pytest.raises(InputError, match="directory"):
        verify_bundle(tmp_path, bytes(32))


def test_absurd_lengths_take_no_memory(played: History, tmp_path: Path) -> None:
    data, out = played.bundle.read_bytes(), tmp_path / "bad.car"
    verify_bundle(played.bundle, played.hash)
    lengths = [span for span in spans(played.bundle) if span.kind.endswith("length")]
    tracemalloc.start()
    try:
        for span in lengths[:: len(lengths) // 6]:
            for absurd in (b"\xff\xff\xff\x7f", b"\xff" * 9 + b"\x01", car.varint((1 << 20) + 37)):
                out.write_bytes(data[: span.start] + absurd + data[span.stop :])
                with pytest.raises(BundleError):
                    verify_bundle(out, played.hash)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * len(data) + (1 << 20)


# Forged bundles: whole and consistent as files, but they tell something else than the chain


@dataclass(slots=True)
class Contents:
    """What a bundle holds, to be changed and written again under right names."""

    subject: Subject
    items: dict[str, list[bytes]]
    blobs: list[tuple[Cid, bytes]]
    missing: list[Cid] = field(default_factory=list)


def contents(path: Path) -> Contents:
    def blobs(bundle: Bundle) -> list[tuple[Cid, bytes]]:
        store = bundle.store()
        return [(block.cid, store.get(block.cid, 1 << 20)) for block in bundle.blocks["blobs"]]

    with open_bundle(path) as bundle:
        items = {name: list(bundle.items(name, MAX[name])) for name in EVIDENCE}
        return Contents(bundle.subject, items, blobs(bundle), sorted(bundle.missing))


def write(held: Contents, out: Path) -> None:
    with begin_bundle(out) as writer:
        for name in EVIDENCE:
            for _ in writer.keep(name, held.items[name]):
                pass
        for cid, data in held.blobs:
            writer.add_blob(cid, data)
        for cid in held.missing:
            writer.add_blob(cid, None)
        writer.finish(held.subject, lambda _: None)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


Forge = Callable[[Contents], None]


def change(name: str, place: int, at: int) -> Forge:
    def forge(held: Contents) -> None:
        held.items[name][place] = flipped(held.items[name][place], at)

    return forge


def drop(name: str, place: int) -> Forge:
    return lambda held: held.items[name].__delitem__(place)


def repeat(name: str, place: int) -> Forge:
    return lambda held: held.items[name].insert(place, held.items[name][place])


def say(**changes: object) -> Forge:
    def forge(held: Contents) -> None:
        held.subject = replace(held.subject, **changes)  # type: ignore[arg-type]

    return forge


def start_later(held: Contents) -> None:
    """As if the task's first event after its creation were the first of all."""
    headers = [evidence.read_header(data) for data in held.items["headers"]]
    place = next(
        n for n, header in enumerate(headers[1:], 1) if evidence.may_hold(header.bloom, held.subject.task)
    )
    del held.items["headers"][:place]
    del held.items["receipts"][0]
    held.subject = replace(held.subject, created=held.subject.created + place)


def end_earlier(held: Contents) -> None:
    del held.items["headers"][-1]
    held.subject = replace(held.subject, block=held.subject.block - 1)


def another_code(held: Contents) -> None:
    """The task's own code with another term: its hash is in the state."""
    address, proof, code = rlp.decode_list(held.items["accounts"][0])
    held.items["accounts"][0] = rlp.encode([address, proof, flipped(rlp.as_bytes(code), -1 % len(code))])


def another_proof(held: Contents) -> None:
    address, proof, code = rlp.decode_list(held.items["accounts"][1])
    nodes = list(rlp.as_list(proof))
    nodes[-1] = flipped(rlp.as_bytes(nodes[-1]), 40)
    held.items["accounts"][1] = rlp.encode([address, nodes, code])


def drop_event(held: Contents) -> None:
    """A receipt without its logs, as if nothing had been told."""
    place = len(held.items["receipts"]) // 2
    (receipt,) = rlp.decode_list(held.items["receipts"][place])
    kind, body = rlp.as_bytes(receipt)[:1], rlp.as_bytes(receipt)[1:]
    status, gas, bloom, _ = rlp.decode_list(body)
    held.items["receipts"][place] = rlp.encode([kind + rlp.encode([status, gas, bloom, []])])


def add_blob(held: Contents) -> None:
    held.blobs.append((Cid.of(b"unasked", Codec.RAW), b"unasked"))


def add_missing(held: Contents) -> None:
    held.missing.append(Cid.of(b"unasked", Codec.RAW))


def hush_blob(held: Contents) -> None:
    del held.blobs[-1]


FORGERIES: Sequence[tuple[str, Forge, str]] = [
    ("a byte of a header", change("headers", 10, 100), r"header of block \d+: its parent is"),
    ("the length of a header", change("headers", 10, 0), r"headers: byte|header of block"),
    ("the last header", change("headers", -1, 300), r"header of block \d+: its hash is"),
    ("a header left out", drop("headers", 20), r"header of block \d+: it says that its number is"),
    ("a header twice", repeat("headers", 20), r"header of block \d+: it says that its number is"),
    ("the last header left out", drop("headers", -1), r"headers end at block \d+, expected \d+"),
    ("an earlier end", end_earlier, r"header of block \d+: its hash is"),
    ("a later start", start_later, r"did not create task"),
    ("another number", say(block=10**6), r"headers end at block"),
    ("another start", say(created=0), r"header of block 0: it says that its number is"),
    ("a byte of a receipt", change("receipts", 30, 200), r"receipts of block \d+: "),
    ("an event left out", drop_event, r"receipts of block \d+: their root is"),
    ("receipts left out", drop("receipts", 30), r"receipts of block \d+: their root is"),
    ("the last receipts left out", drop("receipts", -1), r"receipts of block \d+: they are missing"),
    ("receipts twice", repeat("receipts", -1), r"receipts: there are more than the headers ask for"),
    ("another code", another_code, r"account 0x[0-9a-f]{40}: its code does not hash"),
    ("another proof", another_proof, r"account 0x[0-9a-f]{40}: a node of the proof does not hash"),
    ("an account left out", drop("accounts", 2), r"contracts: \w+ 0x[0-9a-f]{40}: its code is not"),
    ("the task left out", drop("accounts", 0), r"contracts: its code is not that of a task"),
    ("an account twice", repeat("accounts", 1), r"account 0x[0-9a-f]{40}: it is there twice"),
    ("another task", say(task=Address(b"\x22" * 20)), r"contracts: |did not create"),
    ("another factory", say(factory=Address(b"\x22" * 20)), r"root: factory is 0x2222"),
    ("another registry", say(registry=Address(b"\x22" * 20)), r"root: registry is 0x2222"),
    ("a round that is not settled", say(round=3), r"root: round 3 of this task is not settled"),
    ("fewer rounds", say(round=1), r"blob \w+: no round needs it"),
    ("a blob too many", add_blob, r"blob \w+: no round needs it"),
    ("a missing blob too many", add_missing, r"blob \w+: no round needs it"),
    ("a blob left out", hush_blob, r"blob \w+: a round needs it, but"),
]


@pytest.mark.parametrize(("what", "forge", "named"), FORGERIES, ids=[what for what, _, _ in FORGERIES])
def test_forged_evidence_is_found_and_named(
    played: History, tmp_path: Path, what: str, forge: Forge, named: str
) -> None:
    held = contents(played.bundle)
    forge(held)
    write(held, tmp_path / "forged.car")

    with pytest.raises(BundleError, match=rf"({named})"):
        verify_bundle(tmp_path / "forged.car", played.hash)
    assert what


def test_a_bundle_that_starts_before_the_creation_is_refused(played: History, tmp_path: Path) -> None:
    held, w3 = contents(played.bundle), played.chain.w3
    before = held.subject.created - 1
    (header,) = endpoint.headers(w3, before, before)
    root = evidence.read_header(header).receipts_root
    held.items["headers"].insert(0, header)
    held.items["receipts"][:1] = endpoint.receipts(w3, [(before, root)])
    say(created=before)(held)
    write(held, tmp_path / "forged.car")

    with pytest.raises(BundleError, match=f"did not create task {played.address} in block {before}"):
        verify_bundle(tmp_path / "forged.car", played.hash)


def test_a_bundle_taken_apart_and_put_together_is_the_same(played: History, tmp_path: Path) -> None:
    write(contents(played.bundle), tmp_path / "same.car")

    assert (tmp_path / "same.car").read_bytes() == played.bundle.read_bytes()


def test_another_chain_id_breaks_draws_and_commitments(played: History, tmp_path: Path) -> None:
    held = contents(played.bundle)
    say(chain=1)(held)
    write(held, tmp_path / "forged.car")

    done = verify_bundle(tmp_path / "forged.car", played.hash)

    for one in done.rounds:
        wrong = {f.check for f in one.findings if f.verdict is Verdict.MISMATCH}
        assert {"draw", "commitments", "block record"} <= wrong


def test_withheld_blobs_are_unavailable_data_never_a_false_ok(played: History, tmp_path: Path) -> None:
    whole = findings(verify_bundle(played.bundle, played.hash).rounds)
    raw = [cid for cid, _ in contents(played.bundle).blobs if cid.codec is Codec.RAW]
    noticed = 0

    for gone in raw:
        held = contents(played.bundle)
        held.blobs = [(cid, data) for cid, data in held.blobs if cid != gone]
        held.missing.append(gone)
        write(held, tmp_path / "withheld.car")
        found = findings(verify_bundle(tmp_path / "withheld.car", played.hash).rounds)
        noticed += found != whole
        for (*_, before), (*_, after) in zip(whole, found, strict=True):
            for one, other in zip(before, after, strict=True):
                assert one == other or other[1] == "data unavailable"

    assert noticed == len(raw) - 1  # all but the first model: with p_0 = 0 no check needs it


def test_what_only_a_withheld_record_leads_to_is_not_needed(played: History, tmp_path: Path) -> None:
    held, gone = contents(played.bundle), update_of_round_one(played)
    held.blobs = [(cid, data) for cid, data in held.blobs if cid != gone]
    held.missing.append(gone)
    write(held, tmp_path / "withheld.car")

    with pytest.raises(BundleError, match="no round needs it"):
        verify_bundle(tmp_path / "withheld.car", played.hash)


# The commands


def refuse_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an offline audit opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def answer(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    code = run([*arguments, "--json"])
    told = json.loads(capsys.readouterr().out)
    for schema in ("report.json", f"{arguments[0]}-{arguments[1]}.json"):
        text = json.loads((SCHEMAS / schema).read_text())
        Draft202012Validator(text).validate(
            told if schema == "report.json" or "error" in told else told["metrics"]
        )
    return code, told


def test_verify_needs_no_network_and_answers_as_online(
    played: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    online = [
        "audit",
        "verify",
        "--rpc-url",
        played.chain.url,
        "--task",
        played.address,
        "--store",
        played.store,
    ]
    expected = answer(online, capsys)
    refuse_network(monkeypatch)

    offline = ["audit", "verify", "--bundle", str(played.bundle), "--block-hash", "0x" + played.hash.hex()]
    code, told = answer([*offline, "--task", played.address], capsys)

    assert code == expected[0] == 1
    metrics, wanted = told["metrics"], expected[1]["metrics"]
    assert isinstance(metrics, dict)
    assert isinstance(wanted, dict)
    assert {key: metrics[key] for key in wanted} == wanted
    assert metrics["bundle"]["block"]["hash"] == "0x" + played.hash.hex()
    assert answer([*offline, "--round", "1"], capsys)[0] == 0


def test_people_see_what_the_bundle_rests_on(played: History, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(
        ["audit", "verify", "--bundle", str(played.bundle), "--block-hash", played.hash.hex(), "--round", "1"]
    )

    told = capsys.readouterr().out
    assert code == 0
    assert f"block {played.exported.subject.block} 0x{played.hash.hex()}" in told
    assert played.address in told
    assert "0x" + played.exported.subject.factory.hex() in told


def test_export_says_what_it_wrote(
    played: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = ["--rpc-url", played.chain.url, "--task", played.address, "--store", played.store]

    code, told = answer(["audit", "export", *chain, "--out", str(tmp_path / "t.car"), "--round", "1"], capsys)

    metrics = told["metrics"]
    assert code == 0
    assert isinstance(metrics, dict)
    assert metrics["bytes"] == (tmp_path / "t.car").stat().st_size
    assert metrics["rounds"] == [1]
    assert run(["audit", "export", *chain, "--out", str(tmp_path / "u.car")]) == 0
    assert "rests on block" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["--bundle", "{file}"],
            2,
            "error: --block-hash is missing: a bundle proves nothing by itself; look up",
        ),
        (["--bundle", "{file}", "--block-hash", "12"], 2, "error: --block-hash '12' is not a block's hash"),
        (["--bundle", "{file}", "--block-hash", "0x" + "11" * 32], 4, "error: the bundle rests on block 0x"),
        (["--bundle", "none.car", "--block-hash", "11" * 32], 2, "error: bundle none.car: No such file"),
        (["--block-hash", "11" * 32], 2, "error: --block-hash goes with --bundle"),
        (["--bundle", "{file}", "--challenge"], 2, "error: --challenge needs the chain"),
        (["--store", "dir:."], 2, "error: --task and --store are needed to audit a chain"),
        (["--send"], 2, "error: --send goes with --challenge"),
        (["--bundle", "{file}", "--round", "1", "--all"], 2, "error: --round and --all: give one of them"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    played: History, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, line: str
) -> None:
    filled = [argument.format(file=played.bundle) for argument in arguments]

    assert run(["audit", "verify", *filled]) == code

    told = capsys.readouterr()
    assert told.err.startswith(line)
    assert told.err.count("\n") == 1
    assert told.out == ""
