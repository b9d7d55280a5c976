"""Are I and W of a block right, and are they apart: I without the weights' gradients, W without redoing I's work?

The truth is put together from the reference engine's layers, whose backward is one op here.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.base.words import off_by, plural
from gpipe_edu.judge.case import Belief, Exam, Sign, Signs, try_beliefs
from gpipe_edu.judge.findings import Success, Unwritten
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.tasks.ex11_block.perform import MATRICES, BlockAnswer, BlockQuestion

_APART: Final = (3, 64, 128)
"""Samples, features of x and of the layer between."""


class Inside(NamedTuple):
    """What is computed on the way through a block and back. A leading d: the gradient of what follows.

    x_hat, spread: the normalized input, and what it was divided by. u: the norm's output. z, t: before and after tanh.
    """

    x: Array
    x_hat: Array
    spread: Array
    u: Array
    z: Array
    t: Array
    y: Array
    dy: Array
    dt: Array
    dz: Array
    du: Array
    dx: Array
    grads: dict[str, Array]


def examine(exam: Exam, rng: Random) -> Success:
    """One micro-batch, several at a time in any order, then without the matrices; the digits' width at the end.

    Sizes of 1, a scale of 0 and an update of the weights each have a case of their own.
    """
    one = [("F", 0), ("I", 0), ("W", 0)]
    try:
        error = max(_judge(exam, rng, one) for _ in range(2))
    except Unwritten:
        _judge_a_half(exam, rng)
    _judge(exam, rng, one, sizes=(1, rng.randint(3, 9), 1))
    with exam.blame_on("zero-scale"):
        _judge(exam, rng, one, zero_scale=True)
    with exam.blame_on("one-at-a-time", spare=["given-again"]):
        error = max(error, _judge(exam, rng, _mixed(rng, 2)), *(_judge(exam, rng, _mixed(rng, 4)) for _ in range(2)))
    with exam.blame_on("old-weights"):
        _judge(exam, rng, [*one, ("U", 0), ("F", 1), ("I", 1), ("W", 1)])
    with exam.blame_on("again"):
        _judge(exam, rng, _mixed(rng, 3), without_matrices=True)
    error = max(error, _judge(exam, rng, _mixed(rng, 8), sizes=(32, 64, 128)))
    _judge_apart(exam, rng)
    return exam.success(error=error)


def _judge_a_half(exam: Exam, rng: Random) -> NoReturn:
    """Judge what there is of a block that lacks a method. Raises Wrong; Unwritten if it lacks both."""
    case, asked = exam.case("F0 I0"), _draw(rng, (4, 6, 5), [("F", 0), ("I", 0)], False)
    truth = _inside(asked.params, asked.xs[0], asked.dys[0])
    try:
        answer = case.ask_for(BlockAnswer, asked)
    except Unwritten:  # no I, so W is called with nothing to go on: an error of its own tells that it is there
        exam.reply(**asked._replace(ops=[("W", 0)], left=np.frombuffer(pickle.dumps(None), np.uint8))._asdict())
        raise case.wrong(Sign("only-W")) from None
    case.judge(_about_the_forward(answer.outputs[0], truth))
    case.judge(_about_what_changed(answer))
    case.judge(_about_I(answer.dxs[0], truth, asked.params))
    raise case.wrong(Sign("only-I"))


def _mixed(rng: Random, M: int) -> list[tuple[str, int]]:
    """All ops of M micro-batches in a random order in which they can run, several in flight."""
    ops, ready = [("F", 0), ("F", 1)], [("I", 0), ("I", 1), *(("F", m) for m in range(2, M))]
    while ready:
        kind, m = ready.pop(rng.randrange(len(ready)))
        ops.append((kind, m))
        if kind != "W":
            ready.append(({"F": "I", "I": "W"}[kind], m))
    return ops


def _judge(
    exam: Exam,
    rng: Random,
    ops: list[tuple[str, int]],
    sizes: tuple[int, int, int] | None = None,
    without_matrices: bool = False,
    zero_scale: bool = False,
) -> float:
    """Judge one run; returns the largest error."""
    n, h, f = sizes or rng.sample(range(3, 10), 3)
    asked = _draw(rng, (n, h, f), ops, without_matrices)
    params, xs, dys, M = asked.params, asked.xs, asked.dys, len(asked.xs)
    if zero_scale:
        params["scale"][rng.randrange(h)] = 0
    words = " ".join("update" if kind == "U" else f"{kind}{m}" for kind, m in ops)
    words = f"{words if M < 5 else plural(M, 'micro-batch')}, x of shape {(n, h)}, W1 of shape {(h, f)}"
    case = exam.case(f"{words}, a scale of 0" if zero_scale else words)
    answer = case.ask_for(BlockAnswer, asked)
    truths = [_inside(asked.updated if m and asked.updated else params, xs[m], dys[m]) for m in range(M)]
    for number, truth in enumerate(truths):
        case.judge(_about_the_forward(answer.outputs[number], truth))
    case.judge(_about_what_changed(answer))
    for number, truth in enumerate(truths):
        case.judge(_about_I(answer.dxs[number], truth, params))
    for number, truth in enumerate(truths):
        case.judge(_about_W(answer.grads[number], truth, params))
    case.judge(_about_what_was_given(answer))
    if n > 1:  # else a row that W needs can't be told from a gradient, which is a sum of one
        case.judge(_about_what_is_left(answer, truths, params))
    errors = [ref.gradient_difference([a], [t.dx]) for a, t in zip(answer.dxs, truths, strict=True)]
    pairs = zip(answer.grads, truths, strict=True)
    errors += [ref.gradient_difference([grads[name] for name in t.grads], list(t.grads.values())) for grads, t in pairs]
    return max(errors)


def _draw(
    rng: Random, sizes: tuple[int, int, int], ops: list[tuple[str, int]], without_matrices: bool
) -> BlockQuestion:
    numbers, (n, h, f) = np.random.default_rng(rng.randrange(2**32)), sizes
    M = 1 + max(m for _, m in ops)
    shapes = {"scale": (h,), "shift": (h,), "W1": (h, f), "b1": (f,), "W2": (f, h), "b2": (h,)}
    params, updated = (
        {name: numbers.normal(1 if name == "scale" else 0, 0.5, shape) for name, shape in shapes.items()}
        for _ in range(2)
    )
    xs = [numbers.normal(numbers.normal(size=(n, 1)), numbers.uniform(0.5, 3, (n, 1)), (n, h)) for _ in range(M)]
    dys = [numbers.normal(size=(n, h)) for _ in range(M)]
    return BlockQuestion(params, xs, dys, ops, without_matrices, updated=updated if ("U", 0) in ops else None)


def _judge_apart(exam: Exam, rng: Random) -> None:
    """I in one process, W in another, which has nothing but what I left: with so few samples, that is too little to
    hold the gradient of a matrix.
    """
    case = exam.case(f"F0 I0, and W0 in another process, x of shape {_APART[:2]}, W1 of shape {_APART[1:]}")
    asked = _draw(rng, _APART, [("F", 0), ("I", 0)], True)
    truth = _inside(asked.params, asked.xs[0], asked.dys[0])
    left = case.ask_for(BlockAnswer, asked).packed
    elsewhere = Sign("left-elsewhere", expected="what W needs, in `left`")
    case.judge([elsewhere._replace(shows=left is None, came="something that can't be taken to another process")])
    size = 0 if left is None else len(zlib.compress(left.tobytes()))
    most = asked.params["W1"].nbytes // 2
    case.judge([Sign("in-I", size > most, expected=f"less than {most} bytes for W", came=f"{size} bytes")])
    with exam.blame_on("left-elsewhere"):
        apart = asked._replace(ops=[("W", 0)], left=left, xs=[0 * asked.xs[0]], dys=[0 * asked.dys[0]])
        case.judge(_about_W(case.ask_for(BlockAnswer, apart, None, None, True).grads[0], truth, asked.params))


def _inside(params: Mapping[str, Array], x: Array, dy: Array) -> Inside:
    norm, first, tanh = ref.LayerNorm(x.shape[1]), ref.Linear(*params["W1"].shape), ref.Tanh()
    second = ref.Linear(*params["W2"].shape)
    norm.params = {"weight": params["scale"], "bias": params["shift"]}
    first.params, second.params = ({"weight": params[f"W{i}"], "bias": params[f"b{i}"]} for i in (1, 2))
    u, of_norm = norm.forward(x)
    z, of_first = first.forward(u)
    t, of_tanh = tanh.forward(z)
    dt, grads2 = second.backward(dy, (t,))
    dz = tanh.input_gradient(dt, of_tanh)
    du, grads1 = first.backward(dz, of_first)
    d_norm, grads0 = norm.backward(du, of_norm)
    names = ("scale", "shift", "W1", "b1", "W2", "b2")
    grads = dict(zip(names, [*grads0.values(), *grads1.values(), *grads2.values()], strict=True))
    y = x + second.forward(t)[0]
    x_hat, inverse, _ = of_norm
    return Inside(x, x_hat, 1 / inverse, u, z, t, y, dy, dt, dz, du, dy + d_norm, grads)


def _about_the_forward(output: Any, truth: Inside) -> Signs:
    yield Sign("other-output", not _near(output, truth.y), expected="x + tanh(norm(x) W1 + b1) W2 + b2")


def _about_what_changed(answer: BlockAnswer) -> Signs:
    expected, came = "the weights as they were", "other numbers in params"
    yield Sign("updated", "params" in answer.overwritten, expected=expected, came=came)
    for name in answer.overwritten:
        yield Sign("overwritten", expected=f"{name} as it was", came=f"other numbers in {name}", words={"name": name})
    for name, op in answer.spoilt:
        words = {"name": name, "op": op}
        yield Sign("spoilt", expected=f"{name} as it was", came=f"something else in {name} after {op}", words=words)


def _about_what_was_given(answer: BlockAnswer) -> Signs:
    expected, came = "the gradients that an earlier W gave back, as they were", "other numbers in them after a later W"
    yield Sign("given-again", answer.given_again, expected=expected, came=came)


def _about_I(dx: Any, truth: Inside, params: Mapping[str, Array]) -> Signs:
    shape = truth.x.shape
    yield Sign("dx-form", np.shape(dx) != shape, expected=f"shape {shape}", came=_shape(dx))
    if _near(dx, truth.dx):
        return
    came = _off(dx, truth.dx)
    for sign in _beliefs_about_I(dx, truth, params):
        yield sign._replace(expected="the gradient of x", came=came)


def _beliefs_about_I(dx: Array, truth: Inside, params: Mapping[str, Array]) -> Iterator[Sign]:
    scale, W1 = params["scale"], params["W1"]
    x_hat, spread, t, dy, dt = truth.x_hat, truth.spread, truth.t, truth.dy, truth.dt

    def norm(d: Array, along: float = 1, across: float = 1, axis: int | None = 1) -> Array:
        """Back through the normalization, with or without its two means."""
        mean, product = d.mean(axis=axis, keepdims=True), (d * x_hat).mean(axis=axis, keepdims=True)
        return np.asarray((d - along * mean - across * x_hat * product) / spread)

    d = truth.du * scale
    inside, less = norm(d), x_hat.shape[1] / (x_hat.shape[1] - 1)
    own, of_all = (d * x_hat).mean(axis=1, keepdims=True), (d * x_hat).mean()
    if _near(dx, truth.dx, 1e-5):
        yield Sign("rounded")
        return
    slopes = {"no-tanh": [np.ones_like(t)], "tanh-slope": [1 - np.tanh(t) ** 2, 1 - t, t, 1 - truth.z**2, t**2 - 1]}
    beliefs = [
        Belief("no-residual", (inside,)),
        Belief("only-residual", (dy,)),
        Belief("norm-left-out", (dy + truth.du, dy + d)),
        Belief("residual-in-norm", (norm(d + dy), norm((truth.du + dy) * scale))),
        Belief("frozen-statistics", (dy + d / spread,)),
        Belief("frozen-mean", (dy + norm(d, along=0),)),
        Belief("frozen-spread", (dy + norm(d, across=0),)),
        Belief("one-less", tuple(dy + norm(d, *weights) for weights in ((less, 1), (1, less), (less, less)))),
        Belief("no-scale", (dy + norm(truth.du),)),
        Belief("no-spread", (dy + inside * spread, dy + inside * spread**2)),
        Belief("over-samples", (dy + norm(d, axis=0),)),
        Belief("over-everything", (dy + norm(d, axis=None), dy + inside + x_hat * (own - of_all) / spread)),
        *(
            Belief(slip, tuple(dy + norm((dt * slope) @ W1.T * scale) for slope in found))
            for slip, found in slopes.items()
        ),
    ]
    yield from try_beliefs(beliefs, lambda guess: _near(dx, guess))
    yield Sign("other-dx")


def _about_W(grads: dict[str, Any], truth: Inside, params: Mapping[str, Array]) -> Signs:
    yield Sign("names", set(grads) != set(params), expected=", ".join(params), came=", ".join(map(str, grads)))
    for name, right in truth.grads.items():
        shape, came = right.shape, np.shape(grads[name])
        wrong = {"not-summed": (len(truth.x), *shape), "transposed": shape[::-1] if len(shape) == 2 else shape}
        slip = next((slip for slip, other in wrong.items() if came == other), "other-shape")
        expected = f"{name} of shape {shape}"
        yield Sign(slip, came != shape, expected=expected, came=_shape(grads[name]), words={"name": name})
    for name, right in truth.grads.items():
        if not _near(grads[name], right):
            came = _off(grads[name], right)
            for sign in _beliefs_about_W(name, grads, truth, params["scale"]):
                yield sign._replace(expected=f"the gradient of {name}", came=came, words={"name": name})


def _beliefs_about_W(name: str, grads: dict[str, Any], truth: Inside, scale: Array) -> Iterator[Sign]:
    """What is wrong with the gradient of `name`."""
    right, n = truth.grads, len(truth.x)
    x_hat, u, dz, dt, du = truth.x_hat, truth.u, truth.dz, truth.dt, truth.du
    if _near(grads[name], right[name], 1e-5):
        yield Sign("rounded")
        return
    yield Sign("no-gradient", not np.any(grads[name]))
    yield Sign("mean-over-samples", _near(grads[name], right[name] / n))
    by_name: dict[str, list[Belief]] = {
        "scale": [
            Belief("scale-and-shift", (right["shift"],)),
            Belief("scale-from-output", ((du * u).sum(axis=0),)),
            Belief("scale-from-input", ((du * truth.x).sum(axis=0),)),
            Belief("d-for-du", (right["scale"] * scale,)),
            Belief("dy-for-du", ((truth.dy * x_hat).sum(axis=0),)),
        ],
        "shift": [
            Belief("scale-and-shift", (right["scale"],)),
            Belief("d-for-du", (right["shift"] * scale,)),
            Belief("dy-for-du", (right["b2"],)),
        ],
        "W1": [
            Belief("input-of-norm", (truth.x.T @ dz,)),
            Belief("without-scale-and-shift", (x_hat.T @ dz,)),
            Belief("behind-tanh", (u.T @ dt,)),
        ],
        "b1": [Belief("behind-tanh", (dt.sum(axis=0),))],
        "W2": [
            Belief("before-tanh", (truth.z.T @ truth.dy,)),
            Belief("dx-for-dy", (truth.t.T @ truth.dx,)),
        ],
        "b2": [Belief("dx-for-dy", (truth.dx.sum(axis=0),))],
    }
    yield from try_beliefs(by_name[name], lambda guess: _near(grads[name], guess))
    yield Sign("other-gradient")


def _about_what_is_left(answer: BlockAnswer, truths: Sequence[Inside], params: Mapping[str, Array]) -> Signs:
    """Gradients of weights, made by I; and what the block holds after many micro-batches."""
    for name in MATRICES:
        shape = params[name].shape
        came = f"an array of shape {shape}, that of {name}, is kept for W"
        yield Sign("in-I", shape in answer.left or shape[::-1] in answer.left, "what W needs", came)
    for truth in truths:
        for name, right in truth.grads.items():
            made = any(vector.shape == right.shape and _near(vector, right) for vector in answer.left_vectors)
            yield Sign("small-in-I", made, "what W needs", f"the gradient of {name}", words={"name": name})
    came = f"up to {plural(answer.in_block, 'array')} between two calls"
    yield Sign("kept", answer.in_block > 0 and len(truths) > 4, "nothing in the block", came)


def _shape(value: Any) -> str:
    return f"shape {np.shape(value)}"


def _off(ours: Any, theirs: Array) -> str:
    return off_by(ref.gradient_difference([ours], [theirs]))


def _near(ours: Any, theirs: Array, off: float = 1e-9) -> bool:
    """Whether they agree, up to a share of `off` of the largest value."""
    return bool(ref.gradient_difference([ours], [theirs]) < off)
