"""What betrays how a stage was re-materialized: which layers the backward ran forward again, and in which order.

Right is: the stages that were to run again, the last one first, and in each the layers from first to last, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

from gpipe_edu.course.task import Blame

from .witness import Network, Place


def judge_reruns(stages: Network, reruns: Sequence[Place], again: Sequence[bool], wrong: Blame) -> None:
    """Raise the first thing that is wrong with the runs in the backward."""
    often = Counter(reruns)
    wanted, there = {k for k, more in enumerate(again) if more}, {k for k, _ in reruns}
    order = [k for k, _ in groupby(k for k, _ in reruns)]
    came = [f"{k} ({often[k, 0]}x)" if often[k, 0] > 1 else str(k) for k in sorted(there)]

    def blame(slip: str, because: str) -> Exception:
        return wrong(slip, because, f"runs again: {_stages(sorted(wanted))}", f"ran again: {_stages(came)}")

    if wanted and not reruns:
        because = (
            "Nothing ran again in the backward, so everything was kept: no stage is checkpointed. Or did `checkpoint` "
            "get a stage's output? It must get the stage, and run it itself."
        )
        raise blame("nothing", because)
    if len(there) == 1 < len(wanted) and max(often.values()) > 1:
        because = (
            "One stage ran again for all. A `lambda` in a loop looks up its variables when it is called, and in the "
            "backward the loop is long over: hand the stage over as an argument."
        )
        raise blame("late-binding", because)
    if max(often.values(), default=0) > 1:
        because = "A layer runs more than twice. A checkpoint within a checkpoint recomputes the inner part once more."
        raise blame("nested", because)
    if any(first < second for first, second in pairwise(order)):
        because = (
            "One checkpoint holds several stages: they all ran again before the first of them could go back, and so "
            "everything was in memory at once after all. Each stage needs its own."
        )
        came = [" then ".join(map(str, order))]
        raise blame("one-checkpoint", because)
    if any(i > j for (k, i), (other, j) in pairwise(reruns) if k == other):
        because = (
            "Each layer has a checkpoint of its own, so the inputs of all layers are kept. A stage keeps one: its own."
        )
        raise wrong("per-layer", because, "a stage's layers run again from first to last", "from last to first")
    if wanted and there == set(range(len(again))) - wanted:
        raise blame(
            "reversed", "It is the wrong way round: `again` names the stages that run again, not those that keep."
        )
    if len(again) - 1 in wanted - there:
        because = (
            "The last stage keeps everything. In F-then-B its backwards, too, come after all forwards, so it holds as "
            "many micro-batches as the others."
        )
        raise blame("last-spared", because)
    if there - wanted:
        because = "A stage runs again that need not. `again` says for each stage whether it is worth the time."
        raise blame("list-ignored", because)
    if often != Counter((k, i) for k in wanted for i in range(len(stages[k]))):
        if wanted - there:
            because = (
                "A stage that `again` names did not run again, so its inside was kept. Even where the input needs no "
                "gradient, as that of the first stage, the weights do."
            )
            raise blame("stage-spared", because)
        k, i = next((k, i) for k in sorted(wanted) for i in range(len(stages[k])) if not often[k, i])
        because = (
            "Part of a stage did not run again, so what it computed was kept. A stage that runs again does so from its "
            "first layer to its last, in one call of `checkpoint`."
        )
        raise wrong("some-spared", because, f"all layers of stage {k} run again", f"layer {i} of stage {k} did not")


def _stages(numbers: Sequence[object]) -> str:
    return f"stage {', '.join(map(str, numbers))}" if numbers else "no stage"
