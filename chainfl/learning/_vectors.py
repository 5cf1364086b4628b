"""Vector code that numba does not make by itself, written in LLVM's language: what `_kernels` spends its time in.

Numba turns a loop over few channels into calls and checks around one or two vector instructions. These intrinsics keep
what they work on in registers, whatever the processor's vectors are (AVX-512, AVX2, NEON). Addresses are those of
floats, steps and counts are in floats.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_FEATURES: Final = llvm.get_host_cpu_features()
LANES: Final = 16 if _FEATURES.get("avx512f") else 8 if _FEATURES.get("avx2") else 4
"""Floats in a vector."""
ROWS: Final = 4 if LANES == 8 else 8
"""Rows of a product that are worked on together: their sums fit into the registers."""
MATRIX_STEP: Final = 8
"""Numbers in a row of a matrix of weights, those beyond its terms among them."""

_FLOAT: Final = ir.FloatType()
_VECTOR: Final = ir.VectorType(_FLOAT, LANES)
_WORD: Final = ir.IntType(64)
_INDICES: Final = ir.VectorType(ir.IntType(32), LANES)

Body = Callable[[Any, Sequence[Any]], Sequence[Any]]


def _number(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _place(build: Any, base: Any, at: Any, kind: Any) -> Any:
    return build.inttoptr(build.add(base, build.mul(at, _number(4))), ir.PointerType(kind))


def _load(build: Any, base: Any, at: Any) -> Any:
    found = build.load(_place(build, base, at, _VECTOR))
    found.align = 4
    return found


def _store(build: Any, value: Any, base: Any, at: Any) -> None:
    build.store(value, _place(build, base, at, _VECTOR)).align = 4


def _everywhere(build: Any, base: Any, at: Any) -> Any:
    """One number in all lanes."""
    number = build.load(_place(build, base, at, _FLOAT))
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    first = build.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return build.shuffle_vector(first, nothing, ir.Constant(_INDICES, [0] * LANES))


def _multiplied_in(build: Any, a: Any, b: Any, sum_: Any) -> Any:
    """sum + a·b, with one rounding where the processor can."""
    return build.fadd(sum_, build.fmul(a, b, flags=["contract"]), flags=["contract"])


def _loop(build: Any, count: Any, step: int, body: Body, carried: Sequence[Any] = ()) -> Sequence[Any]:
    """`body` at 0, step, … below `count`, at least once; it is given what it returned the time before."""
    before = build.block
    head, after = (build.function.append_basic_block(name) for name in ("loop", "after"))
    build.branch(head)
    build.position_at_end(head)

    at = build.phi(_WORD)
    at.add_incoming(_number(0), before)
    held = [build.phi(each.type) for each in carried]
    for phi, each in zip(held, carried, strict=True):
        phi.add_incoming(each, before)

    made = body(at, held)
    following = build.add(at, _number(step))
    at.add_incoming(following, build.block)
    for phi, each in zip(held, made, strict=True):
        phi.add_incoming(each, build.block)
    build.cbranch(build.icmp_signed("<", following, count), head, after)
    build.position_at_end(after)
    return made


def _sum_of_pairs(build: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [build.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]


def _combination(terms: int, *, adds: bool) -> Any:
    @intrinsic
    def combine(
        typingctx: Any,  # noqa: ARG001
        matrix: Any,  # noqa: ARG001
        rows: Any,  # noqa: ARG001
        source: Any,  # noqa: ARG001
        source_step: Any,  # noqa: ARG001
        target: Any,  # noqa: ARG001
        target_step: Any,  # noqa: ARG001
        count: Any,  # noqa: ARG001
    ) -> Any:
        """Target row r is, or is raised by, the sum of the source rows weighed by row r of the matrix."""
        words, whole = types.uint64, types.int64
        form = types.void(words, whole, words, whole, words, whole, whole)

        def codegen(context: Any, build: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            matrix, rows, source, source_step, target, target_step, count = args

            def columns(at: Any, _: Sequence[Any]) -> Sequence[Any]:
                taken = [
                    _load(build, source, build.add(at, build.mul(source_step, _number(j))))
                    for j in range(terms)
                ]

                def row(r: Any, _: Sequence[Any]) -> Sequence[Any]:
                    first = build.mul(r, _number(MATRIX_STEP))
                    parts = [
                        build.fmul(_everywhere(build, matrix, build.add(first, _number(j))), each)
                        for j, each in enumerate(taken)
                    ]
                    made = _sum_of_pairs(build, parts)
                    place = build.add(at, build.mul(r, target_step))
                    if adds:
                        made = build.fadd(_load(build, target, place), made)
                    _store(build, made, target, place)
                    return ()

                return _loop(build, rows, 1, row)

            _loop(build, count, LANES, columns)
            return context.get_dummy_value()

        return form, codegen

    return combine


combine_six: Final = _combination(6, adds=False)
combine_eight: Final = _combination(8, adds=False)
add_six: Final = _combination(6, adds=True)
add_eight: Final = _combination(8, adds=True)


def _product(vectors: int, *, adds: bool) -> Any:
    @intrinsic
    def multiply(
        typingctx: Any,  # noqa: ARG001
        left: Any,  # noqa: ARG001
        left_step: Any,  # noqa: ARG001
        left_deep: Any,  # noqa: ARG001
        right: Any,  # noqa: ARG001
        right_step: Any,  # noqa: ARG001
        out: Any,  # noqa: ARG001
        out_step: Any,  # noqa: ARG001
        depth: Any,  # noqa: ARG001
    ) -> Any:
        """ROWS rows of a product of matrices, as many vectors wide, are put or added to `out`.

        Each is a sum over `depth` in its order, by itself before it is added. In the left matrix rows are `left_step`
        apart and what is summed over `left_deep`.
        """
        words, whole = types.uint64, types.int64
        form = types.void(words, whole, whole, words, whole, words, whole, whole)

        def codegen(context: Any, build: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            left, left_step, left_deep, right, right_step, out, out_step, depth = args
            starts = [build.mul(left_step, _number(row)) for row in range(ROWS)]

            def term(k: Any, sums: Sequence[Any]) -> Sequence[Any]:
                at = build.mul(k, right_step)
                deep = build.mul(k, left_deep)
                taken = [_load(build, right, build.add(at, _number(LANES * v))) for v in range(vectors)]
                made = []
                for row, start in enumerate(starts):
                    number = _everywhere(build, left, build.add(start, deep))
                    own = sums[row * vectors : (row + 1) * vectors]
                    made += [
                        _multiplied_in(build, number, each, sum_)
                        for sum_, each in zip(own, taken, strict=True)
                    ]
                return made

            zeros = [ir.Constant(_VECTOR, [0.0] * LANES)] * (ROWS * vectors)
            sums = _loop(build, depth, 1, term, zeros)
            for place, each in enumerate(sums):
                row, vector = divmod(place, vectors)
                at = build.add(build.mul(out_step, _number(row)), _number(LANES * vector))
                _store(build, build.fadd(_load(build, out, at), each) if adds else each, out, at)
            return context.get_dummy_value()

        return form, codegen

    return multiply


multiply_one: Final = _product(1, adds=False)
multiply_two: Final = _product(2, adds=False)
add_one: Final = _product(1, adds=True)
add_two: Final = _product(2, adds=True)
