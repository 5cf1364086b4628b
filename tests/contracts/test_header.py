"""What the builder of a block can choose in its header does not reach the seed of a draw, in Python and in bytecode."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from chainfl import artifacts
from chainfl.codec import rlp
from chainfl.codec.commitments import draw_seed, keccak256
from chainfl.codec.header import mix_hash
from chainfl.types import Address
from tests.contracts.evm import Deployed

HARNESS = Path(__file__).parents[2] / "contracts" / "test" / "artifacts" / "RulesHarness.json"
HEADERS = 1 << 16
EACH = 1 if os.environ.get("CHAINFL_TEST_DEPTH") == "deep" else 64
"""Of so many headers the contract reads one."""

TASK = Address(b"\x7a" * 20)
RANDOMNESS = bytes(range(32))


def tried_headers() -> Iterator[bytes]:
    """Headers of one block with the same randomness: all that its builder could sign, more than it would try."""
    random = Random(16)
    word = random.randbytes(32)
    for number in range(HEADERS):
        # 32 bytes are free; what is left out or put in moves state, receipts, gas and time too.
        extra = number.to_bytes(random.randint(2, 32), "big")
        gas_used, time = random.randrange(36_000_000), 1_760_000_000 + random.randrange(12)
        builder, root = random.randbytes(20), random.randbytes(32)
        before = [word, word, builder, root, root, root, random.randbytes(256), b""]
        numbers = [rlp.encode_int(each) for each in (23_000_000, 36_000_000, gas_used, time)]
        after = [extra, RANDOMNESS, bytes(8), b"\x01", root, b"", b"", word, word]
        yield rlp.encode([*before, *numbers, *after])


def test_65536_headers_with_the_same_randomness_give_one_seed() -> None:
    rules = Deployed(artifacts.parse(HARNESS.read_text(encoding="utf-8")))
    hashes, seeds = set[bytes](), set[bytes]()

    for number, header in enumerate(tried_headers()):
        hashes.add(keccak256(header))
        seeds.add(draw_seed(1, TASK, 7, mix_hash(header)))
        if number % EACH == 0:
            assert rules.call("mixHash", header) == (True, RANDOMNESS)

    assert len(hashes) == HEADERS
    assert seeds == {draw_seed(1, TASK, 7, RANDOMNESS)}
