"""A node's rounds in a tracker: what the run is called, and that no tracker ends a node."""

import logging
from collections.abc import Callable, Mapping

from chainfl.codec.text import hex_of
from chainfl.errors import ChainflError
from chainfl.node.settings import NodeSettings
from chainfl.node.wiring import Node

Record = Callable[[int, Mapping[str, object]], None]
_log = logging.getLogger(__name__)


def named(settings: NodeSettings, node: Node) -> tuple[str, dict[str, object]]:
    """What the run is called, and what stays the same in it: task, account and app; no key, no path."""
    me = hex_of(node.participant.ledger.me)
    config = node.ledger.reader.created.config
    described: dict[str, object] = {
        "task": settings.task,
        "chain": node.ledger.reader.created.chain_id,
        "account": me,
        "rule": config.rule.name_text,
        "samples": node.participant.trainer.samples,
    }
    return f"{settings.task[:10]}-{me[:10]}", described


def kept_going(record: Record) -> Record:
    """The same; a tracker that fails is a warning, for stake hangs on the node."""

    def tried(round_: int, facts: Mapping[str, object]) -> None:
        try:
            record(round_, facts)
        except (ChainflError, OSError) as error:
            _log.warning("round %d: not tracked: %s", round_, error)

    return tried
