"""Whether the service follows its chain: how far behind it is, what cannot be read, whether the thread lives."""

import time

from chainfl import __version__
from chainfl.api import schemas
from chainfl.api.follower import Follower, Standing
from chainfl.api.index import Index
from chainfl.errors import StoreError

NAMED = 20
"""Tasks that are named with their reason; the others are counted."""


def health_of(follower: Follower, index: Index, stale_seconds: float) -> schemas.Health:
    """How things stand now; waits for nothing."""
    now = time.monotonic()
    standing = follower.standing
    unread = follower.unread
    try:
        tasks = index.task_count()
        trouble = standing.trouble
    except StoreError as error:
        tasks = 0
        trouble = str(error)

    # An index that cannot be read is reported, not raised: monitors need an answer most when something is broken.
    behind = seconds_behind(standing, trouble, now)
    detail = _detail(follower, standing, trouble, now, stale_seconds)
    return schemas.Health(
        status=_status(follower, standing, trouble, now, stale_seconds),
        detail=detail,
        chain_id=follower.chain_id,
        block_number=standing.block_number,
        newest_block=standing.newest,
        newest_time=standing.newest_time,
        blocks_behind=standing.behind,
        seconds_behind=round(behind, 3),
        follower="running" if follower.is_alive else "dead",
        tasks=tasks,
        unreadable=len(unread),
        unreadable_tasks=[
            schemas.UnreadTask(
                task=name,
                reason=each.reason,
                since=each.since,
                attempts=each.attempts,
                retry_seconds=round(max(0.0, each.again - now), 3),
            )
            for name, each in sorted(unread.items(), key=lambda item: item[1].since)[:NAMED]
        ],
        skipped_tasks=standing.skipped,
        revision=standing.revision,
        version=__version__,
    )


def seconds_behind(standing: Standing, trouble: str, now: float) -> float:
    """How long ago the index agreed with the chain's head; 0 where the last read found no difference."""
    is_fine = standing.is_ready and not trouble and not standing.behind
    stuck = 0.0 if standing.stepping is None else now - standing.stepping
    return stuck if is_fine else now - standing.current


def _status(
    follower: Follower, standing: Standing, trouble: str, now: float, stale_seconds: float
) -> schemas.HealthStatus:
    if not follower.is_alive or _is_stale(standing, trouble, now, stale_seconds):
        return "failing"
    if trouble or follower.unread or standing.skipped:
        return "degraded"
    if not standing.is_ready:
        return "starting"
    return "degraded" if standing.behind else "ok"


def _is_stale(standing: Standing, trouble: str, now: float, stale_seconds: float) -> bool:
    """Whether nothing has been read for too long: a long way to go is none, as long as steps get done."""
    is_stuck = standing.stepping is not None and now - standing.stepping > stale_seconds
    return is_stuck or (bool(trouble) and seconds_behind(standing, trouble, now) > stale_seconds)


def _detail(follower: Follower, standing: Standing, trouble: str, now: float, stale_seconds: float) -> str:
    """Everything that is amiss, the worst first."""
    found = list[str]()
    if not follower.is_alive:
        found.append("the thread that follows the chain has ended: restart the service and report its log")

    if trouble:
        found.append(trouble)
    elif _is_stale(standing, trouble, now, stale_seconds):
        found.append(
            f"a step has been under way for more than {stale_seconds:g} s: is the endpoint very slow?"
        )

    if standing.behind and not trouble:
        found.append(f"{standing.behind} blocks are still to be read")
    if follower.unread:
        found.append(f"{len(follower.unread)} tasks cannot be read; each is tried again")

    if standing.skipped:
        found.append(
            f"{standing.skipped} tasks are not followed: raise CHAINFL_API_MAX_TASKS, or name the right ones by --task"
        )
    return "; ".join(found)
