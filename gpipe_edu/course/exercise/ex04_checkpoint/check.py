"""Exercise 04, second part: torch.utils.checkpoint on stages, judged by what runs again and by what stays in memory.

Values and gradients are judged against NumPy, with the dropout masks that were drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner, Traps
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits

from .networks import Array, Item, distance, in_numpy, train
from .reruns import judge_reruns
from .witness import Network, Place
from .witness import perform as perform

TASK: Final = Task(
    key="ex04/checkpoint",
    function="forward",
    title="Re-materialization in PyTorch",
    notebook="exercise_04_rematerialization",
    seconds=30.0,
    hints=(
        "`checkpoint` is called like a function that calls your function: it takes the stage itself, not the stage's "
        "output, and after it the input. One call for each stage that is to run again.",
        "Loop over `zip(stages, again)`. Where `more` is False, it is the plain `stage(x)`. The images need no "
        "gradient, so `use_reentrant=False`: the older kind follows its inputs only, and forgets the weights.",
        "For each stage: `x = checkpoint(stage, x, use_reentrant=False)` if it is to run again, else `x = stage(x)`; "
        "at the end `return x`. Random state and evaluation need nothing more.",
    ),
)

_TRAPS: Final[Traps] = {
    "CheckpointError": (
        "other-recompute",
        "In the backward, something else ran than in the forward. A function that is run again has to find the same "
        "input: the tensor that `checkpoint` hands it, not a variable that has changed since.",
    )
}


def examine(examiner: Examiner, rng: Random) -> Success:
    """Four stages of which one keeps all; then others, dropout, evaluation, an input with a gradient; the digits."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    cases = [([True, False, True, True], 0.0), ([True] * 3, 0.5), ([False] * 2, 0.0), ([True], 0.3)]
    cases += [([rng.random() < 0.6 for _ in range(rng.randint(1, 4))], rng.choice([0.0, 0.4])) for _ in range(4)]
    for index, (again, p) in enumerate(cases):
        stages = [_stage(numbers, [5, 5, 5], p) for _ in again]
        x, dy = numbers.normal(size=(2, rng.randint(6, 9), 5))  # enough values that no two draws are alike
        _one(examiner, rng, stages, x, dy, again, follow=index % 2 == 1)
        _evaluate(examiner, rng, stages, x, again)
    return _digits(examiner, rng)


def _stage(numbers: np.random.Generator, sizes: Sequence[int], p: float) -> list[Item]:
    """Linear, Tanh and, if p, Dropout; a Tanh at the end, which keeps its own output, so that nothing is cut short."""
    items: list[Item] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        items += [(numbers.normal(size=(inputs, outputs)) / inputs**0.5, numbers.normal(size=outputs)), None]
        items += [p] if p and index == 0 else []
    return items


