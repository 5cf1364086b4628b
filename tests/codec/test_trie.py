"""The Merkle Patricia trie against published roots; proofs of what is there, and nothing else."""

from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import rlp, trie
from chainfl.codec.commitments import keccak256
from chainfl.errors import ProofError

# From the Ethereum tests, TrieTests/trieanyorder.json.
PUBLISHED = [
    ({}, "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"),
    ({"A": "a" * 50}, "d23786fb4a010da3ce639d66d5e904a11dbc02746d1ce25029e53290cabf28ab"),
    (
        {"doe": "reindeer", "dog": "puppy", "dogglesworth": "cat"},
        "8aad789dff2f538bca5d8ea56e8abe10f4c7ba3a5dea95fea4cd6e7c3a1168d3",
    ),
    (
        {"do": "verb", "horse": "stallion", "doge": "coin", "dog": "puppy"},
        "5991bb8c6514148a29db676a14ac506cd2cd5775ace63c30a4fe457715e9ac84",
    ),
    ({"foo": "bar", "food": "bass"}, "17beaa1648bafa633cda809c90c04af50fc8aed3cb40d16efbddee6fdf63c4c3"),
]


@pytest.mark.parametrize(("entries", "root"), PUBLISHED)
def test_roots_are_the_published_ones(entries: dict[str, str], root: str) -> None:
    assert trie.root({key.encode(): value.encode() for key, value in entries.items()}).hex() == root


def node_of(pairs: dict[str, bytes], found: dict[bytes, bytes]) -> rlp.Value:
    """A second, plain implementation on hex digits; notes every node by its hash."""
    alike = takewhile(lambda digits: len(set(digits)) == 1, zip(*pairs, strict=False))
    prefix = "".join(digits[0] for digits in alike)
    if len(pairs) == 1 or prefix:
        odd = len(prefix) % 2
        path = bytes.fromhex(f"{2 * (len(pairs) == 1) + odd:x}" + "0" * (1 - odd) + prefix)
        rest = {key[len(prefix) :]: value for key, value in pairs.items()}
        return [path, pairs[prefix] if len(pairs) == 1 else refer(node_of(rest, found), found)]
    below: list[rlp.Value] = [b""] * 16
    for digit in {key[0] for key in pairs if key}:
        rest = {key[1:]: value for key, value in pairs.items() if key[:1] == digit}
        below[int(digit, 16)] = refer(node_of(rest, found), found)
    return [*below, pairs.get("", b"")]


def refer(node: rlp.Value, found: dict[bytes, bytes]) -> rlp.Value:
    data = rlp.encode(node)
    found[keccak256(data)] = data
    return node if len(data) < 32 else keccak256(data)


def prove(entries: dict[bytes, bytes], key: bytes) -> list[bytes]:
    """The nodes on the way to a key, each the one that carries the proof further."""
    by_hash: dict[bytes, bytes] = {}
    top = rlp.encode(node_of({key.hex(): value for key, value in entries.items()}, by_hash))
    assert keccak256(top) == trie.root(entries)
    nodes = [top]
    while True:
        try:
            trie.look_up(keccak256(top), key, nodes)
            return nodes
        except ProofError as error:
            if "ends before" not in str(error):
                raise
            nodes.append(_below(by_hash, keccak256(top), key, nodes))


def _below(by_hash: dict[bytes, bytes], root: bytes, key: bytes, nodes: Sequence[bytes]) -> bytes:
    """The one node that carries a proof further."""
    for data in by_hash.values():
        try:
            trie.look_up(root, key, [*nodes, data])
        except ProofError as error:
            if "does not hash" in str(error):
                continue
        return data
    raise AssertionError("no node leads on")


ENTRIES = st.dictionaries(
    st.binary(min_size=1, max_size=3), st.binary(min_size=1, max_size=40), min_size=1, max_size=12
)


@given(ENTRIES, st.data())
def test_a_proof_gives_the_value_and_no_changed_proof_does(
    entries: dict[bytes, bytes], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(entries)))
    root, proof = trie.root(entries), prove(entries, key)

    assert trie.look_up(root, key, proof) == entries[key]

    place = data.draw(st.integers(0, len(proof) - 1))
    at = data.draw(st.integers(0, len(proof[place]) - 1))
    changed = bytearray(proof[place])
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    for wrong in ([*proof[:place], bytes(changed), *proof[place + 1 :]], proof[:-1], [*proof, proof[-1]]):
        with pytest.raises(ProofError):
            trie.look_up(root, key, wrong)


def test_nothing_is_proven_of_a_key_that_is_not_there() -> None:
    entries = {b"dog": b"puppy", b"doge": b"coin"}

    for key in (b"cat", b"do", b"dogs", b"dogecoin"):
        with pytest.raises(ProofError, match="nothing under the key"):
            prove(entries, key)


def test_a_list_is_a_trie_under_encoded_indexes() -> None:
    values = [bytes([number]) * 40 for number in range(200)]

    expected = trie.root({rlp.encode(rlp.encode_int(index)): value for index, value in enumerate(values)})

    assert trie.ordered_root(values) == expected
    assert trie.ordered_root([]) == trie.EMPTY_ROOT


LONG = b"x" * 40


@pytest.mark.parametrize(
    ("node", "key", "why"),
    [
        ([b"\x27k", LONG], b"k", "a path in the proof is malformed"),
        ([b"\x40k", LONG], b"k", "a path in the proof is malformed"),
        ([b"", LONG], b"k", "a path in the proof is malformed"),
        ([b"\x00", [b"\x20k", LONG[:9]]], b"k", "a path in the proof is malformed"),
        ([[b"\x20"], LONG], b"k", "cannot be read: a list stands where a byte string belongs"),
        ([b"\x20k", [LONG]], b"k", "cannot be read: a list stands where a byte string belongs"),
        ([b"\x16", [b"\x3b", LONG]], b"k", "belongs behind its hash"),
        ([b"\x20" + LONG, b""], LONG, "nothing under the key"),
        ([*[LONG[:32]] * 16, b""], b"", "nothing under the key"),
        ([LONG, b"", b""], b"k", "3 parts, not 2 or 17"),
        (LONG, b"k", "cannot be read: a byte string stands where a list belongs"),
    ],
)
def test_a_node_that_no_trie_has_proves_nothing_though_its_hash_is_right(
    node: rlp.Value, key: bytes, why: str
) -> None:
    data = rlp.encode(node)

    with pytest.raises(ProofError, match=why):
        trie.look_up(keccak256(data), key, [data])
