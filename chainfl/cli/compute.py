"""`chainfl compute`: the canonical values from numbers of your own, to check ours with."""

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeVar, get_type_hints

import click

from chainfl.cli.inputs import Json, Question, ask, from_dag_json, read_object
from chainfl.cli.output import Answer, finish, json_option
from chainfl.cli.questions import CODECS, CidQuestion, CombineQuestion, RootQuestion
from chainfl.codec import cbor, merkle, vector
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import InputError
from chainfl.protocol.combine import combine as combine_by_updates
from chainfl.protocol.combine import combine_ranks as combine_by_ranks
from chainfl.report import Report, report

Q = TypeVar("Q", bound=Question)
Compute = Callable[[Mapping[str, Json]], Mapping[str, Any]]


@click.group(short_help="Compute canonical values from your own numbers.")
def compute() -> None:
    """Compute canonical values from your own numbers.

    Each reads one JSON object from FILE or stdin. Bytes are hexadecimal text, integers may be text too.
    """


def computation(function: Callable[[Q], Mapping[str, Any]]) -> Compute:
    """Make a command of a pure function from a question to named results; its docstring is the help.

    The example keeps its lines, or what is wrapped between two words of a command could not be pasted.
    """
    description, _, example = (part.strip() for part in (function.__doc__ or "").rpartition("Example: "))
    question: type[Q] = get_type_hints(function)["asked"]

    def compute_(given: Mapping[str, Json]) -> Mapping[str, Any]:
        return function(ask(question, given))

    @compute.command(
        function.__name__,
        help=description,
        short_help=description.splitlines()[0],
        epilog="Example:\n\n\b\n" + "\n".join(line.strip() for line in example.splitlines()),
    )
    @click.argument("file", type=click.File("rb"), default="-")
    @json_option
    @click.pass_obj
    def command(answer: Answer, file: BinaryIO, as_json: bool) -> int:
        metrics = compute_(read_object(file))
        done = report(f"compute-{function.__name__}", metrics, seconds=answer.seconds)
        return finish(done, as_json, _show)

    return compute_


@computation
def root(asked: RootQuestion) -> Mapping[str, Any]:
    """The Merkle root of a model vector, and the proof of one leaf.

    Give the vector as "values" (floats, with the scale "s", default 20), as "w" (fixed-point integers), as
    "u" (biased integers) or as its canonical "bytes"; and, where a proof is wanted, the index of its "leaf".

    Example: echo '{"values": [0.5, -0.25], "s": 20, "leaf": 0}' | chainfl compute root --json
    """
    u_D = asked.vector()
    tree = merkle.build(u_D)
    found = {"d": u_D.size, "depth": tree.depth, "root": _hex(tree.root), "u": u_D.tolist()}
    if not asked.has("leaf"):
        return found

    last = 2**tree.depth - 1
    if asked.leaf > last:
        raise InputError(f"input.leaf: {asked.leaf} is too large: give at most {last}")
    proof = merkle.prove(tree, asked.leaf)
    return found | {
        "proof": {
            "index": proof.index,
            "leaf": _hex(proof.leaf),
            "siblings": [_hex(each) for each in proof.siblings],
        }
    }


@computation
def combine(asked: CombineQuestion) -> Mapping[str, Any]:
    """The model that shares make of the head and the updates, and its root.

    "shares" are p_0 (the head's) to p_K with sum 2^31; "by" is "updates" (default) or "ranks". A vector is an
    array of u, canonical bytes, or an object as `compute root` takes it. No "head" is needed when p_0 is 0.

    Example: echo '{"updates": [[2147483648], [2147483650]], "shares": [0, 1073741824, 1073741824]}' |
    chainfl compute combine --json
    """
    head = None if asked.head is None else asked.head.vector()
    updates = [each.vector() for each in asked.updates]
    by = combine_by_updates if asked.by == "updates" else combine_by_ranks
    u_D = by(head, updates, asked.shares)
    return {
        "d": u_D.size,
        "u": u_D.tolist(),
        "bytes": _hex(vector.to_bytes(u_D)),
        "root": _hex(merkle.root(u_D)),
    }


@computation
def cid(asked: CidQuestion) -> Mapping[str, Any]:
    """The CIDv1 of bytes or of a record, as IPFS names it.

    Give "bytes" with the "codec" "raw" (default) or "dag-cbor" (then they must be canonical), or a "record"
    written as DAG-JSON, which is encoded first.

    Example: echo '{"bytes": "0x68656c6c6f"}' | chainfl compute cid --json
    """
    if asked.has("record"):
        codec = Codec.DAG_CBOR
        data = cbor.encode(from_dag_json(asked.record, "input.record"))
    else:
        codec = asked.codec
        data = asked.octets

    if codec is Codec.DAG_CBOR:
        cbor.decode(data)
    name = Cid.of(data, codec)
    return {"cid": str(name), "digest": _hex(name.digest), "codec": _name(codec), "bytes": _hex(data)}


def _name(codec: Codec) -> str:
    return next(name for name, each in CODECS.items() if each is codec)


def _show(done: Report) -> None:
    width = max(map(len, done.metrics), default=0) + 1
    for name, value in done.metrics.items():
        click.echo(f"{name:{width}}{value}")


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


from chainfl.cli import compute_rules as compute_rules  # noqa: E402  its commands join the group
from chainfl.cli import compute_varsel as compute_varsel  # noqa: E402