def _one(
    examiner: Examiner, rng: Random, stages: Network, x: Array, dy: Array, again: list[bool], follow: bool
) -> tuple[float, int]:
    """Judge one step; returns the error of its gradients, and how many bytes of layers' outputs were kept."""
    call = f"forward(stages, x, again={again})" + " with dropout" * any(isinstance(item, float) for item in stages[0])
    given: dict[str, Any] = {"stages": stages, "x": x, "dy": dy, "again": again, "trains": True}
    seed = rng.randrange(1000)
    found = _asked(examiner, call, **given, seed=seed, follow=follow)

    def wrong(slip: str, because: str, expected: str = "", came: str = "") -> Wrong:
        return Wrong(Finding(slip, because, call, expected, came))

    _judge_input(found, x, follow, wrong)
    masks = _masks(found)
    if any((mask == 1).any() for mask in masks.values()):  # what is kept is made larger
        because = (
            "Dropout drops nothing: a stage was put into evaluation. That makes both runs alike, and trains another "
            "network than the one that was given."
        )
        raise wrong("dropout-off", because)
    places = [(item, masks.get((k, i))) for k, items in enumerate(stages) for i, item in enumerate(items)]
    output, grads, dx = train([in_numpy(*place) for place in places], x, dy)
    if found["output"].shape != output.shape or not np.allclose(found["output"], output, rtol=1e-9, atol=1e-9):
        because = "The output is not that of the stages one after another. A stage that keeps all still has to run."
        raise wrong("other-output", because, _row(output), _row(found["output"]))
    if max(Counter(found["runs"]).values()) > 1:
        because = "Layers run twice in the forward already. The second time belongs to the backward, when it is needed."
        raise wrong("twice-forward", because, "each layer once", "some layers twice")
    if any(gradient is None for gradient in found["grads"]):
        followed = _asked(examiner, call, **given, seed=0, follow=True)
        raise _no_gradient(stages, found, followed, wrong)
    judge_reruns(stages, found["reruns"], again, wrong)
    inside = [(k, i) for k, i, _ in found["kept"] if again[k] and i < len(stages[k]) - 1]
    if inside:
        because = "The inside of a stage that runs again is still in memory after its forward: something holds it."
        came = f"the output of layer {inside[0][1]} in stage {inside[0][0]} is still there"
        raise wrong("interior-kept", because, "only inputs of such stages", came)
    if any(not np.array_equal(masks[place], drawn[-1]) for place, drawn in found["masks"].items()):
        because = (
            "Dropout drew other numbers the second time, so the gradients belong to another network than the output. "
            "The random state of the forward has to be there again."
        )
        raise wrong("other-dropout", because)
    if masks and _same(masks, _masks(_asked(examiner, call, **given, seed=seed + 1, follow=follow))):
        because = (
            "Dropout draws the same numbers in every step, because the function sets a seed. The second run has to "
            "repeat the first one, and the next step has to draw anew."
        )
        raise wrong("same-every-step", because)
    if follow and found["dx"] is None:
        because = "The input requires a gradient here and gets none: in a pipeline, it goes to the stage in front."
        raise wrong("no-input-gradient", because, "x.grad", "None")
    error = distance([*found["grads"], found["dx"]], [*grads, dx]) if follow else distance(found["grads"], grads)
    if not error < 1e-9:
        raise wrong("other-gradient", "The gradients are not those of the plain stages.", "", f"off by {error:.1%}")
    return error, sum(size for _, _, size in found["kept"])


def _asked(examiner: Examiner, call: str, **given: Any) -> Any:
    """What came, when it is a tensor."""
    answer = examiner.answer(**given)
    trouble = answer.trouble
    if trouble and trouble.kind == "TypeError" and "'Tensor' object is not callable" in trouble.message:
        because = (
            "`checkpoint` got a tensor, because the stage had run before `checkpoint` was called. It must call the "
            "stage itself: hand over `stage` and `x` apart."
        )
        raise Wrong(Finding("called-too-early", because, call, trouble=trouble))
    if trouble:
        examiner.fail(trouble, call, _TRAPS)
    found = answer.value
    if found["bad"]:
        because = "The answer is one tensor, the output of the last stage."
        raise Wrong(Finding("no-tensor", because, call, "a tensor", f"a {found['bad']}"))
    return found


def _masks(found: Any) -> dict[Place, Array]:
    """What each Dropout drew in the forward."""
    return {place: drawn[0] for place, drawn in found["masks"].items()}


def _same(masks: dict[Place, Array], others: dict[Place, Array]) -> bool:
    return all(np.array_equal(mask, others[place]) for place, mask in masks.items())


def _judge_input(found: Any, x: Array, follow: bool, wrong: Blame) -> None:
    requires, values = found["input"]
    if requires != follow or not np.array_equal(values, x):
        because = (
            "`x` was changed. If it is made to require a gradient, every step computes one for the images, which "
            "nobody wants. Leave `x` as it is; there is a kind of checkpoint that needs no such trick."
        )
        raise wrong("input-changed", because, f"requires_grad={follow}", f"requires_grad={requires}")


