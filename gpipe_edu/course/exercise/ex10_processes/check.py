"""Exercise 10: what each process of a pipeline does, judged as several processes that run it.

The learner's function is handed on to processes that the check starts, one for each stage. They note every message and
every op, so the judge knows who waited for whom, and compares gradients with the reference engine on one device.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.distributed import Crew
from gpipe_edu.distributed.training import rank_steps
from gpipe_edu.process.packing import Forwarded
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import balance_uniform, split_batch

from .processes_blame import judge_failure, judge_ops
from .processes_messages import judge_buffers, judge_messages
from .processes_numbers import judge_gradients, judge_loss, judge_weights

TASK: Final = Task(
    key="ex10/processes",
    function="run_stage",
    title="Two processes that send activations and gradients",
    notebook="exercise_10_processes",
    seconds=60.0,
    hints=(
        "Between the F and the B of a micro-batch, two tensors must stay: what went into the stage and what came out. "
        "Keep them in a dict under m. What was received is the start of a graph: call `requires_grad_()` on it, after "
        "it has been received.",
        "An F of process k: get x (from `pieces`, or receive it from k - 1), run the stage, then send the result to "
        "k + 1 or turn it into a loss. A B: receive the gradient of the result from k + 1 (the last process has its "
        "loss instead), `backward`, then send `x.grad` to k - 1.",
        "Send with `handles.append(dist.isend(out.detach(), k + 1))`, and at the very end call `wait()` on all of "
        "them. Buffers: `torch.empty(shapes[m], dtype=torch.float64)` forward, `torch.empty_like(out)` backward. "
        "The loss of micro-batch m counts `shapes[m][0] / N`.",
    ),
)

unpack = Forwarded

_LIMIT: Final = 5.0
"""Seconds for one call, on top of starting the processes."""

_crew = Crew()
"""In the learner's process: waits between two calls, because starting takes long."""


def perform(run_stage: Any, sizes: list[int], weights: list[Any], x: Any, y: Any, schedule: Schedule) -> dict[str, Any]:
    """One training step in processes: what the last one gave back, the gradients, and what all have noted."""
    K, M = schedule.stages, schedule.micro_batches
    xs, ys = split_batch(x, M), split_batch(y, M)
    calls = [
        partial(
            in_process,
            run_stage,
            k,
            K,
            list(schedule.rows[k]),
            [len(piece) for piece in xs],
            sizes,
            weights,
            xs if k == 0 else ys if k == K - 1 else None,
        )
        for k in range(K)
    ]
    try:
        values, diaries = _crew.run(calls, _LIMIT)
    except NotImplementedError:
        raise
    except Exception as error:
        fields = [getattr(error, name, empty) for name, empty in (("reason", ""), ("lines", []), ("seconds", None))]
        return {"failed": (type(error).__name__, str(error), *fields), "diaries": _crew.diaries}
    _, grads, after = zip(*values, strict=True)
    return {"loss": values[-1][0], "grads": list(grads), "weights": list(after), "diaries": diaries}


def in_process(
    run_stage: Any,
    k: int,
    K: int,
    ops: list[Any],
    counts: list[int],
    sizes: list[int],
    weights: list[Any],
    pieces: list[Any] | None,
) -> tuple[Any, list[Any], list[Any]]:
    """In process k: build the stage, make the step; returns its value, the gradients and the weights as arrays."""
    import torch
    from torch import nn

    layers: list[Any] = []
    for index in range(len(sizes) - 1):
        linear = nn.Linear(sizes[index], sizes[index + 1]).double()
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weights[2 * index].T.copy()))
            linear.bias.copy_(torch.from_numpy(weights[2 * index + 1]))
        layers += [linear, nn.Tanh()]
    layers = layers[:-1]
    a, b = list(pairwise(_cuts(len(layers), K)))[k]
    shapes: list[tuple[int, ...]] = [(n, _width(sizes, a)) for n in counts]
    tensors = None if pieces is None else [torch.from_numpy(piece) for piece in pieces]
    stage = nn.Sequential(*layers[a:b])
    value, grads = rank_steps(run_stage, k, K, stage, ops, shapes, tensors, nn.CrossEntropyLoss(), 1)
    value = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
    after = [_array(weight.detach()) for weight in stage.parameters()]
    return value, [None if grad is None else _array(grad) for grad in grads], after


