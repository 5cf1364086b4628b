"""Logs of thousands of tasks, off endpoints with limits of every kind, and off endpoints that answer nonsense."""

from collections.abc import Iterator

import pytest

from chainfl.chain import log as following
from chainfl.chain.log import CHUNK, GROW_AFTER, SPAN, LogReader, Marks, events_of
from chainfl.chain.rpc import open_rpc
from chainfl.errors import LedgerError
from chainfl.types import Address, Digest
from tests.chain.endpoint import Json, Limits, LogEndpoint, enrolled, log_endpoint

TASKS = [Address(number.to_bytes(20, "big")) for number in range(1, 5_001)]
MOST_REFUSALS = 25
"""2,000 blocks and 500 addresses, halved to one each, with a probe each time where it is not clear which."""


@pytest.fixture(scope="module")
def running() -> Iterator[LogEndpoint]:
    with log_endpoint() as server:
        yield server


@pytest.fixture
def endpoint(running: LogEndpoint) -> LogEndpoint:
    """An endpoint with a log of every hundredth task, spread over 3,000 blocks."""
    running.logs = [enrolled(text(task), 60 * at, at) for at, task in enumerate(TASKS[::100])]
    running.limits = Limits()
    running.always = None
    running.asked.clear()
    return running


def text(task: Address) -> str:
    return "0x" + task.hex()


def reader_of(endpoint: LogEndpoint) -> LogReader:
    return LogReader(open_rpc(endpoint.url, timeout=10))


def read_all(reader: LogReader) -> list[tuple[str, int]]:
    return [(text(log.emitter), log.block_number) for log in reader.read(0, 2_999, TASKS)]


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(addresses=1_000),
        Limits(addresses=100),
        Limits(blocks=1_000),
        Limits(results=3),
        Limits(addresses=300, blocks=400, results=2),
    ],
    ids=str,
)
def test_five_thousand_tasks_are_read_whatever_the_endpoint_allows(
    endpoint: LogEndpoint, limits: Limits
) -> None:
    endpoint.limits = limits

    found = read_all(reader_of(endpoint))

    assert found == [(log["address"], int(log["blockNumber"], 16)) for log in endpoint.logs]


@pytest.mark.parametrize("addresses", [1, 7])
@pytest.mark.parametrize("blocks", [250, 3_000])
def test_a_very_small_endpoint_takes_longer_and_leaves_nothing_out(
    endpoint: LogEndpoint, addresses: int, blocks: int
) -> None:
    endpoint.limits = Limits(addresses, blocks)
    few = [task for task in TASKS if text(task) in {log["address"] for log in endpoint.logs}]

    found = reader_of(endpoint).read(0, 999, few)

    assert [text(log.emitter) for log in found] == [log["address"] for log in endpoint.logs[:17]]


def test_what_an_endpoint_takes_is_learnt_once(endpoint: LogEndpoint) -> None:
    endpoint.limits = Limits(addresses=100)
    reader = reader_of(endpoint)
    reader.read(0, 0, TASKS)
    learnt = endpoint.refusals

    for block in range(1, GROW_AFTER - 1):
        reader.read(block, block, TASKS[:100])

    assert 0 < learnt <= MOST_REFUSALS
    assert endpoint.refusals == learnt
    assert reader.size == (SPAN, 62)


def test_more_is_asked_for_again_once_less_was_taken_often_enough(endpoint: LogEndpoint) -> None:
    endpoint.limits = Limits(addresses=10, blocks=10)
    reader = reader_of(endpoint)
    reader.read(0, 50, TASKS[:20])
    small = reader.size
    endpoint.limits = Limits()

    reader.read(0, 2_999, TASKS[:20])

    assert small[0] <= 10
    assert small[1] <= 10
    assert reader.size[0] > 100
    reader.read(0, 400_000, TASKS[:20])
    assert reader.size == (SPAN, CHUNK)


