"""Exercise 10: the misconception behind what went wrong in one process or between two."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NoReturn

from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.sandbox import Trouble
from gpipe_edu.course.task import Blame
from gpipe_edu.distributed.traffic import Traffic
from gpipe_edu.schedule import Schedule

from .processes_words import ERRORS, STUCK


def judge_failure(examiner: Examiner, found: Any, schedule: Schedule, call: str, wrong: Blame) -> NoReturn:
    """Raise Wrong for a run that did not come to its end."""
    kind, message, reason, lines, seconds = found["failed"]
    where = examiner.places(lines)
    trouble = Trouble(kind, message.partition("\n")[0], where)
    _judge_habits(found["diaries"], schedule, wrong)
    _judge_sources(found["diaries"], wrong)
    if reason == "late":
        examiner.fail(Trouble("stopped", message, where, seconds=seconds), call, {})
    if reason in ("died", "exit"):
        examiner.fail(Trouble("exit", message, where), call, {})
    if reason == "size":
        _judge_sizes(found["diaries"], trouble, wrong)
    reason = "unwaited" if reason == "lost" else reason  # which of the two is a matter of luck
    if reason in STUCK:
        raise wrong(reason, STUCK[reason], trouble=trouble)
    if "NoneType" in message:
        _judge_none(message, found["diaries"], trouble, wrong)
    for slip, words, because in ERRORS:
        if words in message:
            raise wrong(slip, because, trouble=trouble)
    examiner.fail(trouble, call, {})


def judge_ops(diaries: Any, schedule: Schedule, wrong: Blame) -> None:
    """Each process ran its row, and nobody did what is another's."""
    _judge_habits(diaries, schedule, wrong)
    _judge_sources(diaries, wrong)
    for k, row in enumerate(schedule.rows):
        expected = [(op.kind, op.micro_batch) for op in row]
        ran = _ran(diaries[k], [m for kind, m in expected if kind == "F"])
        if ran == expected:
            continue
        words = f"process {k}: {_words(expected)}", f"process {k}: {_words(ran)}"
        forwards, backwards = [m for kind, m in ran if kind == "F"], [m for kind, m in ran if kind == "B"]
        if len(forwards) != schedule.micro_batches:
            because = "A stage runs each micro-batch forward once. Here it ran more or fewer."
            raise wrong("forwards", because, *words)
        if len(set(backwards)) < schedule.micro_batches <= sum(entry.get("op") == "B" for entry in diaries[k]):
            because = (
                "Several backwards went through the graph of the same micro-batch, the others got none. Keep the input "
                "and the result of every micro-batch under its number m."
            )
            raise wrong("same-graph", because, *words)
        if len(backwards) < schedule.micro_batches:
            because = "Some micro-batches never went backward through this stage, so its weights learn nothing of them."
            raise wrong("no-backward", because, *words)
        if [kind for kind, _ in ran] != [kind for kind, _ in expected]:
            because = (
                "A process ran its ops in another order than its row says. 1F1B saves memory only if each backward "
                "comes where the row has it."
            )
            raise wrong("other-order", because, *words)
        because = "A gradient went backward through another micro-batch than the one it belongs to. The row names both."
        raise wrong("other-micro-batch", because, *words)


def _judge_habits(diaries: Any, schedule: Schedule, wrong: Blame) -> None:
    """What one does who thinks of another kind of parallelism."""
    for k, diary in enumerate(diaries):
        for entry in diary:
            if entry.get("collective", "barrier") != "barrier":
                because = (
                    "This averages or shares values among all processes, as one does where all have the same weights "
                    "(data parallelism). Here every stage has weights of its own."
                )
                raise wrong("all-reduce", because, "sends and receives", f"dist.{entry['collective']} on process {k}")
            if "loss" in entry and k < schedule.stages - 1:
                because = (
                    "Only the last process has a loss. For the others the result of their stage is an activation, and "
                    "its gradient comes from the process behind them."
                )
                raise wrong("loss-everywhere", because, f"on process {schedule.stages - 1}", f"on process {k}")


def _judge_sources(diaries: Any, wrong: Blame) -> None:
    """A process between two others must say from whom it receives, or tell messages apart by their tags."""
    for k, diary in list(enumerate(diaries))[1:-1]:
        open_tags = {entry["tag"] for entry in diary if "recv" in entry.get("do", "") and entry["peer"] is None}
        for side in (diaries[k - 1], diaries[k + 1]):
            open_tags &= {entry["tag"] for entry in side if "send" in entry.get("do", "") and entry["peer"] == k}
        if open_tags:
            because = (
                "A receive without a source takes whatever comes first. A process in the middle gets activations from "
                "one side and gradients from the other: say whom you want to hear."
            )
            raise wrong("from-anybody", because, f"process {k}: dist.recv(x, {k - 1})", "dist.recv(x)")


def _judge_sizes(diaries: Any, trouble: Trouble, wrong: Blame) -> NoReturn:
    for sent, received in Traffic(diaries).met():
        if sent.shape != received.shape:
            words = f"received as {received.shape}", f"sent {sent.shape}"
            if sent.shape[1:] == received.shape[1:]:
                because = (
                    "The buffer has the size of another micro-batch. Where M does not divide N, micro-batches differ: "
                    "`shapes[m]` says how large each is. A larger buffer raises no error; its rest is garbage."
                )
                raise wrong("first-size", because, *words, trouble=trouble)
            because = (
                "The sender sends something else than the receiver expects. Forward goes the result of a stage; back "
                "goes the gradient of its input, which has the input's shape."
            )
            raise wrong("other-shape", because, *words, trouble=trouble)
    raise wrong("other-shape", "A message did not fit the buffer that received it.", trouble=trouble)


def _judge_none(message: str, diaries: Any, trouble: Trouble, wrong: Blame) -> NoReturn:
    needs = [entry["needs"] for diary in diaries[1:] for entry in diary if entry.get("op") == "F"]
    if "subscriptable" in message:
        because = "Only process 0 has samples and only the last one has targets; the others' `pieces` is None."
        raise wrong("no-pieces", because, trouble=trouble)
    if needs and not any(needs):
        because = (
            "There is no gradient to send back, because nobody asked for one: what a process has received is a plain "
            "tensor until you call `requires_grad_()` on it."
        )
        raise wrong("no-requires-grad", because, trouble=trouble)
    because = (
        "What is sent back is None. The gradient of a stage's input is in the `.grad` of the tensor that went in, once "
        "backward is through."
    )
    raise wrong("no-grad-yet", because, trouble=trouble)


def _ran(diary: Any, order: list[int]) -> list[tuple[str, int]]:
    """(kind, micro-batch) of what a process ran, several backwards through one graph in a row as one."""
    ran: list[tuple[str, int]] = []
    for entry in diary:
        if entry.get("op") == "F":
            ran.append(("F", order[entry["index"]] if entry["index"] < len(order) else -1))
        elif entry.get("op") == "B":
            ran += [("B", order[index]) for index in entry["index"] if index < len(order)]
    return [op for op, _ in groupby(ran)]


def _words(ops: list[tuple[str, int]]) -> str:
    return " ".join(f"{kind}{m}" for kind, m in ops)
