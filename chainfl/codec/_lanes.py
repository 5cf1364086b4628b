"""SHA-256 of many short messages at once: one message per vector lane, compiled by numba.

The compression function (FIPS 180-4, section 6.2.2) is written as straight-line LLVM vector code, for
LLVM does not find the lanes by itself in a loop over rounds. No particular processor is needed: LLVM splits
the vectors to fit.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from chainfl.codec._backend import READ_UINT32, compiled
from chainfl.codec._words import BLOCK_WORDS, INITIAL, ROUND_CONSTANTS, swap_bytes

LANES = 8


@intrinsic
def _compress(typingctx: Any, state: Any, words: Any) -> Any:  # noqa: ARG001
    """Fold one block per lane, `words` (16, LANES), into `state` (8, LANES)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(32), LANES)
        state_at, words_at = (
            _row_pointers(context, builder, kind, value, vector, rows)
            for kind, value, rows in zip(signature.args, args, (8, BLOCK_WORDS), strict=True)
        )
        before = [builder.load(pointer, align=4) for pointer in state_at]
        after = _rounds(builder, vector, before, [builder.load(pointer, align=4) for pointer in words_at])
        for pointer, old, new in zip(state_at, before, after, strict=True):
            builder.store(builder.add(old, new), pointer, align=4)
        return context.get_dummy_value()

    return types.void(state, words), codegen


def _row_pointers(context: Any, builder: Any, kind: Any, value: Any, vector: Any, rows: int) -> list[Any]:
    data = builder.bitcast(context.make_array(kind)(context, builder, value).data, ir.PointerType(vector))
    return [builder.gep(data, [ir.Constant(ir.IntType(64), row)]) for row in range(rows)]


def _rounds(builder: Any, vector: Any, state: list[Any], words: list[Any]) -> list[Any]:
    def constant(value: int) -> Any:
        return ir.Constant(vector, [value] * LANES)

    def xor(*terms: Any) -> Any:
        first, *rest = terms
        for term in rest:
            first = builder.xor(first, term)
        return first

    def add(*terms: Any) -> Any:
        first, *rest = terms
        for term in rest:
            first = builder.add(first, term)
        return first

    def shift(x: Any, bits: int) -> Any:
        return builder.lshr(x, constant(bits))

    def rotate(x: Any, bits: int) -> Any:
        return builder.or_(shift(x, bits), builder.shl(x, constant(32 - bits)))

    words = list(words)
    a, b, c, d, e, f, g, h = state
    for t, round_constant in enumerate(ROUND_CONSTANTS):
        if t >= BLOCK_WORDS:
            early = words[t - 15]
            late = words[t - 2]
            low = xor(rotate(early, 7), rotate(early, 18), shift(early, 3))
            high = xor(rotate(late, 17), rotate(late, 19), shift(late, 10))
            words.append(add(words[t - 16], words[t - 7], low, high))
        choice = xor(g, builder.and_(e, xor(f, g)))
        majority = xor(builder.and_(xor(a, b), xor(b, c)), b)
        first = add(
            h, constant(round_constant), words[t], choice, xor(rotate(e, 6), rotate(e, 11), rotate(e, 25))
        )
        second = add(majority, xor(rotate(a, 2), rotate(a, 13), rotate(a, 22)))
        a, b, c, d, e, f, g, h = add(first, second), a, b, c, add(d, first), e, f, g
    return [a, b, c, d, e, f, g, h]


@compiled(f"void({READ_UINT32}, int64, uint32, boolean, int64, int64, uint32[:, ::1])")
def hash_messages(source, length, prefix, swap, start, stop, digests):  # type: ignore[no-untyped-def]
    """Digests of messages start..stop: message i is the byte `prefix`, then words i*length..(i+1)*length.

    `swap` says that the words of `source` lie in the other byte order.
    """
    blocks = (4 * length + 1 + 8 + 63) // 64
    words = np.zeros((blocks * BLOCK_WORDS, LANES), np.uint32)
    state = np.empty((8, LANES), np.uint32)
    words[blocks * BLOCK_WORDS - 1, :] = np.uint32(8 * (4 * length + 1))

    for first in range(start, stop, LANES):
        for lane in range(LANES):
            at = min(first + lane, stop - 1) * length
            carry = prefix << np.uint32(24)
            for t in range(length):
                word = swap_bytes(source[at + t]) if swap else source[at + t]
                words[t, lane] = carry | (word >> np.uint32(8))
                carry = word << np.uint32(24)
            words[length, lane] = carry | np.uint32(0x800000)
        for row in range(8):
            state[row, :] = INITIAL[row]
        for block in range(blocks):
            _compress(state, words[block * BLOCK_WORDS : (block + 1) * BLOCK_WORDS])  # type: ignore[call-arg]
        for lane in range(min(LANES, stop - first)):
            for row in range(8):
                digests[first + lane, row] = state[row, lane]
