"""What the hashes of a task name, so that a search finds them: transactions, roots, commitments, and records by CID."""

from collections.abc import Iterator, Mapping

from chainfl.api import schemas

Hits = Mapping[str, schemas.Hit]
"""What there is to find, by name."""


def round_hits(block: schemas.Block) -> Hits:
    """What each root, record and commitment of a round is; the first of several meanings counts."""
    found = dict[str, schemas.Hit]()
    for name, text in _names(block):
        if name is not None and name not in found:
            found[name] = _record(block.task, block.task_id, f"{text} in round {block.round}", block.round)
    return found


def term_hits(task: schemas.Task) -> Hits:
    """What the hashes in a task's terms are."""
    texts = {
        task.terms.manifest: "manifest of the task",
        task.terms.first_root: "root of the first model",
        task.terms.first_model: "record of the first model",
    }
    return {name: _record(task.task, task.task_id, text, None) for name, text in texts.items()}


def transaction_hit(gas: schemas.Gas, task_id: int) -> schemas.Hit:
    """What a transaction did."""
    return schemas.Hit(
        what="transaction", text=f"transaction: {gas.action}", task=gas.task, task_id=task_id, round=gas.round
    )


def _record(task: str, task_id: int, text: str, round_: int | None) -> schemas.Hit:
    return schemas.Hit(what="record", text=text, task=task, task_id=task_id, round=round_)


def _names(block: schemas.Block) -> Iterator[tuple[str | None, str]]:
    for attempt in block.attempt_list:
        yield attempt.model_root, f"root of the model of attempt {attempt.attempt}"
        yield attempt.block, f"block of attempt {attempt.attempt}"

    for update in block.updates:
        whose = f"participant {update.worker.id}'s update"
        yield update.commitment, f"commitment to {whose}"
        yield update.root, f"root of {whose}"
        yield update.cid, f"record of {whose}"

    if block.draw is not None:
        yield block.draw.seed, "seed of the draw"
