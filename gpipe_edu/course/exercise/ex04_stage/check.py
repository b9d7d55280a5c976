"""Exercise 04, first part: a stage in NumPy that keeps only its inputs and computes the rest again.

The learner's stages run as a pipeline in their own process, which counts what they hold and how often they compute;
gradients are judged against the whole network on one device.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import split_batch

from .networks import distance

TASK: Final = Task(
    key="ex04/stage",
    function="Stage",
    title="Re-materialization by hand",
    notebook="exercise_04_rematerialization",
    hints=(
        "What must be there when the gradient comes? The layers' `saved` can be had again from the stage's input. So "
        "`forward` keeps one array per micro-batch, under its number, in `self.kept`.",
        "`backward` first runs the layers forward once more from the kept input, this time collecting `saved` of every "
        "layer in a list. Then it walks the layers from the last to the first.",
        "For each layer, last first: `dy, grads = layer.backward(dy, saved)`, and add `grads[name]` to "
        "`self.grads[index][name]`. `self.kept.pop(m)` gives the input and forgets it at once.",
    ),
)


def perform(Stage: Any, sizes: list[int], seed: int, x: Any, y: Any, schedule: Schedule) -> Any:
    """Run `schedule` with the learner's stages. What came out, and what was held and computed on the way."""
    layers = ref.mlp(sizes, activation="tanh", seed=seed)
    K, M, calls = schedule.stages, schedule.micro_batches, [0]
    for layer in layers:
        _count(layer, calls)
    cut = [len(layers) * k // K for k in range(K + 1)]
    groups = [layers[a:b] for a, b in pairwise(cut)]
    stages = [Stage(list(group)) for group in groups]
    xs, ys = split_batch(x, M), split_batch(y, M)
    outputs: dict[tuple[int, int], Any] = {(m, -1): xs[m].copy() for m in range(M)}
    gradients: dict[tuple[int, int], Any] = {}
    inputs: dict[tuple[int, int], int] = {}
    loss, shapes, worst = 0.0, [], 0.0
    forward_calls = backward_calls = 0
    for _, (kind, m, k), _ in schedule.steps:
        before = calls[0]
        if kind == "F":
            given = outputs[m, k - 1]
            inputs[m, k] = given.nbytes
            outputs[m, k] = stages[k].forward(m, given)
            forward_calls += calls[0] - before
            if not isinstance(outputs[m, k], np.ndarray):
                return {"bad": "forward", "value": outputs[m, k]}
            if k == K - 1:
                part, dy = ref.cross_entropy(outputs[m, k], ys[m])
                share = len(ys[m]) / len(y)
                loss, gradients[m, K] = loss + share * part, share * dy
        else:
            gradients[m, k] = stages[k].backward(m, gradients[m, k + 1])
            backward_calls += calls[0] - before
            inputs.pop((m, k))
            if not isinstance(gradients[m, k], np.ndarray):
                return {"bad": "backward", "value": gradients[m, k]}
            shapes.append((gradients[m, k].shape, outputs[m, k - 1].shape))
        held, allowed = _held(stages[k], groups[k]), sum(size for (_, s), size in inputs.items() if s == k)
        worst = max(worst, held - allowed)
    return {
        "bad": "",
        "loss": loss,
        "grads": [[dict(grads) for grads in stage.grads] for stage in stages],
        "left": sum(_held(stage, group) for stage, group in zip(stages, groups, strict=True)),
        "worst": worst,
        "forward_calls": forward_calls,
        "backward_calls": backward_calls,
        "shapes": shapes,
        "dx": np.concatenate([gradients[m, 0] for m in range(M)]),
    }


def examine(examiner: Examiner, rng: Random) -> Success:
    """One stage and one micro-batch, then several of both, in two schedules; the digits at the end."""
    cases = [(1, 1, 4), (1, 3, 6), (2, 4, 10), (3, 5, 11)]
    cases += [(rng.randint(1, 3), rng.randint(2, 6), rng.randint(6, 14)) for _ in range(3)]
    numbers = np.random.default_rng(rng.randrange(2**32))
    for index, (K, M, N) in enumerate(cases):
        for schedule in (gpipe(K, M), one_f_one_b(K, M)):
            x, y = numbers.normal(size=(N, 5)), numbers.integers(0, 4, size=N)
            # Wrong gradients first, whatever is held: they say more about the idea.
            _one(examiner, rng, [5, 7, 6, 8, 4], x, y, schedule, memory=index > 2)
    x, y, _, _ = digits()
    first = rng.randrange(1000)
    schedule = one_f_one_b(3, 6)
    x, y = np.asarray(x[first : first + 48], dtype=float), np.asarray(y[first : first + 48])
    error = _one(examiner, rng, [64, 32, 32, 32, 10], x, y, schedule)
    words = (
        f"Then three of your stages were a pipeline and trained 48 handwritten digits: gradients differ from those of "
        f"one device by at most {error:.0e}, and between forward and backward a micro-batch never had more than its "
        f"stage's input in memory. The plan shows the recompute as part of C."
    )
    rows = str(schedule).replace("B", "C")
    return Success(words, (Chart("your stages under 1F1B", rows),))


def _one(
    examiner: Examiner, rng: Random, sizes: list[int], x: Any, y: Any, schedule: Schedule, memory: bool = True
) -> float:
    """Judge one run; returns the error of its gradients."""
    seed = rng.randrange(1000)
    K, M = schedule.stages, schedule.micro_batches
    call = f"{K} stage{'s' * (K > 1)}, {M} micro-batch{'es' * (M > 1)}, {schedule.name}"
    traps = {
        "KeyError": (
            "key",
            "A micro-batch was looked up that is not there. Each is kept under its number m from forward to backward.",
        )
    }
    found = examiner.ask(call, traps, sizes=sizes, seed=seed, x=x, y=y, schedule=schedule)

    def wrong(slip: str, because: str, expected: str = "", came: str = "") -> Wrong:
        return Wrong(Finding(slip, because, call, expected, came))

    if found["bad"]:
        because = (
            f"`{found['bad']}` gives back an array: forward the output, backward the gradient of the stage's input."
        )
        slip = f"no-array-{found['bad']}"
        raise wrong(slip, because, "an array", type(found["value"]).__name__)
    layers = ref.mlp(sizes, activation="tanh", seed=seed)
    loss, exact = ref.train_sequential(layers, x, y)
    if not abs(found["loss"] - loss) < 1e-9:
        because = "The forward gives another output than the layers one after another."
        raise wrong("other-output", because, f"loss {loss:.6f}", f"loss {found['loss']:.6f}")
    if any(ours != theirs for ours, theirs in found["shapes"]):
        because = "What backward gives back has another shape than the stage's input: it is the gradient of that input."
        raise wrong("other-shape", because)
    _judge_gradients(found, layers, exact, x, y, M, wrong)
    layer_runs = len(layers) * M
    if memory and found["worst"] > 0:
        because = (
            "More is kept than the stage's inputs. From forward to backward, nothing else may stay: not what the "
            "layers saved, and not their outputs."
        )
        if found["left"]:
            because = (
                "A finished micro-batch is still there after its backward: it has to be forgotten, or memory fills up."
            )
            raise wrong("never-freed", because, "0 bytes after the last backward", f"{found['left']} bytes")
        raise wrong("keeps-more", because, "only the inputs", f"{found['worst']} bytes more")
    if found["forward_calls"] > layer_runs:
        because = "The forward runs its layers more than once. The second time belongs to the backward."
        raise wrong("twice-forward", because, f"{layer_runs} runs of a layer", f"{found['forward_calls']}")
    if found["backward_calls"] > layer_runs:
        because = "The backward runs layers forward more often than once each: one recompute brings everything back."
        raise wrong("too-many-recomputes", because, f"{layer_runs} runs of a layer", f"{found['backward_calls']}")
    if memory and found["backward_calls"] < layer_runs:
        because = (
            "The backward does not run all its layers forward again, so what they saved must have been kept somewhere "
            "outside the stage. It counts there, too."
        )
        raise wrong("kept-elsewhere", because, f"{layer_runs} runs of a layer", f"{found['backward_calls']}")
    flat = [grads for stage in found["grads"] for grads in stage]
    return _error(flat, exact)


def _judge_gradients(found: Any, layers: Any, exact: Any, x: Any, y: Any, M: int, wrong: Blame) -> None:
    flat = [grads for stage in found["grads"] for grads in stage]
    expected = "the gradients of one device"
    if len(flat) != len(exact) or any(set(a) != set(b) for a, b in zip(flat, exact, strict=True)):
        raise wrong("other-grads", "`self.grads` has lost its form: one dict per layer, with the names of its weights.")
    error = _error(flat, exact)
    if error < 1e-9:
        return
    came = f"off by {error:.1%}"
    if all(not np.any(value) for grads in flat for value in grads.values()):
        raise wrong(
            "no-gradients", "`self.grads` is still zero: backward has to add the weights' gradients.", expected, came
        )
    parts = []
    for a, b in split_batch((x, y), M):
        share = len(a) / len(x)
        grads = ref.train_sequential(layers, a, b)[1]
        parts.append([{name: share * value for name, value in layer.items()} for layer in grads])
    for part in parts:
        if M > 1 and _error(flat, part) < 1e-9:
            because = "Only one micro-batch's gradients are there: each replaces the one before. They have to add up."
            raise wrong("not-added", because, expected, came)
    if M > 1:
        because = (
            "With one micro-batch the gradients are right, with several they are not. Was each recomputed from its own "
            "input? The last one to go forward is not always the one that comes back."
        )
        raise wrong("other-input", because, expected, came)
    because = "The gradients are wrong even with one micro-batch: walk the layers backwards, each with its own `saved`."
    raise wrong("other-gradient", because, expected, came)


def _error(ours: Any, theirs: Any) -> float:
    pairs = [(a[name], b[name]) for a, b in zip(ours, theirs, strict=True) for name in b]
    return distance([a for a, _ in pairs], [b for _, b in pairs])


def _count(layer: Any, calls: list[int]) -> None:
    """Make the layer count its forwards."""
    forward = layer.forward

    def counted(x: Any) -> Any:
        calls[0] += 1
        return forward(x)

    layer.forward = counted


def _held(stage: Any, layers: Any) -> int:
    """Bytes of all arrays that a stage holds, besides its layers and its gradients."""
    skip = {id(value) for layer in layers for value in layer.params.values()}
    skip |= {id(value) for grads in stage.grads for value in grads.values()}
    found: dict[int, int] = {}
    waiting: list[Any] = [value for name, value in vars(stage).items() if name != "grads"]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or id(value) in skip:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            found[id(value)] = value.nbytes
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif hasattr(value, "__dict__") and not isinstance(value, ref.Layer):
            waiting += vars(value).values()
        elif hasattr(value, "__closure__") and value.__closure__:
            waiting += [cell.cell_contents for cell in value.__closure__]
    return sum(found.values())