def examine(examiner: Examiner, rng: Random) -> Success:
    """One micro-batch in two processes, several, ragged ones, 1F1B, three processes, and digits at the end."""
    cases = [
        (gpipe(2, 1), 3),
        (gpipe(2, 3), 6),
        (gpipe(2, 3), 7),
        (one_f_one_b(2, 4), 10),
        (gpipe(3, 4), 11),
        (one_f_one_b(3, 5), 13),
    ]
    for recipe, K in ((gpipe, 2), (one_f_one_b, 2), (one_f_one_b, 3)):
        M = rng.randint(K, 7)
        cases.append((recipe(K, M), rng.randint(M, 3 * M)))
    numbers = np.random.default_rng(rng.randrange(2**32))
    for schedule, N in cases:
        sizes = [5, 9, 6, 8, 4]
        x, y = numbers.normal(size=(N, 5)), numbers.integers(0, 4, size=N)
        _one(examiner, rng, sizes, x, y, schedule)
    x, y, _, _ = digits()
    first, schedule = rng.randrange(1000), one_f_one_b(2, 6)
    x, y = np.asarray(x[first : first + 100], dtype=float), np.asarray(y[first : first + 100])
    error = _one(examiner, rng, [64, 48, 32, 10], x, y, schedule)
    words = (
        f"Two processes that share no memory ran your function on 100 handwritten digits, under the schedule below: "
        f"gradients differ from those of one device by at most {error:.0e}. All that one process knew of the other "
        f"came in messages: activations one way, gradients the other."
    )
    return Success(words, (Chart("your two processes", str(schedule)),))


def _one(examiner: Examiner, rng: Random, sizes: list[int], x: Any, y: Any, schedule: Schedule) -> float:
    """Judge one step; returns the error of its gradients."""
    K, M, N = schedule.stages, schedule.micro_batches, len(x)
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))
    weights = [value.copy() for layer in layers for value in layer.params.values()]
    call = f"{K} processes, {schedule.name}, {M} micro-batch{'es' * (M > 1)} of {N} samples in all"
    found = examiner.ask(call, sizes=sizes, weights=weights, x=x, y=y, schedule=schedule)

    def wrong(slip: str, because: str, expected: str = "", came: str = "", difference: str = "", **more: Any) -> Wrong:
        return Wrong(Finding(slip, because, call, expected, came, difference, **more))

    if "failed" in found:
        judge_failure(examiner, found, schedule, call, wrong)
    judge_ops(found["diaries"], schedule, wrong)
    judge_buffers(found["diaries"], wrong)
    cuts = _cuts(len(layers), K)
    judge_weights(found["weights"], layers, cuts, wrong)
    loss, exact = ref.train_sequential(layers, x, y)
    judge_loss(found["loss"], loss, layers, x, y, M, wrong)
    error = judge_gradients(found, layers, exact, x, y, M, cuts, wrong)
    judge_messages(found["diaries"], [N * _width(sizes, cut) for cut in cuts[1:-1]], wrong)
    return error


def _array(tensor: Any) -> Any:
    """As the reference engine has it: a weight is (inputs, outputs)."""
    array = tensor.numpy()
    return array.T.copy() if array.ndim == 2 else array


def _width(sizes: list[int], layer: int) -> int:
    """How many features go into a layer; every other one is a Tanh, which keeps their number."""
    return sizes[(layer + 1) // 2]


def _cuts(layers: int, K: int) -> list[int]:
    return [0, *accumulate(balance_uniform(layers, K))]
