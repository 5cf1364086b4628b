"""docs/costs.md: what calls, rounds and proofs cost, computed from the gas in docs/contracts.md at stated prices.

Run it with prices of your own: python -m scripts.pages.costs --ether-usd 4000 --ethereum-gwei 12
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chainfl import artifacts
from chainfl.errors import InputError

CONTRACTS: Final = Path(__file__).resolve().parents[2] / "docs" / "contracts.md"
COMMITTEE: Final = 5
WORD: Final = 32
ENVELOPE_BYTES: Final = 115  # of a signed transaction without its calldata: fees, nonce, addresses, signature
HEADER_BYTES: Final = 600

# Seen once, in the scene of `scripts/bench gas` on anvil 1.7.1, 2026-11-19: six deployments, and one task created.
DEPLOY_GAS: Final = 25_777_476
CREATE_GAS: Final = 1_959_300
SEEN: Final = "2026-11-19"


@dataclass(frozen=True, slots=True)
class Prices:
    """What is assumed; nothing here was looked up."""

    day: str = "2026-11-18"
    ether_usd: float = 3000.0
    ethereum_gwei: float = 2.0
    op_gwei: float = 0.001
    base_gwei: float = 0.005
    blob_gwei: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that somebody pays for: its gas, and the bytes that an L2 posts on Ethereum for it."""

    name: str
    payer: str
    gas: int
    size: int


def page(prices: Prices | None = None) -> str:
    """The whole page."""
    stated = prices or Prices()
    lines = bill(read_gas(CONTRACTS.read_text()))
    return "\n".join([_about(stated), _table(lines, stated), _remarks(lines, stated)])


def read_gas(text: str) -> dict[str, dict[str, int]]:
    """The gas tables of docs/contracts.md by call and column; later tables win, of a range the upper end counts."""
    found: dict[str, dict[str, int]] = {}
    columns: list[str] = []
    for row in re.findall(r"^\|(.+)\|$", text, flags=re.MULTILINE):
        name, *cells = (cell.strip() for cell in row.split("|"))
        if name == "gas per call":
            columns = cells
        elif len(cells) == len(columns) and all(re.fullmatch(r"[\d,]+( – [\d,]+)?", each) for each in cells):  # noqa: RUF001
            upper = [int(each.split()[-1].replace(",", "")) for each in cells]
            found.setdefault(name.split(",")[0], {}).update(zip(columns, upper, strict=True))
        elif match := re.fullmatch(r"[\d,]+", cells[2]) if len(cells) > 2 else None:
            found.setdefault(name, {})["found"] = int(match.group().replace(",", ""))
    return found


def bill(gas: Mapping[str, Mapping[str, int]]) -> list[Line]:
    """What is paid in a round of 20 workers and five validators, by whom, and around it."""

    def of(call: str, column: str = "K = 20") -> int:
        try:
            return gas[call][column]
        except KeyError:
            raise InputError(f"docs/contracts.md has no gas of {call!r} in column {column!r}") from None

    worker = of("commitUpdate") + of("revealUpdate")
    validator = of("commitScores") + of("revealScores") + of("attest")
    stake = of("change of stake: pay in and allocate", "found")
    proof = of("proof, K = 20, a majority attested", "found")
    return [
        Line("put in stake and allocate it", "participant, once", stake, _calls(2, 2)),
        Line("work in a round: commit and reveal an update", "worker", worker, _calls(2, 7)),
        Line("judge a round: commit and reveal scores, attest", "validator", validator, _calls(3, 10 + _words(8 * 21))),
        Line("propose a model", "miner", of("propose"), _calls(1, 6)),
        Line("draw", "anybody, for a fee", of("draw"), _calls(1, 2 + _words(HEADER_BYTES))),
        Line("tally", "anybody, for a fee", of("tally"), _tally_size(20)),
        Line("prove one wrong parameter, 20 updates", "anybody; gets the finder's part", proof, _proof_size(20, 16)),
        Line("**whole round, 14 workers**", "all together", of("whole round", "K = 14"), _round_size(14)),
        Line("**whole round, 20 workers**", "all together", of("whole round"), _round_size(20)),
        Line("**whole round, 100 workers**", "all together", of("whole round", "K = 100"), _round_size(100)),
        Line("create a task", "sponsor, once", CREATE_GAS, _calls(1, _terms())),
        Line("deploy the contracts", "once for a chain", DEPLOY_GAS, _code_size()),
    ]  # fmt: skip


def _calls(count: int, words: int) -> int:
    """Bytes of some transactions with so many words of arguments together."""
    return count * (ENVELOPE_BYTES + 4) + words * WORD


