"""Signs in what the processes have noted: the ops that each ran, and the messages between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from math import prod

from gpipe_edu.distributed.diary import Entry
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.guest.processes import Diaries
from gpipe_edu.schedule import Schedule

from .step_run import OwnRuns, StepRun


def last_step(diary: Sequence[Entry]) -> list[Entry]:
    """The entries of the last training step."""
    begins = [index for index, entry in enumerate(diary) if "step" in entry]
    return list(diary[begins[-1] :] if begins else diary)


def about_habits(schedule: Schedule, diaries: Diaries) -> Signs:
    """What those do who think of another kind of parallelism."""
    last = schedule.stages - 1
    for k, diary in enumerate(diaries):
        for entry in diary:
            collective, came = entry.get("collective"), f"dist.{entry.get('collective')} on process {k}"
            slip = "barrier" if collective == "barrier" else "all-reduce"
            yield Sign(slip, collective is not None, expected="sends and receives", came=came)
            expected, came = f"on process {last}", f"on process {k}"
            yield Sign("loss-everywhere", "loss" in entry and k < last, expected=expected, came=came)
    yield from _about_sources(diaries)


def _about_sources(diaries: Diaries) -> Signs:
    """A process between two others must say from whom it receives, or tell messages apart by their tags."""
    for k, diary in list(enumerate(diaries))[1:-1]:
        open_tags = {entry["tag"] for entry in diary if _receives(entry) and entry["peer"] is None}
        for side in (diaries[k - 1], diaries[k + 1]):
            open_tags &= {entry["tag"] for entry in side if _sends(entry) and entry["peer"] == k}
        expected = f"process {k}: dist.recv(x, {k - 1})"
        yield Sign("from-anybody", bool(open_tags), expected=expected, came="dist.recv(x)")


def about_ops(schedule: Schedule, own: OwnRuns) -> Signs:
    """Each process ran its row."""
    M = schedule.micro_batches
    for k, row in enumerate(schedule.rows):
        asked = [(op.kind, str(op.micro_batch)) for op in row]
        runs = own.of_last_step(k)
        ran = _ran(runs, [m for kind, m in asked if kind == "F"])
        if ran == asked:
            continue
        expected, came = (f"process {k}: {' '.join(kind + m for kind, m in ops)}" for ops in (asked, ran))
        kinds, backwards = [kind for kind, _ in ran], [m for kind, m in ran if kind == "B"]
        same_graph = len(set(backwards)) < M <= sum(kind == "B" for kind, _ in runs)
        yield Sign("forwards", kinds.count("F") != M, expected=expected, came=came)
        yield Sign("same-graph", same_graph, expected=expected, came=came)
        yield Sign("no-backward", len(backwards) < M, expected=expected, came=came)
        yield Sign("other-order", kinds != [kind for kind, _ in asked], expected=expected, came=came)
        yield Sign("other-micro-batch", expected=expected, came=came)


def _ran(runs: Sequence[tuple[str, int]], order: list[str]) -> list[tuple[str, str]]:
    """(kind, micro-batch) of what a process ran, several backwards through one graph in a row as one.

    A forward beyond those of the row has no micro-batch.
    """
    ran = [(kind, order[index] if index < len(order) else "") for kind, index in runs]
    ran = [(kind, m) for kind, m in ran if kind == "F" or m]
    return [op for op, same in groupby(ran) for op in (same if op[0] == "F" else [op])]


def about_buffers(diaries: Diaries, M: int) -> Signs:
    """No process sent from memory that an earlier message may still have been read from. M: of micro-batches."""
    for k, diary in enumerate(diaries):
        sent = Counter(entry["peer"] for entry in diary if _sends(entry))
        flying: dict[int, tuple[int, int]] = {}  # post -> (memory, to whom)
        coming: dict[int, int] = {}  # post -> from whom
        came = f"process {k} filled what it was still sending"
        for entry in diary:
            if _sends(entry):
                taken = any(entry["memory"] == memory for memory, _ in flying.values())
                expected, many = f"{M} messages to process {entry['peer']}", sent[entry["peer"]]
                yield Sign("extra-message", taken and many > M, expected=expected, came=f"{many} from process {k}")
                yield Sign("one-send-buffer", taken, came=came)
                if prod(entry["shape"]):
                    flying[entry["post"]] = entry["memory"], entry["peer"]
            elif _receives(entry):
                coming[entry["post"]] = entry["peer"]
            ended: int = entry.get("end", -1) if "op" not in entry else -1
            flying.pop(entry.get("drop", ended), None)  # let go: judged as such elsewhere
            if ended in coming:  # an answer shows that the question has arrived, if the learner relies on that
                flying = {post: sent for post, sent in flying.items() if sent[1] != coming[ended]}


def about_messages(run: StepRun) -> Signs:
    """Between neighbours went activations and gradients, and nothing else to anybody. For a run right so far."""
    for source, target in ((a, b) for a in range(run.K) for b in range(run.K) if a != b):
        posts = [entry for entry in run.diaries[source] if _sends(entry) and entry["peer"] == target]
        sent, most, needed = sum(prod(entry["shape"]) for entry in posts), 0, 0
        if abs(source - target) == 1:
            most, needed = run.M, run.numbers_between(min(source, target))
        expected = f"{needed} numbers from process {source} to process {target}"
        yield Sign("no-message", sent < needed, expected=expected, came=f"{sent} numbers")
        yield Sign("extra-message", sent > needed and len(posts) > most, expected=expected, came=f"{sent} numbers")


def _sends(entry: Entry) -> bool:
    return "send" in entry.get("do", "")


def _receives(entry: Entry) -> bool:
    return "recv" in entry.get("do", "")
