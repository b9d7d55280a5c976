"""How `Block` is built and called: ops on several micro-batches, in the order that is asked for."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple

import cloudpickle
import numpy as np

from gpipe_edu.judge.guest.memory import arrays_in
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.process import packing

HIDDEN: Final = {f"gpipe_edu.reference.layers.{name}": "Block" for name in ("Linear", "LayerNorm", "BatchNorm")}

MATRICES: Final = ("W1", "W2")
"""The weights that a W has no use for."""


class BlockQuestion(NamedTuple):
    """Ops (F, I or W, micro-batch) on one block. without_matrices: W1 and W2 are nan while a W runs.

    left: what I of micro-batch 0 has left in another process, packed; then W alone runs, on that. updated: what an
    optimizer writes into the weights where the ops have a U.
    """

    params: dict[str, Array]
    xs: list[Array]
    dys: list[Array]
    ops: list[tuple[str, int]]
    without_matrices: bool
    left: Array | None = None
    updated: dict[str, Array] | None = None


class BlockAnswer(NamedTuple):
    """For each micro-batch the output, the input's gradient and those of the weights.

    overwritten: names of arrays that were handed over and have other numbers now. spoilt: the same of saved and left,
    with the op that did it. given_again: whether a later W changed what an earlier one gave back. left: what was kept
    from some I for its W, except weights and what the caller knows; matrices as their shapes. in_block: the most arrays
    that the block held besides those it had when it was made. packed: what is left for the W of micro-batch 0 where
    that was not asked for, with W1 and W2 as nan; as bytes.
    """

    outputs: list[Any]
    dxs: list[Any]
    grads: list[Any]
    overwritten: list[str]
    spoilt: list[tuple[str, str]]
    given_again: bool
    left: list[tuple[int, ...]]
    left_vectors: list[Array]
    in_block: int
    packed: Array | None


def perform(Theirs: Any, **given: Any) -> BlockAnswer | dict[str, str]:
    """The answer to a `BlockQuestion`."""
    asked, M = BlockQuestion(**given), len(given["xs"])
    params = {name: value.copy() for name, value in asked.params.items()}
    xs, dys = ([value.copy() for value in values] for values in (asked.xs, asked.dys))
    block = Theirs(params)
    own = [*params.values(), *arrays_in([vars(block)], [])]
    outputs, saved, dxs, left, grads = (list[Any]([None] * M) for _ in range(5))
    if asked.left is not None:
        left[0] = packing.unpack(asked.left.tobytes())
    kept: list[Array] = []
    spoilt: list[tuple[str, str]] = []
    given_back: list[tuple[Any, Array]] = []
    in_block = 0
    for kind, m in asked.ops:
        if kind == "U":
            for name, value in (asked.updated or {}).items():
                params[name][:] = value
        elif kind == "F":
            outputs[m], saved[m] = block.forward(xs[m])
        elif kind == "I":
            before = arrays_in([vars(block)], [])
            with _watched(saved[m], ("saved", "I"), spoilt):
                found = block.input_gradient(dys[m], saved[m])
            if not isinstance(found, tuple | list) or len(found) != 2:
                return {"slip": "not-a-pair", "expected": "a pair", "came": _name(found)}
            if getattr(found[1], "shape", None) == xs[m].shape and not isinstance(found[0], np.ndarray):
                came = f"({_name(found[0])}, an array as large as x)"
                return {"slip": "pair-exchanged", "expected": "(dx, left)", "came": came}
            dxs[m], left[m] = found
            known = [*params.values(), *before, dys[m], xs[m], dxs[m]]
            kept += arrays_in([left[m], vars(block)], known)
        else:
            gone = _matrices_gone(params) if asked.without_matrices else nullcontext()
            with _watched(left[m], ("left", "W"), spoilt), gone:  # in this order, as the matrices may be in `left`
                grads[m] = block.weight_gradient(left[m])
            if not isinstance(grads[m], dict):
                return {"slip": "not-a-dict", "expected": "a dict of arrays", "came": _name(grads[m])}
            returned, grads[m] = grads[m], {name: np.copy(value) for name, value in grads[m].items()}
            given_back += [(returned[name], copy) for name, copy in grads[m].items()]
        in_block = max(in_block, len(arrays_in([vars(block)], own)))
    weights = asked.params | (asked.updated or {})
    pairs = [("x", xs, asked.xs), ("dy", dys, asked.dys), ("params", params.values(), weights.values())]
    changed = [name for name, now, was in pairs if not all(np.array_equal(a, b) for a, b in zip(now, was, strict=True))]
    shapes = sorted({array.shape for array in kept if array.ndim > 1})
    vectors = [array for array in kept if array.ndim == 1]
    packed = _packed(left[0], params) if ("W", 0) not in asked.ops else None
    again = not all(np.array_equal(now, was) for now, was in given_back)
    return BlockAnswer(outputs, dxs, grads, changed, spoilt, again, shapes, vectors, in_block, packed)


@contextmanager
def _watched(handed: Any, name: tuple[str, str], spoilt: list[tuple[str, str]]) -> Iterator[None]:
    """Note the name if arrays in what is handed over have been replaced afterwards, or have other numbers."""
    before = [(array, array.copy()) for array in arrays_in([handed], [])]
    yield
    after = {id(array) for array in arrays_in([handed], [])}
    if name not in spoilt and not all(id(now) in after and np.array_equal(now, was) for now, was in before):
        spoilt.append(name)


@contextmanager
def _matrices_gone(params: dict[str, Array]) -> Iterator[None]:
    kept = {name: params[name].copy() for name in MATRICES}
    for name in MATRICES:
        params[name][:] = np.nan
    try:
        yield
    finally:
        for name in MATRICES:
            params[name][:] = kept[name]


def _packed(left: Any, params: dict[str, Array]) -> Array | None:
    """As bytes; None for what can't be taken to another process."""
    with _matrices_gone(params), suppress(Exception):
        try:
            body = pickle.dumps(left)  # a class from a cell that was cut out is only a name in it
        except Exception:
            body = cloudpickle.dumps(left)
        return np.frombuffer(body, np.uint8)
    return None


def _name(value: Any) -> str:
    return "None" if value is None else type(value).__name__
