"""What the API answers: the shapes of its documents. Wei, scores and distances are text, for JSON numbers round."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

_ACCOUNT = "0x00000000000000000000000000000000000000a1"
_HASH = "0x" + "5d" * 32
_CID = "bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua"

Account = Annotated[str, Field(pattern=r"^0x[0-9a-f]{40}$", examples=[_ACCOUNT])]
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$", examples=[_HASH])]
Hex = Annotated[str, Field(pattern=r"^0x([0-9a-f]{2})*$", examples=["0x80000000"])]
CidText = Annotated[str, Field(pattern=r"^b[a-z2-7]{58}$", examples=[_CID])]
Wei = Annotated[
    str, Field(pattern=r"^-?[0-9]+$", examples=["1000000000000000000"], description="wei, as text")
]
Integer = Annotated[
    str, Field(pattern=r"^[0-9]+$", examples=["318000000000"], description="an integer, as text")
]
Outcome = Literal["open", "final", "void"]
PhaseName = Literal["draw", "train", "reveal", "score", "tally", "propose", "challenge", "ended"]
RewardKind = Literal["worker", "validator", "miner", "caller"]
SlashKind = Literal["liveness", "no-reveal", "lie"]
RoleName = Literal["validator", "miner", "backup", "worker"]
StakeMove = Literal["allocated", "deallocated", "released", "slashed", "pool-closed"]
VerdictName = Literal["ok", "mismatch", "data unavailable"]
HealthStatus = Literal["ok", "starting", "degraded", "failing"]


class Schema(BaseModel):
    """A value of the API."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Schema):
    """An error as problem+json (RFC 9457)."""

    type: str = Field(examples=["urn:chainfl:not-found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["task 7 is not known here; GET /tasks lists those that are"])
    instance: str = Field(examples=["/tasks/7"])


class Who(Schema):
    """A participant: its enrolment id in the task and its account."""

    id: int = Field(ge=1, examples=[3])
    account: Account


class Place(Schema):
    """Where on the chain something happened."""

    block_number: int = Field(examples=[128])
    transaction: Hash
    time: int = Field(description="seconds since 1970, of the block", examples=[1_700_000_000])


# Tasks


class Terms(Schema):
    """The frozen terms of a task."""

    rule: str = Field(examples=["softmax"])
    statistic: str = Field(examples=["median"])
    beta: Integer
    alpha: Integer
    tolerated: int
    selected: int
    keep: Integer
    by_samples: bool
    unique_roots: bool
    committee_size: int
    redraw_every: int
    min_updates: int
    max_updates: int
    max_samples: int
    rounds: int
    target: Integer
    min_stake: Wei
    caller_fee: Wei
    seconds: dict[str, int] = Field(description="length of each phase")
    parts: dict[str, float] = Field(description="how a round's budget is split")
    slashes: dict[str, float] = Field(description="what part of a stake a slash takes")
    dev_cap: Integer
    finder_part: Integer
    burn_part: Integer
    dimension: int = Field(description="parameters of the model")
    depth: int = Field(description="of the Merkle tree")
    scale: int = Field(description="a parameter is its integer divided by 2 to this")
    manifest: CidText
    first_root: Hash
    first_model: CidText


class Task(Schema):
    """A training task as it stands."""

    task: Account
    task_id: int = Field(examples=[1])
    chain_id: int = Field(examples=[31337])
    sponsor: Account
    phase: PhaseName
    round: int = Field(description="the running round, or the last one")
    rounds: int = Field(description="how many there will be at most")
    rounds_final: int
    rounds_void: int
    lies: int = Field(description="lies proven so far")
    attempt: int
    deadline: int = Field(description="when the phase ends at the latest; 0 where none runs")
    funded: Wei
    escrow: Wei
    owed: Wei
    paid: Wei = Field(description="credited to workers, committees and miners so far")
    slashed: Wei = Field(description="taken from stakes so far")
    gas: int
    participants: int
    eligible: int
    head_root: Hash
    head_block: CidText | None
    head_loss: float | None = Field(
        description="the committee's newest loss of the head (or missed accuracy)"
    )
    created_block: int
    terms: Terms


# Rounds


class RoundSummary(Schema):
    """A round in one line."""

    task: Account
    task_id: int
    round: int = Field(ge=1, examples=[3])
    outcome: Outcome
    phase: PhaseName
    attempts: int
    lies: int
    head_loss: float | None = Field(description="the committee's loss of the model this round started from")
    committed: int
    revealed: int
    included: int
    paid: Wei
    slashed: Wei
    gas: int
    opened: Place | None
    ended: Place | None


class Draw(Schema):
    """Who was drawn, and from what."""

    block_number: int = Field(description="its hash seeds the draw")
    seed: Hash
    committee: list[Who]
    proposers: list[Who] = Field(description="the miner, then its backups")
    workers: list[Who] | None = Field(description="null where everybody else may work")
    expected: int
    place: Place


class Update(Schema):
    """A worker's update."""

    worker: Who
    index: int | None = Field(description="1 … R among the revealed; null before, and for a committee's own")
    member: bool = Field(description="a committee's own update, which is not combined")
    commitment: Hash
    root: Hash | None
    cid: CidText | None
    samples: int | None
    included: bool | None = Field(description="null before the tally")
    vouches: int | None = Field(description="how many validators had its bytes")
    share: int | None = Field(description="of 2^31; null where shares belong to ranks, or none were formed")


class Scores(Schema):
    """One validator's revealed scores."""

    validator: Who
    committed: bool
    revealed: bool
    head: Integer | None = Field(description="its loss of the head in 10^-12; null: not given")
    entries: list[Integer | None] = Field(description="per update by index; null: not available or invalid")
    deviation: Integer | None = Field(
        description="distance from the committee's statistic, which pay depends on"
    )


class ScoreTable(Schema):
    """All scores of a round: validators by updates."""

    kind: Literal["loss", "distance", "vouch"]
    unit: str
    workers: list[Who]
    validators: list[Scores]
    head_score: Integer | None = Field(description="the committee's statistic of the head, in 10^-18")


class Share(Schema):
    """One part of the next model."""

    owner: Literal["head", "update", "rank"]
    index: int = Field(description="0 for the head")
    worker: Who | None
    share: int = Field(ge=0, le=2**31)
    fraction: float


class ShareTable(Schema):
    """What the next model is made of; all shares together are 2^31."""

    decided_by: Literal["contract", "proposer", "nobody"]
    shares: list[Share]


class Vote(Schema):
    """A validator's word on a proposal."""

    validator: Who
    vote: Literal["attests", "objects", "silent", "open"]


class Conviction(Schema):
    """Stake lost to a proven lie."""

    account: Who
    part: Literal["proposed", "attested"]
    slashed: Wei
    to_escrow: Wei
    to_finder: Wei
    burned: Wei


class Lie(Schema):
    """A wrong parameter, re-executed on chain."""

    position: int
    leaf: int
    expected: int = Field(description="what head and updates give, as stored (biased by 2^31)")
    found: int = Field(description="what the proposal holds")
    expected_value: float
    found_value: float
    finder: Account
    place: Place
    convictions: list[Conviction]


class Attempt(Schema):
    """One proposer's turn."""

    attempt: int
    proposer: Who
    outcome: Literal["waiting", "standing", "final", "lie proven", "no quorum", "silent"]
    model_root: Hash | None
    block: CidText | None
    votes: list[Vote]
    quorum: int
    lie: Lie | None
    place: Place | None


class Slash(Schema):
    """Stake that was taken, and where it went."""

    task: Account
    round: int
    phase: PhaseName
    kind: SlashKind
    account: Who
    amount: Wei
    to_escrow: Wei
    to_finder: Wei
    burned: Wei
    place: Place


class Reward(Schema):
    """What somebody earned. A worker's is claimable from the round's end, the others are credited."""

    task: Account
    round: int
    kind: RewardKind
    account: Account
    id: int | None
    amount: Wei
    place: Place


class Gas(Schema):
    """One transaction of a task and what it used."""

    task: Account
    round: int | None = Field(description="null for what belongs to no round: enrolment, stakes, claims")
    action: str = Field(examples=["UpdateCommitted"], description="the event that says most about it")
    gas: int
    events: list[str]
    place: Place


class GasLine(Schema):
    """Gas of a kind of transaction in a round."""

    action: str
    transactions: int
    gas: int


class Step(Schema):
    """One thing that happened, in a sentence."""

    phase: PhaseName
    event: str
    text: str
    tone: Literal["plain", "good", "warn", "bad"]
    place: Place


class Block(RoundSummary):
    """A round and everything that is known of it; when final, its block."""

    rule: str
    deadline: int
    head_root: Hash = Field(description="of the model the round started from")
    head_block: CidText | None
    model_root: Hash | None = Field(description="of the model it ended with; null until it is final")
    block: CidText | None
    draw: Draw | None
    updates: list[Update]
    scores: ScoreTable | None
    shares: ShareTable | None
    next_committee: list[Who]
    attempt_list: list[Attempt]
    slashes: list[Slash]
    rewards: list[Reward]
    gas_by_action: list[GasLine]
    steps: list[Step]


# Participants, events


class Participant(Schema):
    """An account in a task."""

    task: Account
    task_id: int
    id: int
    account: Account
    enrolled: bool
    weight: int = Field(description="in the draw: thousandths of the minimum stake")
    active_from: int
    bonded: Wei
    unbonding: Wei
    earned: Wei
    claimed: Wei
    slashed: Wei
    rounds: int = Field(description="in how many rounds it had a part")


class Part(Schema):
    """What a participant did in a round."""

    task: Account
    task_id: int
    round: int
    outcome: Outcome
    account: Who
    roles: list[RoleName]
    committed: bool
    revealed: bool
    included: bool | None
    share: int | None
    scored: bool
    proposed: bool
    vote: Literal["attests", "objects", "silent"] | None
    convicted: bool
    earned: Wei
    slashed: Wei


class StakeChange(Schema):
    """A movement of stake behind a task."""

    task: Account
    account: Account
    change: StakeMove
    amount: Wei
    bonded: Wei = Field(description="afterwards")
    unbonding: Wei
    place: Place


class EventRow(Schema):
    """An event as the contracts emitted it."""

    task: Account
    number: int = Field(description="its place among the task's events")
    event: str = Field(examples=["UpdateRevealed"])
    round: int | None
    account: Account | None
    values: dict[str, object]
    block_hash: Hash
    log_index: int
    gas: int
    place: Place


# Verification


class Finding(Schema):
    """One check of a round."""

    number: int = Field(ge=1, examples=[8])
    check: str = Field(examples=["model root"])
    verdict: VerdictName
    expected: str
    found: str


class Challenge(Schema):
    """What to call `prove` with, to convict whoever stands behind a wrong proposal."""

    attempt: int
    position: int
    expected: int
    found: int
    evidence: Hex


class Audit(Schema):
    """A round done again from chain and blobs alone."""

    task: Account
    round: int
    outcome: Outcome
    state: Literal["done", "running"]
    verdict: VerdictName | None = Field(description="the worst finding; null while it runs")
    findings: list[Finding]
    challenge: Challenge | None = Field(description="ready to send, where a standing proposal is wrong")
    fingerprint: Hash = Field(description="of the events that were audited: others, and it is run again")
    seconds: float = Field(description="how long it took")


class AuditLine(Schema):
    """The verdict on a round that was audited before."""

    task: Account
    round: int
    verdict: VerdictName
    checks: int
    fingerprint: Hash


class Difference(Schema):
    """A value of the index that is not what the chain's events give."""

    where: str = Field(examples=["round 2: paid"])
    expected: str
    found: str


class IndexCheck(Schema):
    """The whole index compared with the chain."""

    verdict: Literal["ok", "mismatch"]
    block_number: int = Field(description="up to which the chain was read")
    changed: int = Field(description="how many values differ")
    differences: list[Difference] = Field(description="the first of them")
    unreadable: int = Field(description="tasks that cannot be read now and were not compared; see /health")


class MerklePath(Schema):
    """A leaf and the digests beside its path, lowest first: hashed together they give the root."""

    what: Literal["model", "head", "update"]
    worker: Who | None
    share: int | None
    root: Hash
    cid: CidText
    leaf: Hex = Field(description="64 parameters, big-endian uint32")
    siblings: list[Hash]


class WrongParameter(Schema):
    """A parameter that re-execution does not confirm."""

    position: int
    expected: int
    found: int


class Evidence(Schema):
    """Everything needed to redo 64 parameters of a proposed model by hand."""

    task: Account
    round: int
    attempt: int
    leaf: int
    first_position: int
    depth: int
    on_ranks: bool
    rank_shares: list[int] | None
    paths: list[MerklePath]
    wrong: list[WrongParameter]


class UnreadTask(Schema):
    """A task that cannot be read now; what is served of it is what was known before."""

    task: Account
    reason: str
    since: float = Field(description="seconds since 1970")
    attempts: int
    retry_seconds: float = Field(description="until it is read anew from its creation")


class Health(Schema):
    """Whether the API follows the chain: answered with status 503 where it is `failing`."""

    status: HealthStatus
    detail: str = Field(description="what is wrong, and what to do; empty where nothing is")
    chain_id: int
    block_number: int = Field(description="up to which everything was read")
    newest_block: int = Field(description="the newest block that counts, when the chain was last asked")
    newest_time: int = Field(description="its time, in seconds since 1970; 0 where it is not known")
    blocks_behind: int
    seconds_behind: float = Field(description="since the index last said what the chain's head says")
    follower: Literal["running", "dead"] = Field(description="the thread that follows the chain")
    tasks: int
    unreadable: int = Field(description="how many tasks cannot be read now")
    unreadable_tasks: list[UnreadTask] = Field(description="the first of them")
    skipped_tasks: int = Field(description="tasks beyond the limit of how many are followed")
    revision: int
    version: str


Row = TypeVar("Row", bound=Schema)


class Page(Schema, Generic[Row]):
    """A page of rows; `next` is the `after` of the next page, null on the last."""

    items: list[Row]
    next: int | None = Field(examples=[100])
