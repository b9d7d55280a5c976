"""Are the gradients of bf16 micro-batches added up in fp32, and is nothing lost but what bf16 itself loses?

Two truths: the gradient in float64, which NumPy computes from the same weights, and from which bf16 is a few percent
off at most; and the sum of what the judge's own layers have handed out in bf16, from which a sum in fp32 differs by its
own rounding. An answer's process has other weights, so it has no gradients but these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.base.words import join_words, off_by, percent, plural
from gpipe_edu.judge.case import Belief, Exam, Sign, Signs, try_beliefs
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.networks import Array, Item, layer_of
from gpipe_edu.judge.networks import arrays_of_items, draw_digits, items_of
from gpipe_edu.judge.remote_layers import AskedLayers, PieceRuns, with_other_weights
from gpipe_edu.judge.tasks.ex14_buffer.perform import FEW, BufferAnswer, BufferQuestion
from gpipe_edu.judge.weighting import OTHER_TARGETS, Parts, beliefs_about_gradients, parts_of

_OF_BF16: Final = 0.04
"""How far small gradients of bf16 layers are from those of float64; those of the beliefs are further off."""

_OF_FP32: Final = 1e-4
"""How far a sum in fp32 is from one in float64, at most; one in bf16 is further as soon as there are a few terms."""

_COPIES: Final = 8
"""Tensors as large as a weight that may be in memory: the weight, its gradient, the buffer, and some on the way."""


def examine(exam: Exam, rng: Random) -> Success:
    """Even, ragged and tiny mini-batches, with old gradients and in the other mode; then many micro-batches."""
    for N, M in ((8, 4), (3, 2), (10, 4), (7, 1), (3, 5)):
        _judge(exam, rng, N, M)
    with exam.blame_on("counts-old-gradients"):
        _judge(exam, rng, 8, 4, leftover=True)
    _judge(exam, rng, 9, 4, training=False)
    with exam.blame_on("second-call", spare=["first-changed"]):
        _judge(exam, rng, 8, 4, second=True)
    with exam.blame_on("shared-twice"):
        _judge_shared(exam, rng)
    for _ in range(3):
        _judge(exam, rng, rng.randint(17, 40), rng.randint(3, 16))
    _judge(exam, rng, 96, 48)
    return exam.success(error=percent(_judge(exam, rng, 400, 400, sizes=[64, 10])))


def _judge(exam: Exam, rng: Random, N: int, M: int, sizes: Sequence[int] = (6, 9, 4), **more: bool) -> float:
    """Judge one mini-batch; returns the error against float64."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    items = [_short(item) for item in items_of(ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32)))]
    x, y = numbers.normal(size=(N, sizes[0])), numbers.integers(0, sizes[-1], size=N)
    if sizes[0] == 64:
        x, y = draw_digits(rng, N)
    call = f"accumulate(net, loss_fn, x, y, M={M}) with {plural(N, 'sample')}"
    call += ", gradients left over from before" if more.get("leftover") else ""
    call += ", the second call with this net" if more.get("second") else ""
    call += ", net in evaluation mode" if more.get("training") is False else ""
    asked = BufferQuestion(items, _to_bf16(x), y, M, **more)
    layers = list(map(layer_of, items))
    case = exam.case(call)
    others = list(map(_short, with_other_weights(items, exam.secret)))
    computed = AskedLayers(dict(enumerate(layers)))
    answer = case.ask_for(BufferAnswer, asked._replace(items=others), {OTHER_TARGETS: "whole-targets"}, computed)
    ran = PieceRuns(computed.runs_of(0), [place for place, item in enumerate(items) if item])
    case.judge(_about_the_way(asked, answer, ran))
    case.judge(_about_the_form(answer, layers))
    parts = parts_of(layers, asked.x, y, M)
    right = parts.total(parts.shares)
    off = _off(answer.gradients, right)
    expected, came = "the gradient of the mini-batch", off_by(off)
    for sign in _about_the_sum(answer, parts, off, _arrived(ran, N)):
        case.judge([sign._replace(expected=sign.expected or expected, came=sign.came or came)])
    case.judge(_about_what_is_left(answer, others))
    expected = "each sample once, through all layers"
    case.judge([Sign("lost", not ran.are_of(asked.x, _OF_BF16), expected=expected, came="other numbers")])
    return off


