"""Exercise 05, second part: a module that runs its net as a pipeline, so that one backward fills every gradient.

The learner's pipeline gets a network whose layers write down who calls them (wrapper_net.py). The calls become a
schedule (wrapper_calls.py), and gradients are held against one device (wrapper_gradients.py).
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner, Traps
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.schedule import Schedule

from .wrapper_calls import judge_count, read
from .wrapper_gradients import Array, judge_gradients, off, one_device
from .wrapper_output import judge_form, judge_keys, judge_module, judge_values, no_graph
from .wrapper_perform import Batch
from .wrapper_perform import perform as perform
from .wrapper_recompute import judge_recompute

TASK: Final = Task(
    key="ex05/wrapper",
    function="MyGPipe",
    title="The GPipe wrapper",
    notebook="exercise_05_wrapper",
    seconds=30.0,
    hints=(
        "Write it without `checkpoint` first. `__init__` registers net's layers under their names and remembers the "
        "stages and M. `forward` keeps a list of micro-batches; when stage k has run, its output takes the place of "
        "its input in that list.",
        "Cut x, and leave out empty pieces; from here on, M is how many there are. Then for every tick t and every "
        "stage k: m = t - k, and if there is such a micro-batch, `pieces[m]` goes through stage k. At the end, join.",
        "In the loop, with PyTorch's function: `pieces[m] = checkpoint(stage, pieces[m], use_reentrant=False)` if the "
        'mode is "always", or if it is "except_last" and m < len(pieces) - 1; else `pieces[m] = stage(pieces[m])`.',
    ),
)

HIDDEN: Final = {"gpipe_edu.pytorch.GPipe": TASK.function}

_TRAPS: Final[Traps] = {
    "CheckpointError": (
        "other-recompute",
        "In the backward, `checkpoint` found another computation than in the forward: is something in your function "
        "looked up when it runs, such as `k` or `pieces[m]` in a lambda? By then the loop has gone on.",
    )
}


def _silent(_: Any) -> str:
    return "no error"


def examine(examiner: Examiner, rng: Random) -> Success:
    """Without recompute, with it, ragged and tiny batches, dropout, evaluation; then the digits."""
    even, small = [5, 5, 5, 5, 5], [5, 6, 7, 6, 4]
    # Layers of one width first: a micro-batch that takes a wrong way gets through, and the calls tell where it was.
    _one(examiner, rng, even, [3, 2, 2], 4, [8, 8], "never")
    _one(examiner, rng, small, [3, 2, 2], 4, [10, 5], "never")
    _one(examiner, rng, small, [3, 2, 2], 4, [12], "except_last")
    _one(examiner, rng, small, [2, 4, 1], 5, [9], "always")
    _one(examiner, rng, small, [3, 4], 3, [8], "except_last", trains_x=True)
    _one(examiner, rng, small, [4, 3], 6, [3, 13], "except_last")
    _one(examiner, rng, small, [7], 3, [7], "except_last")
    _one(examiner, rng, small, [2, 2, 2, 1], 1, [4], "except_last")
    for _ in range(3):
        cuts = sorted(rng.sample(range(1, 7), rng.randint(0, 3)))
        balance = [b - a for a, b in zip([0, *cuts], [*cuts, 7], strict=True)]
        sizes = [rng.randint(1, 14), rng.randint(1, 14)]
        _one(examiner, rng, small, balance, rng.randint(1, 6), sizes, rng.choice(["never", "except_last", "always"]))
    weights = _weights(ref.mlp(small))
    for names, which in (("", ""), ("abcdefg", ", net with layers a to g")):
        call = f"list(MyGPipe(net, [4, 3], 2).state_dict()){which}"
        found = examiner.ask(call, weights=weights, balance=[4, 3], M=2, checkpoint="never", batches=[], names=names)
        ours, theirs = found["keys"]
        judge_keys(ours, theirs, _blame(call))
    _without_training(examiner, rng, small)
    _dropout(examiner, rng)
    because = "A mode that does not exist was accepted. Who misspells it would train for days without recompute."
    call, typed = 'MyGPipe(net, [4, 3], 2, checkpoint="exceptlast")', "exceptlast"
    given: dict[str, Any] = {"weights": weights, "M": 2, "batches": []}
    examiner.refuses(call, "any-mode", because, _silent, balance=[4, 3], checkpoint=typed, **given)
    because = "A balance that does not fit `net` was accepted: layers would be skipped in silence."
    call = "MyGPipe(net, [4, 2], 2)"
    examiner.refuses(call, "any-balance", because, _silent, balance=[4, 2], checkpoint="never", **given)
    return _digits(examiner, rng)


def _one(
    examiner: Examiner,
    rng: Random,
    sizes: list[int],
    balance: list[int],
    M: int,
    samples: list[int],
    checkpoint: str,
    trains_x: bool = False,
) -> None:
    """One pipeline, one mini-batch for each of `samples`, whose gradients add up."""
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(1000))
    batches = [_batch(rng, N, sizes) for N in samples]
    weights, name = _weights(layers), _name(balance, M, checkpoint)
    given: dict[str, Any] = {"balance": balance, "M": M, "checkpoint": checkpoint, "trains_x": trains_x}
    first = f"{name}, called with {_count(samples[0])}"
    found = examiner.ask(first, _TRAPS, weights=weights, batches=batches, **given)
    judge_module(found, len(weights), _blame(name))
    before: list[Array] = [np.zeros_like(part) for part in weights]
    for index, ((x, y), step) in enumerate(zip(batches, found["steps"], strict=True)):
        call = f"{name}, called with {_count(len(x))}{', after another mini-batch' * (index > 0)}"
        wrong = _blame(call)
        truth = one_device(layers, x, y)
        judge_form(step["output"], truth.output, wrong)
        if index:
            judge_count(step["calls"], samples[index - 1], len(x), M, wrong)
        ran = read(step["calls"], balance, len(x), M, wrong)
        judge_values(step["output"], truth.output, step["changed"], wrong)
        if not step["graph"]:
            raise no_graph(checkpoint, wrong)
        judge_gradients(step["grads"], before, truth, layers, balance, (x, y), M, checkpoint, wrong)
        if trains_x and off([step["dx"]], [truth.dx]) > 1e-9:
            because = (
                "The weights' gradients are right, that of x is not. x may be the output of other layers, which learn "
                "from it."
            )
            raise wrong("no-input-gradient", because, "x.grad as on one device", "none" if step["dx"] is None else "")
        judge_recompute(ran, len(balance), M, checkpoint, wrong)
        before = [part if part is not None else old for part, old in zip(step["grads"], before, strict=True)]
    held = found["steps"][-1]["held"]
    if held:
        because = (
            "After the step, activations are still held. They fill the device until the next mini-batch comes; "
            "keep them in variables of `forward`, not in the pipeline."
        )
        raise _blame(first)("holds-activations", because, "none after the step", f"{held} tensors")


def _without_training(examiner: Examiner, rng: Random, sizes: list[int]) -> None:
    """No graph under no_grad, and eval reaches every layer."""
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(1000))
    flat, y = _batch(rng, 14, sizes)
    truth = ref.predict(layers, flat)
    given: dict[str, Any] = {"weights": _weights(layers), "M": 3, "checkpoint": "except_last"}
    for mode, balance, shape, call in (
        ("no grad", [3, 2, 2], (14,), "with torch.no_grad(): pipe(x)"),
        ("no grad", [3, 2, 2], (7, 2), "with torch.no_grad(): pipe(x), x of shape (7, 2, 5)"),
        ("eval", [4, 3, 3], (14,), "pipe.eval(); pipe(x), for a net with dropout"),
    ):
        wrong = _blame(call)
        batches = [(flat.reshape(*shape, -1), y)]
        given |= {"balance": balance, "mode": mode, "dropout": 0.5 * (mode == "eval"), "batches": batches}
        (step,) = examiner.ask(call, _TRAPS, **given)["steps"]
        exact = truth.reshape(*shape, -1)
        judge_form(step["output"], exact, wrong)
        if mode == "no grad" and (step["graph"] or any(grad for _, _, _, _, grad, _ in step["calls"])):
            because = "A graph was built under `no_grad`. Who only wants answers should not pay for activations."
            raise wrong("graph-under-no-grad", because, "no graph", "a graph")
        if mode == "eval" and off([step["output"]], [exact]) > 1e-9:
            because = "After `pipe.eval()` some layer still behaves as in training: dropout still drops."
            raise wrong("never-evaluates", because, "the output of net.eval()", "other values")
        judge_values(step["output"], exact, step["changed"], wrong)
        whole = sum(layer == 0 for _, layer, *_ in step["calls"]) == 1
        if whole and mode == "no grad" and len(shape) == 1:
            because = (
                "Without a graph the whole batch went through in one piece. A batch that is too large for the devices "
                "is so in evaluation, too, and only micro-batches let them work at the same time."
            )
            raise wrong("only-training-cut", because, "3 micro-batches", "1")
        if whole and len(shape) > 1:
            because = (
                "An x with more than two axes went through in one piece. Whatever shape a sample has, the first axis "
                "counts them, and the batch is cut along it."
            )
            raise wrong("only-rows-cut", because, "3 micro-batches", "1")
        read(step["calls"], balance, shape[0], 3, wrong)


def _dropout(examiner: Examiner, rng: Random) -> None:
    """What was dropped in the forward is dropped in the recompute, and differs between micro-batches."""
    sizes = [5, 24, 24, 4]
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(1000))
    call = 'a net with dropout, M=4, checkpoint="always", forward and backward'
    given: dict[str, Any] = {
        "weights": _weights(layers),
        "balance": [4, 3],
        "M": 4,
        "checkpoint": "always",
        "dropout": 0.5,
    }
    found = examiner.ask(call, _TRAPS, batches=[_batch(rng, 8, sizes)], **given)
    wrong = _blame(call)
    first: dict[tuple[int, tuple[float, ...]], str] = {}
    for kind, layer, numbers, _, _, dropped in found["steps"][0]["calls"]:
        if kind == "dropped, F":
            first[layer, tuple(numbers)] = dropped
        elif kind == "dropped, R" and dropped != first.get((layer, tuple(numbers))):
            because = (
                "The recompute drops other values than the forward did, so the gradients belong to a network that "
                "never ran. The random state has to be brought back."
            )
            raise wrong("other-dropout", because, "the same values dropped twice", "others")
    drawn = [(layer, dropped) for (layer, _), dropped in first.items()]
    if len(drawn) < 4 * 2 or not any("1" in dropped for _, dropped in drawn):
        because = "In training, dropout does not drop anything here. Who has switched the layers to evaluation?"
        raise wrong("no-dropout", because)
    if any(a == b for a, b in combinations(drawn, 2)):
        because = "All micro-batches drop the same values: the random state is set anew for each of them."
        raise wrong("same-dropout", because)


def _digits(examiner: Examiner, rng: Random) -> Success:
    """Ten steps on digits; then the calls of the last one become a schedule, and the NumPy engine runs that."""
    data, sizes, balance = digits(), [64, 24, 24, 24, 10], [3, 2, 2]
    rows = np.random.default_rng(rng.randrange(2**32)).permutation(len(data.x_train))[:500].reshape(10, 50)
    batches = [(np.asarray(data.x_train[row], dtype=float), np.asarray(data.y_train[row])) for row in rows]
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(1000))
    given: dict[str, Any] = {
        "weights": _weights(layers),
        "balance": balance,
        "M": 4,
        "checkpoint": "except_last",
        "rate": 0.1,
    }
    call = "ten steps on the digits, 50 samples each, M=4"
    found = examiner.ask(call, _TRAPS, batches=batches, **given)
    optimizer, wrong = ref.SGD(layers, learning_rate=0.1, momentum=0.5), _blame(call)
    schedule = Schedule([])
    for (x, y), step in zip(batches, found["steps"], strict=True):
        schedule = read(step["calls"], balance, len(x), 4, wrong).schedule(len(balance))
        loss, exact = ref.train_sequential(layers, x, y)
        if not isinstance(step["loss"], float) or abs(step["loss"] - loss) > 1e-9:
            raise wrong(
                "drift", "On the digits, your pipeline and one device drift apart.", f"{loss:.6f}", step["loss"]
            )
        optimizer.step(exact)
    problems = schedule.problems()
    if problems:
        raise wrong(
            "cannot-run", f"As a schedule for {len(balance)} devices, your calls cannot run: {problems[0].message}."
        )
    grads = ref.train_pipeline(layers, x, y, schedule, balance=balance).grads
    exact = ref.train_sequential(layers, x, y)[1]
    error = max(off(list(a.values()), list(b.values())) for a, b in zip(grads, exact, strict=True))
    words = (
        f"Your pipeline trained on 500 handwritten digits in ten steps, and every loss is that of one device. The "
        f"chart is made of the calls that your last step really made, planned for three devices: C is a backward that "
        f"recomputes. The schedule doctor finds nothing wrong with it, and the NumPy engine ran it: gradients differ "
        f"by {error:.0e}."
    )
    return Success(words, (Chart("your calls, a device for each stage", str(schedule)),))


def _blame(call: str) -> Blame:
    def wrong(slip: str, because: str, expected: str = "", came: str = "", charts: tuple[Chart, ...] = ()) -> Wrong:
        return Wrong(Finding(slip, because, call, expected, came, charts=charts))

    return wrong


def _name(balance: list[int], M: int, checkpoint: str) -> str:
    return f'MyGPipe(net, {balance}, M={M}, checkpoint="{checkpoint}")'


def _count(samples: int) -> str:
    return f"{samples} sample{'s' * (samples != 1)}"


def _batch(rng: Random, N: int, sizes: list[int]) -> Batch:
    numbers = np.random.default_rng(rng.randrange(2**32))
    return numbers.normal(size=(N, sizes[0])), numbers.integers(0, sizes[-1], size=N)


def _weights(layers: Any) -> list[Array]:
    return [value.copy() for layer in layers for value in layer.params.values()]
