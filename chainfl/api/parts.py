"""What each participant did in a round, from the round's document."""

from typing import Literal

from chainfl.api import schemas


def part_rows(block: schemas.Block) -> list[schemas.Part]:
    """What each participant did in the round; those who had no part are left out."""
    if block.draw is None:
        return []
    people = {one.id: one for one in (*block.draw.committee, *block.draw.proposers)}
    people |= {update.worker.id: update.worker for update in block.updates}
    people |= {
        row.id: schemas.Who(id=row.id, account=row.account)
        for row in block.rewards
        if row.kind == "finder" and row.id is not None
    }
    return [_part(block, block.draw, person) for _, person in sorted(people.items())]


def _part(block: schemas.Block, draw: schemas.Draw, person: schemas.Who) -> schemas.Part:
    mine = next((update for update in block.updates if update.worker == person), None)

    return schemas.Part(
        task=block.task,
        task_id=block.task_id,
        round=block.round,
        outcome=block.outcome,
        account=person,
        roles=_roles(block, draw, person, mine),
        # As a worker
        committed=mine is not None,
        revealed=mine is not None and mine.root is not None,
        included=mine.included if mine else None,
        share=mine.share if mine else None,
        # As a validator or a proposer
        scored=_has_scored(block, person),
        proposed=_has_proposed(block, person),
        vote=_last_vote(block, person),
        convicted=_is_convicted(block, person),
        # What came of it
        earned=str(sum(int(row.amount) for row in block.rewards if row.id == person.id)),
        slashed=str(sum(int(row.amount) for row in block.slashes if row.account == person)),
    )


def _roles(
    block: schemas.Block, draw: schemas.Draw, person: schemas.Who, update: schemas.Update | None
) -> list[schemas.RoleName]:
    found: list[schemas.RoleName] = []
    if person in draw.committee:
        found.append("validator")
    if draw.proposers and person == draw.proposers[0]:
        found.append("miner")
    elif person in draw.proposers:
        found.append("backup")
    if update is not None and not update.member:
        found.append("worker")
    if any(row.kind == "finder" and row.id == person.id for row in block.rewards):
        found.append("finder")
    return found


def _has_scored(block: schemas.Block, person: schemas.Who) -> bool:
    validators = block.scores.validators if block.scores else []
    return any(row.revealed for row in validators if row.validator == person)


def _has_proposed(block: schemas.Block, person: schemas.Who) -> bool:
    return any(attempt.model_root for attempt in block.attempt_list if attempt.proposer == person)


def _last_vote(block: schemas.Block, person: schemas.Who) -> Literal["attests", "objects", "silent"] | None:
    """Its vote on the newest proposal that it voted on."""
    for attempt in reversed(block.attempt_list):
        for cast in reversed(attempt.votes):
            if cast.validator == person and cast.vote != "open":
                return cast.vote
    return None


def _is_convicted(block: schemas.Block, person: schemas.Who) -> bool:
    lies = (attempt.lie for attempt in block.attempt_list if attempt.lie)
    return any(one.account == person for lie in lies for one in lie.convictions)