def test_an_endpoint_that_refuses_even_one_is_given_up_soon(endpoint: LogEndpoint) -> None:
    endpoint.limits = Limits(addresses=0)

    with pytest.raises(LedgerError, match="exceed max addresses"):
        read_all(reader_of(endpoint))

    assert endpoint.refusals <= 2 * MOST_REFUSALS


@pytest.mark.parametrize("status", [429, 503, 401])
def test_a_refusal_that_is_not_about_size_is_not_asked_again(endpoint: LogEndpoint, status: int) -> None:
    endpoint.limits = Limits(status=status)
    reader = reader_of(endpoint)

    with pytest.raises(LedgerError, match=str(status)):
        read_all(reader)

    assert len(endpoint.asked) == 1
    assert reader.size == (SPAN, CHUNK)


STRANGER = "0x" + "ee" * 20
OURS = text(TASKS[0])


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (enrolled(STRANGER, 5), "was not asked for"),
        (enrolled(OURS, 2_001), "was not asked for"),
        (enrolled(OURS, 5, removed=True), "reorganised"),
        (enrolled(OURS, 5, blockNumber=None), "without a place"),
        (enrolled(OURS, 5, blockHash="0x12"), "without a place"),
        (enrolled(OURS, 5, transactionHash=None), "without a place"),
        (enrolled(OURS, 5, logIndex=None), "without a place"),
        (enrolled(OURS, 5, address=None), "without a place"),
        (enrolled(OURS, 5, logIndex="0x" + "f" * 5000), "without a place"),
    ],
    ids=range(9),
)
def test_a_log_that_nobody_asked_for_or_that_has_no_place_is_refused(
    endpoint: LogEndpoint, log: Json, said: str
) -> None:
    endpoint.always = [log]

    with pytest.raises(LedgerError, match=said) as refused:
        reader_of(endpoint).read(0, 2_000, TASKS)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("answer", [[7], ["0x"], [None], [[]], [{}]], ids=str)
def test_an_answer_that_is_no_list_of_logs_is_refused(endpoint: LogEndpoint, answer: list[object]) -> None:
    endpoint.always = answer

    with pytest.raises(LedgerError):
        reader_of(endpoint).read(0, 10, TASKS)


@pytest.mark.parametrize(
    "changes",
    [
        {"topics": [enrolled(OURS, 1)["topics"][0]]},
        {"topics": [*enrolled(OURS, 1)["topics"][:2], "0x" + "ff" * 32]},
    ],
    ids=range(2),
)
def test_a_log_that_cannot_be_decoded_says_so_and_keeps_its_place(
    endpoint: LogEndpoint, changes: Json
) -> None:
    endpoint.logs = [enrolled(OURS, 5, 3, **changes), enrolled(OURS, 6, 0)]

    wrong, right = reader_of(endpoint).read(0, 10, TASKS)

    assert (wrong.event, wrong.block_number, wrong.log_index) == (None, 5, 3)
    assert wrong.trouble.startswith("event 3 of block 5 cannot be decoded: ")
    assert right.event is not None
    assert right.trouble == ""


def test_a_log_of_an_unknown_event_is_no_trouble(endpoint: LogEndpoint) -> None:
    endpoint.logs = [enrolled(OURS, 5, topics=["0x" + "12" * 32]), enrolled(OURS, 6, topics=[])]

    found = reader_of(endpoint).read(0, 10, TASKS)

    assert [(log.event, log.trouble) for log in found] == [(None, ""), (None, "")]


def test_each_span_has_the_hash_that_its_last_block_had_before_its_logs_were_asked_for(
    endpoint: LogEndpoint,
) -> None:
    asked_before = dict[int, int]()

    def hash_of(number: int) -> Digest:
        asked_before[number] = len(endpoint.asked)
        return number.to_bytes(32, "big")

    endpoint.limits = Limits(blocks=600)
    spans = list(reader_of(endpoint).spans(0, 2_999, TASKS[:1], hash_of))

    assert [span.last for span in spans] == [499, 999, 1_499, 1_999, 2_499, 2_999]
    assert [span.mark for span in spans] == [span.last.to_bytes(32, "big") for span in spans]
    answered = [at for at, asked in enumerate(endpoint.asked) if asked.taken]
    assert [asked_before[span.last] for span in spans] == answered


