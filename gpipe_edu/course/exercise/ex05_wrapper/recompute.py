"""Which micro-batches a pipeline computed again, against those that `checkpoint` names."""

from __future__ import annotations

from gpipe_edu.course.task import Blame

from .wrapper_calls import Ran


def judge_recompute(ran: Ran, K: int, M: int, checkpoint: str, wrong: Blame) -> None:
    """Whether those micro-batches were recomputed that `checkpoint` names; M is what was asked for."""
    count = ran.micro_batches
    everything = {(m, k) for m in range(count) for k in range(K)}
    last = {(count - 1, k) for k in range(K)}
    expected = {"always": everything, "except_last": everything - last, "never": set()}[checkpoint]
    found = set(ran.recomputed)
    texts = _list(expected), _list(found)
    if any(times > 1 for times in ran.recomputed.values()):
        because = "A stage was recomputed more than once for the same micro-batch: is a checkpoint inside another?"
        raise wrong("recomputed-twice", because, *texts)
    if found == expected:
        return
    if checkpoint == "never":
        because = 'Something was computed again in the backward, and `checkpoint="never"` says that nothing is.'
        raise wrong("recompute-never", because, *texts)
    if not found:
        because = (
            "Nothing was recomputed in the backward, so all interiors were kept. Run the stage through "
            "`checkpoint`, and it keeps only its input."
        )
        raise wrong("keeps-everything", because, *texts)
    if found == {(m, k) for m, k in expected if k > 0}:
        because = (
            "Stage 0 was left out. Its input needs no gradient, but its weights do: it keeps an interior like any "
            "other stage, and runs again as they do."
        )
        raise wrong("first-stage", because, *texts)
    if checkpoint == "always":
        because = '`checkpoint="always"` means every micro-batch, on every stage. Here some were not recomputed.'
        raise wrong("not-always", because, *texts)
    guesses = {
        "last-too": (
            everything,
            "The last micro-batch was recomputed, too. Its backward comes first, so what is thrown away would come "
            "straight back: keep it.",
        ),
        "only-last": (
            last,
            "It is the wrong way round: the last micro-batch alone was recomputed, and all others were kept.",
        ),
        "last-stage": (
            {(m, k) for m, k in everything if k < K - 1},
            "The last *stage* was left out. It is the last *micro-batch* that is not recomputed, on every stage.",
        ),
        "except-first": (
            {(m, k) for m, k in everything if m > 0},
            "The first micro-batch was left out. It waits longest for its backward; the last one waits least.",
        ),
    }
    if count < M and found == everything:
        because = (
            "This batch has fewer samples than M, and so fewer micro-batches. The last one is the last there is, not "
            "number M - 1: here everything was recomputed."
        )
        raise wrong("last-of-M", because, *texts)
    for slip, (guess, because) in guesses.items():
        if found == guess:
            raise wrong(slip, because, *texts)
    because = "Not the right ones were recomputed: every micro-batch but the last one, on every stage."
    raise wrong("other-recompute", because, *texts)


def _list(cells: set[tuple[int, int]]) -> str:
    if not cells:
        return "nothing recomputed"
    stages = sorted({k for _, k in cells})
    rows = [(k, sorted(m for m, s in cells if s == k)) for k in stages]
    if len({tuple(row) for _, row in rows}) == 1:
        which = ", ".join(str(k) for k in stages)
        return f"micro-batches {', '.join(map(str, rows[0][1]))} recomputed on stages {which}"
    return "; ".join(f"stage {k}: {', '.join(map(str, row))}" for k, row in rows) + " recomputed"