def _arrived(ran: PieceRuns, N: int) -> list[list[Array]]:
    """The sums of all gradients that were handed out, by how they are multiplied by n / N: not here, but at the loss
    or at the end; in fp32; or in bf16, which rounds each term as a share at the loss does, and loses no more with M."""
    sums: dict[Any, list[Array]] = {}
    for run in ran.runs.values():
        if run.kind == "B":
            found = [_rounded(value) for value in (run.saved[0].T @ run.x, run.x.sum(axis=0))]
            more = [term for value in found for term in _terms(value, len(run.x), N)]
            earlier = sums.get(run.place, [np.zeros(())] * len(more))
            sums[run.place] = [a + b for a, b in zip(earlier, more, strict=True)]
    rows = [sums[place] for place in ran.places if place in sums]
    half = len(rows[0]) // 2 if rows else 0
    return [[value for row in rows for value in row[way::half]] for way in range(half)]


def _terms(value: Array, n: int, N: int) -> list[Array]:
    """What one gradient adds to the sum, in each of the ways of `_arrived`."""
    terms = [value, n * value]
    for factors in ((n / N,), (n, 1 / N), (1 / N, n)):
        term = value
        for factor in factors:
            term = _rounded(term.astype(np.float32) * np.float32(factor))
        terms.append(term)
    return terms


def _judge_shared(exam: Exam, rng: Random) -> None:
    """Weights that two layers share are there once; their gradients are judged elsewhere."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    items = [_short(item) for item in items_of(ref.mlp((6, 6, 6, 4), activation="tanh", seed=rng.randrange(2**32)))]
    x, y = numbers.normal(size=(8, 6)), numbers.integers(0, 4, size=8)
    case = exam.case("accumulate(net, loss_fn, x, y, M=4) with 8 samples, two layers of net share their weights")
    layers = list(map(layer_of, items))
    asked = BufferQuestion(items, _to_bf16(x), y, 4, shared=True)
    answer = case.ask_for(BufferAnswer, asked, None, AskedLayers(dict(enumerate(layers))))
    case.judge(_about_the_form(answer, [*layers[:2], *layers[4:]]))


def _to_bf16(values: Array) -> Array:
    """These numbers cut to bf16, towards zero: it has the first 16 of fp32's bits."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def _rounded(values: Array) -> Array:
    """The nearest numbers of bf16, ties to even, as PyTorch rounds."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return _to_bf16((bits + 0x7FFF + ((bits >> 16) & 1)).view(np.float32))


def _short(item: Item) -> Item:
    return (_to_bf16(item[0]), _to_bf16(item[1])) if isinstance(item, tuple) else item


def _off(ours: Sequence[Any], theirs: Sequence[Array]) -> float:
    """The norm of the difference as a share of the norm. PyTorch's weights lie as (outputs, inputs)."""
    ones = [np.transpose(one) for one in ours]
    distance = sum(float(np.sum((a - b) ** 2)) for a, b in zip(ones, theirs, strict=True))
    size = sum(float(np.sum(b**2)) for b in theirs)
    return float(np.sqrt(distance / size))


