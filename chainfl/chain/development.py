"""Development chains: they make a block when there is a transaction, and wait for the next one."""

from web3 import Web3
from web3.types import RPCEndpoint

from chainfl.chain.rpc import outside

DEVELOPMENT_CHAINS = (1337, 31337)
"""The chain ids of geth --dev, anvil and hardhat."""


def is_development(chain_id: int) -> bool:
    """Whether nobody makes blocks on this chain unless asked to."""
    return chain_id in DEVELOPMENT_CHAINS


def make_block(w3: Web3) -> bool:
    """Ask for an empty block; whether the endpoint can do that."""
    with outside("asking for a block"):
        answer = w3.provider.make_request(RPCEndpoint("evm_mine"), [])
    return "error" not in answer
