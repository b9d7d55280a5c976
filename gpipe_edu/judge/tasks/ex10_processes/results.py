"""Signs in a loss, gradients or weights that are not those of one device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.base.words import percent, plural
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.judge import weighting
from gpipe_edu.judge.case import Sign, Signs, try_beliefs
from gpipe_edu.judge.networks import arrays_of_items

from .step_run import StepRun


def about_weights(run: StepRun) -> Signs:
    """The step left the weights as they were."""
    for k, stage in enumerate(run.stages):
        before = arrays_of_items(run.others[stage])
        change = ref.gradient_difference(run.processes[k].weights, before)
        expected, came = f"process {k}: the weights as they were", f"changed by {percent(change)}"
        yield Sign("weights-changed", change > 0, expected=expected, came=came)


def about_what_is_left(run: StepRun) -> Signs:
    """Nothing stays for the next step."""
    for k, process in enumerate(run.processes):
        came = f"process {k}: {plural(process.left, 'result')} in memory"
        yield Sign("left-behind", process.left > 0, words={"what": "results of forwards"}, came=came)
        came = f"process {k}: {plural(process.hooks, 'hook')} more"
        yield Sign("left-behind", process.hooks > 0, words={"what": "hooks on the stage"}, came=came)


def about_loss(run: StepRun) -> Signs:
    """The last process gave back the mini-batch's mean loss."""
    yield Sign("no-return", run.loss is None)
    yield Sign("no-loss", isinstance(run.loss, str))
    yield Sign("own-loss", not any("loss" in entry for entry in run.diaries[-1]))
    if abs(run.loss - run.true_loss) < 1e-9:
        return
    beliefs = weighting.beliefs_about_losses(run.parts(run.K - 1, "F"))
    yield from try_beliefs(beliefs, lambda guess: abs(run.loss - guess) < 1e-9)
    yield Sign("rounded", abs(run.loss - run.true_loss) < 1e-6)
    yield Sign("other-loss")


def about_gradients(run: StepRun, k: int) -> Signs:
    """Of stage k, where the loss is right, and the gradients of the stages behind it."""
    ours, came_back = run.processes[k].grads, run.processes[k].came_back
    theirs, is_last = run.true_grads(k), k == run.K - 1
    if run.errors[k] < 1e-10:
        return
    if not is_last:
        yield Sign("zeros-came-back", not any(came_back))
        yield Sign("some-zeros-came-back", not all(came_back))
    yield Sign("emptied", all(grad is None or not np.any(grad) for grad in ours))
    yield Sign("rounded", run.errors[k] < 1e-6)
    factor = weighting.factor_of(ours, theirs)
    words = {"factor": f"{factor:.3g}"}
    several = sum(len(entry["index"]) for entry in run.diaries[k] if entry.get("op") == "B") > run.M
    yield Sign("backward-again", bool(factor) and several, words=words)
    beliefs = weighting.beliefs_about_gradients(run.parts(k, "B"))
    yield from try_beliefs(beliefs, lambda guess: ref.gradient_difference(ours, guess) < 1e-8)
    yield Sign("one-buffer", _memory_used_twice(run.diaries[k]))
    unclipped = {"unclipped": ", without clipping" if 0 < factor < 1 else ""}
    yield Sign("scaled", bool(factor), words=words | unclipped)
    yield Sign("other-gradient-last" if is_last else "other-gradient")


def _memory_used_twice(diary: Sequence[Entry]) -> bool:
    """Whether two activations were received into the same memory, with no backward in between."""
    seen: set[int] = set()
    for entry in diary:
        if entry.get("op") == "B":
            seen.clear()
        elif "recv" in entry.get("do", ""):
            if entry["memory"] in seen:
                return True
            seen.add(entry["memory"])
    return False