# One contract's events


@pytest.mark.parametrize(
    ("logs", "said"),
    [
        ([enrolled(OURS, 5, 3), enrolled(OURS, 5, 3)], "event 3 of block 5 twice"),
        ([enrolled(OURS, 5, 3), enrolled(OURS, 5, 4, blockHash="0x" + "12" * 32)], "two hashes of block 5"),
        (
            [enrolled(OURS, 5, 3, topics=[enrolled(OURS, 1)["topics"][0]])],
            "event 3 of block 5 cannot be decoded",
        ),
    ],
    ids=range(3),
)
def test_one_log_that_makes_no_sense_spoils_its_contracts_events(
    endpoint: LogEndpoint, logs: list[Json], said: str
) -> None:
    endpoint.logs = logs
    found = reader_of(endpoint).read(0, 10, TASKS[:1])

    with pytest.raises(LedgerError, match=f"^somebody.*{said}"):
        events_of(found, "somebody")


def test_events_have_their_places_and_what_is_not_ours_is_left_out(endpoint: LogEndpoint) -> None:
    endpoint.logs = [enrolled(OURS, 6, 2), enrolled(OURS, 5, 1), enrolled(OURS, 5, 0, topics=[])]

    found = events_of(reader_of(endpoint).read(0, 10, TASKS[:1]), "somebody")

    assert [(one.block_number, one.log_index) for one in found] == [(5, 1), (6, 2)]
    assert found[0].block_hash == (5).to_bytes(32, "big")


# Reorgs


def hash_at(number: int, fork: int = 0) -> Digest:
    return number.to_bytes(16, "big") + fork.to_bytes(16, "big")


def marked(count: int) -> Marks:
    marks = Marks()
    for number in range(10, 10 + count):
        marks.add(number, hash_at(number))
    return marks


def test_a_chain_that_did_not_change_is_asked_for_one_block() -> None:
    asked = list[int]()

    def hash_of(number: int) -> Digest:
        asked.append(number)
        return hash_at(number)

    assert marked(300).drop_gone(hash_of, 9) is None
    assert asked == [309]


@pytest.mark.parametrize("first_other", [10, 11, 12, 100, 200, 306, 308, 309])
def test_the_newest_block_that_still_stands_is_found_with_few_questions(first_other: int) -> None:
    asked = list[int]()
    marks = marked(300)

    def hash_of(number: int) -> Digest | None:
        asked.append(number)
        return hash_at(number, fork=number >= first_other)

    assert marks.drop_gone(hash_of, 9) == first_other - 1
    assert len(asked) <= 18
    assert min(asked) >= first_other - 2 * (309 - first_other) - 2
    assert marks.get(first_other - 1) == (hash_at(first_other - 1) if first_other > 10 else None)
    assert marks.get(first_other) is None
    assert marks.drop_gone(hash_of, 9) is None


def test_a_block_that_is_not_there_any_more_is_gone() -> None:
    assert marked(3).drop_gone(lambda number: hash_at(number) if number < 12 else None, 9) == 11


def test_of_many_marks_the_newest_stay_and_the_older_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_MARKS", 100)
    marks = marked(1_000)

    kept = [number for number in range(10, 1_010) if marks.get(number) is not None]

    assert len(kept) <= 100
    assert kept[-50:] == list(range(960, 1_010))
    assert kept[0] == 10
    assert marks.drop_gone(lambda number: hash_at(number, fork=number >= 500), 9) == max(
        number for number in kept if number < 500
    )