def _no_gradient(stages: Network, found: Any, followed: Any, wrong: Blame) -> Wrong:
    """Why some weights got no gradient; followed: what came when the input required one."""
    owners = [k for k, items in enumerate(stages) for item in items if isinstance(item, tuple) for _ in item]
    lost = sorted({k for k, gradient in zip(owners, found["grads"], strict=True) if gradient is None})
    expected, came = "gradients for all weights", f"none for stage {', '.join(map(str, lost))}"
    if not any(gradient is None for gradient in followed["grads"]):
        because = (
            "The first stage learns nothing unless x itself requires a gradient, and images don't. That is the older "
            "kind of checkpoint, `use_reentrant=True`: it asks the inputs only, and never sees the weights."
        )
        return wrong("needs-input-gradient", because, expected, came)
    if set(lost) & set(found["blind"]):
        because = (
            "Layers ran under `no_grad`, and nothing runs them again later. Memory is saved, but the way back is gone: "
            "`checkpoint` remembers the input, and runs the stage again with a graph."
        )
        return wrong("no-grad-for-good", because, expected, came)
    because = (
        "Some weights get no gradient: the way back to them is cut, by a `detach` or because a copy ran instead. "
        "Re-materialization forgets values, never who made them."
    )
    return wrong("detached", because, expected, came)


def _evaluate(examiner: Examiner, rng: Random, stages: Network, x: Array, again: list[bool]) -> None:
    """Under no_grad there is no way back, and nothing to keep for it."""
    call = f"with torch.no_grad(): forward(stages, x, again={again})"
    dy = np.zeros_like(x)
    given = {"stages": stages, "x": x, "dy": dy, "again": again, "seed": rng.randrange(1000)}
    found = _asked(examiner, call, **given, trains=False, follow=False)
    output, _, _ = train([in_numpy(item) for item in chain(*stages)], x, dy)
    if found["graph"] or found["kept"]:
        because = "In evaluation nobody goes back, yet a graph is built: `no_grad` is overruled inside."
        raise Wrong(Finding("graph-in-evaluation", because, call, "no graph", "requires_grad=True"))
    if len(found["runs"]) != sum(map(len, stages)) or not np.allclose(found["output"], output, rtol=1e-9, atol=1e-9):
        because = "In evaluation every layer runs once, in its own mode, and the output is that of the plain stages."
        raise Wrong(Finding("other-in-evaluation", because, call))


def _digits(examiner: Examiner, rng: Random) -> Success:
    """A deep network on the digits: what it keeps with and without, and its gradients beside the pipeline engine's."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    data, first = digits(), rng.randrange(1000)
    x, y = np.asarray(data.x_train[first : first + 64], dtype=float), np.asarray(data.y_train[first : first + 64])
    stages = [_stage(numbers, sizes, 0.0) for sizes in ([64, 32, 32, 32], [32, 32, 32, 32], [32, 32, 32, 10])]
    _, dy = ref.cross_entropy(ref.predict([in_numpy(item) for item in chain(*stages)], x), y)
    kept = [_one(examiner, rng, stages, x, dy, [more] * 3, follow=False) for more in (False, True)]
    words = (
        f"Then 64 handwritten digits went through three stages of six layers. After the forward, {kept[0][1]:,} bytes "
        f"of layers' outputs were there without re-materialization and {kept[1][1]:,} with it; gradients differ from "
        f"those of NumPy by {kept[1][0]:.0e}. Each C in the plan is one of your stages that runs again and goes back."
    )
    return Success(words, (Chart("one micro-batch, all stages run again", "F0 C0\n" * 3),))


def _row(value: Array) -> str:
    return f"shape {value.shape}, first row " + ", ".join(f"{number:.4f}" for number in np.atleast_2d(value)[0][:4])
