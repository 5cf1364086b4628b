"""Work side by side, answers in order, a bounded number under way."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def in_order(work: Callable[[In], Out], items: Iterable[In], width: int) -> Iterator[Out]:
    """`work` on each item, `width` at a time; an item is taken only when there is room for it.

    The first failure is raised in its turn, and nothing new is begun after it.
    """
    pool = ThreadPoolExecutor(width, thread_name_prefix="blobs")
    under_way: deque[Future[Out]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) >= width:
                yield under_way.popleft().result()

        # Answers come in the order of the items, whichever is ready first.
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