def _words(size: int) -> int:
    return -(-size // WORD)


def _terms() -> int:
    """Words of the terms that a sponsor gives."""
    function = next(each for each in artifacts.load("TaskFactory").abi if each.get("name") == "createTask")
    return sum(len(each.get("components", [each])) for each in function["inputs"])


def _code_size() -> int:
    """Bytes of what is deployed, to the next 10,000: the linked libraries, and the factory that makes all else."""
    factory = artifacts.load("TaskFactory")
    deployed = [factory, *(artifacts.load(name) for name in factory.links)]
    return round(sum(ENVELOPE_BYTES + len(each.bytecode) // 2 for each in deployed), -4)


def _tally_size(workers: int) -> int:
    """Each validator's scores again: entry 0 and one of 8 bytes for each update, with offset and length."""
    return _calls(1, 3 + COMMITTEE * (2 + _words(8 * (workers + 1))))


def _proof_size(updates: int, depth: int) -> int:
    """Leaf and path of the proposal, the head and every update."""
    return _calls(1, 6) + (updates + 2) * (256 + depth * WORD)


def _round_size(workers: int) -> int:
    work = workers * _calls(2, 7)
    judging = COMMITTEE * _calls(3, 10 + _words(8 * (workers + 1)))
    moves = _calls(1, 6) + _calls(1, 2 + _words(HEADER_BYTES)) + _tally_size(workers) + _calls(5, 5)
    return work + judging + moves


def _about(prices: Prices) -> str:
    return f"""\
# Costs

**Computed, not billed.** The gas is measured ([contracts and gas](contracts.md)); the prices are assumptions of
{prices.day}, nobody's quotes. Made by `python -m scripts.make_docs`; a test compares. With prices of your own:
`python -m scripts.pages.costs --ether-usd 4000 --ethereum-gwei 12`.

| assumed | |
|---|---|
| one ether | {prices.ether_usd:,.0f} US dollars |
| gas on Ethereum | {prices.ethereum_gwei:g} gwei |
| gas on OP Mainnet | {prices.op_gwei:g} gwei |
| gas on Base | {prices.base_gwei:g} gwei |
| blob gas on Ethereum, which L2s pay for what they post | {prices.blob_gwei:g} gwei; one for each byte, uncompressed |

Headers of both L2s carry Ethereum's randomness, and neither L2 was tried: their sequencer chooses the block of the
draw ([security](security.md#chains)). Arbitrum is left out because the draw does not work there.
"""


def _table(lines: Sequence[Line], prices: Prices) -> str:
    rows = [
        f"`softmax` by the median, {COMMITTEE} validators.\n",
        "| what | who pays | gas | ETH on Ethereum | on Ethereum | bytes | on OP Mainnet | on Base |",
        "|---|---|---|---|---|---|---|---|",
    ]

    for line in lines:
        ether = line.gas * prices.ethereum_gwei * 1e-9
        dollars = [
            ether * prices.ether_usd,
            on_rollup(line, prices.op_gwei, prices),
            on_rollup(line, prices.base_gwei, prices),
        ]

        first, second, third = map(_dollars, dollars)
        rows.append(
            f"| {line.name} | {line.payer} | {line.gas:,} | {ether:.5f} | {first} "
            f"| {line.size:,} | {second} | {third} |"
        )
    return "\n".join(rows) + "\n"


def on_rollup(line: Line, gwei: float, prices: Prices) -> float:
    """Dollars on an L2: gas there, and blob gas on Ethereum for the bytes."""
    return (line.gas * gwei + line.size * prices.blob_gwei) * 1e-9 * prices.ether_usd


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.1 else f"${amount:.4f}"


def _remarks(lines: Sequence[Line], prices: Prices) -> str:
    whole = next(each for each in lines if "20 workers" in each.name)
    ether = 100 * whole.gas * prices.ethereum_gwei * 1e-9
    dollars = _dollars(ether * prices.ether_usd)
    on_op = _dollars(100 * on_rollup(whole, prices.op_gwei, prices))
    on_base = _dollars(100 * on_rollup(whole, prices.base_gwei, prices))
    return f"""\
A task of 100 rounds with 20 workers costs all participants together {ether:.2f} ETH in fees on Ethereum at these
prices ({dollars}), {on_op} on OP Mainnet and {on_base} on Base. The sponsor's escrow should leave everybody more.

**What is in the numbers.** Gas of receipts on anvil, for calls as the contracts take them today. Bytes are computed:
arguments by their ABI size and {ENVELOPE_BYTES} bytes around each transaction. The model itself is never posted: its
bytes are in IPFS or a folder, and the chain holds 32 of them.

**What is not.** Claims (one a participant whenever it likes), reverted transactions, fees that rise in a busy hour
(`--max-fee` is the cap), storage and bandwidth, electricity. Deploying and creating a task were seen once, in the scene
of `scripts/bench gas`, on {SEEN}.
"""


def main(arguments: Sequence[str]) -> int:
    """Print the page for the prices given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Prices()
    for name in ("ether_usd", "ethereum_gwei", "op_gwei", "base_gwei", "blob_gwei"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(default, name))
    asked = parser.parse_args(arguments)
    sys.stdout.write(page(Prices(day="today", **vars(asked))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
