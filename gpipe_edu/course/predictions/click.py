"""A question about ops: the learner clicks one in the rows of a schedule, which show the order but no times.

[first-backward]
kind = "click"
question = "..."
chart = { schedule = "gpipe", K = 4, M = 4 }
among = "B"                   # ops of this kind can be clicked, the others are shown
answer = "B3@3"
device = "..."                # what is wrong with an op on another device
other = "..."                 # and with another op on the right one
because = "..."
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.recipes import by_name

from .bar import paints
from .question_kind import Question, texts


@dataclass(frozen=True)
class Click(Question):
    """The rows of a schedule, the kind of op that may be clicked, and the right one, written as "B3@3"."""

    chart: Mapping[str, Any] = field(default_factory=dict)
    among: str = "B"
    answer: str = ""
    device: str = ""
    other: str = ""

    kind: ClassVar[str] = "click"

    @property
    def schedule(self) -> Schedule:
        """The schedule whose ops are shown."""
        return by_name(self.chart["schedule"], self.chart["K"], self.chart["M"])

    def read(self, answer: object) -> str:
        """The op, written as "B3@3"."""
        if not isinstance(answer, str):
            raise TypeError(f'answer is {answer!r}; it must be an op, as text: "{self.among}0@0"')
        names = [str(op) for op in self._ops()]
        given = answer.strip().upper()
        if given not in names:
            raise ValueError(f"answer is {answer!r}; {self.key} allows {', '.join(names)}")
        return given

    def right(self, answer: Any) -> bool:
        """Whether it is that op."""
        return bool(answer == self.answer)

    def explain(self, answer: Any) -> str:
        """Both ops, and whether it was the device or the op."""
        if self.right(answer):
            return f"You clicked `{answer}`, and `{answer}` it is."
        why = self.other if self._device(answer) == self._device(self.answer) else self.device
        return f"You clicked `{answer}`. It is `{self.answer}`. {why}"

    def offer(self) -> str:
        """The rows, and what to type."""
        rows = "\n".join(
            f"device {number}   {' '.join(map(_name, row))}" for number, row in enumerate(self.schedule.rows)
        )
        example = f'predict("{self.key}", "{self._ops()[0]}")'
        return f"```\n{rows}\n```\n\nCommit with {example}: this op, on stage 0, or another one."

    def page(self) -> dict[str, Any]:
        """The ops of every device, and which can be clicked."""
        rows = [
            [{"op": str(op), "name": _name(op), "kind": op.kind, "open": op.kind == self.among} for op in row]
            for row in self.schedule.rows
        ]
        return {"rows": rows, "paints": paints()}

    def solution(self) -> str:
        """The right op."""
        return self.answer

    def _ops(self) -> list[Op]:
        return [op for row in self.schedule.rows for op in row if op.kind == self.among]

    def _device(self, name: str) -> int:
        return next(device for device, row in enumerate(self.schedule.rows) if name in map(str, row))


def click(key: str, entry: Mapping[str, Any]) -> Click:
    """The entry of a file, checked. Raises ValueError."""
    made = Click(
        chart=entry["chart"],
        among=entry["among"],
        answer=entry["answer"],
        key=key,
        **{
            ("text" if name == "question" else name): text
            for name, text in texts(key, entry, {"question", "because", "device", "other"}).items()
        },
    )
    made.read(made.answer)
    return made


def _name(op: Op) -> str:
    return f"{op.kind}{op.micro_batch}"