def _about_the_way(asked: BufferQuestion, answer: BufferAnswer, ran: PieceRuns) -> Signs:
    """What went through the network, before any number is looked at."""
    N, M, forwards = len(asked.x), asked.M, [run for run in ran.runs.values() if run.kind == "F"]
    samples = ran.passed
    yield Sign("other-net", not answer.forwards)
    types = {kind for run in forwards for kind in run.seen[1:]} - {"bfloat16"}
    types |= set() if all(_is_short(run.x) for run in forwards) else {"more digits"}
    yield Sign("widened", bool(types), expected="forwards in bfloat16", came=f"one in {min(types, default='')}")
    most, expected = -(-N // M), f"{N} samples in all"
    yield Sign("not-cut", ran.largest > most, expected=f"at most {most} samples at once", came=f"{ran.largest}")
    yield Sign("twice", max(samples) > N, expected=expected, came=f"{max(samples)}")
    yield Sign("lost", min(samples) < N, expected=expected, came=f"{min(samples)}")
    yield Sign("ran-empty", ran.ran_empty)
    sizes = sorted((len(run.x) for run in ran.forwards(ran.places[0]).values()), reverse=True)
    asked_for = sorted((len(piece) for piece in split_batch(asked.x, M) if len(piece)), reverse=True)
    yield Sign("other-cut", sizes != asked_for, expected=_in_pieces(asked_for), came=_in_pieces(sizes))


def _in_pieces(sizes: Sequence[int]) -> str:
    return f"micro-batches of {join_words(sizes)} samples"


def _about_the_form(answer: BufferAnswer, layers: Sequence[ref.Layer]) -> Signs:
    shapes = [tuple(reversed(value.shape)) for layer in layers for value in layer.params.values()]
    others = [kind for one, kind in zip(answer.gradients, answer.types, strict=True) if one is None]
    yield Sign("no-tensors", bool(others), expected="tensors", came=", ".join(others[:1]))
    came = [one.shape for one in answer.gradients if one is not None]
    yield Sign("other-form", came != shapes, expected=f"tensors of shapes {shapes}", came=f"{came}")
    yield Sign("ends-in-bf16", "bfloat16" in answer.types, expected="float32", came="bfloat16")
    others = [kind for kind in answer.types if kind != "float32"]
    yield Sign("other-type", bool(others), expected="float32", came=", ".join(others[:1]))


def _about_the_sum(answer: BufferAnswer, parts: Parts, off: float, arrived: Sequence[list[Array]]) -> Iterator[Sign]:
    found = answer.gradients
    yield Sign("zeros", not any(map(np.any, found)), came="zeros")
    several = len(parts.counts) > 3
    wrong = not off < _OF_BF16  # nan is wrong, too
    if wrong:
        # Beliefs are compared in direction and length, up to what bf16 loses.
        beliefs = [belief for belief in beliefs_about_gradients(parts) if belief.slip != "zero-late"]
        shares, M = parts.shares, len(parts.counts)
        growing = [float(M - m) for m in range(M)]
        again = [[(M - m) * share for m, share in enumerate(shares)], growing, [times / M for times in growing]]
        beliefs.append(Belief("adds-sums", tuple(parts.total(times) for times in again)))
        yield from try_beliefs(beliefs, lambda guess: _off(found, guess) < _OF_BF16)
    short = [_is_short(one) for one in found]
    yield Sign("summed-in-bf16", several and all(short), "more digits than bf16 has", "numbers of bf16")
    yield Sign("other-gradient", wrong)
    lost = min(_lost([np.transpose(one) for one in found if one is not None], sums) for sums in arrived)
    came = f"off by {percent(lost)} from the sum of what autograd brought"
    yield Sign("digits-lost", several and lost > _OF_FP32, "a sum in fp32", came)


def _is_short(one: Any) -> bool:
    return bool(np.array_equal(_to_bf16(one), one))


def _lost(found: Sequence[Any], arrived: Sequence[Array]) -> float:
    """How far `found` is from the sum of what arrived, up to a factor; 0 if nothing was seen to arrive."""
    ours, theirs = (np.concatenate([np.ravel(one) for one in values]) for values in (found, arrived))
    if not np.any(theirs):
        return 0.0
    factor = (ours @ theirs) / (theirs @ theirs)
    return float(np.linalg.norm(ours - factor * theirs) / np.linalg.norm(ours))


def _about_what_is_left(answer: BufferAnswer, items: Sequence[Item]) -> Signs:
    yield Sign("grad-left", answer.grads > 0, expected="no .grad", came=f"{plural(answer.grads, 'weight')} with one")
    kinds = set(answer.weight_types) - {"bfloat16"}
    yield Sign("weights-widened", bool(kinds), expected="weights in bfloat16", came=f"in {min(kinds, default='')}")
    weights = list(map(np.transpose, arrays_of_items(items)))
    same = all(np.array_equal(a, b) for a, b in zip(answer.weights, weights, strict=True))
    yield Sign("weights-moved", not same)
    frozen = len(weights) - answer.trained
    yield Sign("frozen", frozen > 0, expected="requires_grad", came=f"{plural(frozen, 'weight')} without")
    yield Sign("mode-changed", not answer.training)
    yield Sign("other-mode", answer.training and not answer.in_its_mode)
    many = FEW >= answer.forwards > 2 * _COPIES and answer.copies > _COPIES
    came = f"{answer.copies} tensors as large as the first weight, at the last forward"
    yield Sign("keeps-all", many, expected="one buffer and one gradient", came=came)
    yield Sign("added-in-double", answer.doubles > 0, expected="buffers in float32", came="float64")
    yield Sign("held-over", answer.held > 0, expected="the gradients of one micro-batch", came="of two")
    yield Sign("first-changed", answer.first_changed)
