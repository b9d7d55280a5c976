"""A question about when a step ends: a bar to drag along the time axis of a chart.

[where-it-ends]
kind = "bar"
question = "..."
chart = { schedule = "gpipe", K = 4, M = 4, until = 7 }  # shown: all that has ended by `until`; F and B may be given
longest = 40                  # the right end of the axis
answer = 21
near = 1                      # how far off an answer may be and still count as right
step = 1                      # what an arrow key moves the bar by
low = "..."                   # what is wrong with an answer that is too small
high = "..."                  # and too large
because = "..."
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gpipe_edu.schedule.recipes import by_name
from gpipe_edu.timeline import Costs, simulate
from gpipe_edu.view.palette import PAINTS

from .question_kind import Question, texts


@dataclass(frozen=True)
class Bar(Question):
    """A chart of which only the beginning is shown, and the time at which it ends."""

    chart: Mapping[str, Any] = field(default_factory=dict)
    longest: float = 0
    answer: float = 0
    near: float = 0
    step: float = 1
    low: str = ""
    high: str = ""

    kind: ClassVar[str] = "bar"

    def read(self, answer: object) -> float:
        """The time, a whole number of steps."""
        if isinstance(answer, bool) or not isinstance(answer, (int, float)):
            raise TypeError(f"answer is {answer!r}; it must be a time from 0 to {self.longest:g}, as a number")
        if not 0 <= answer <= self.longest:
            raise ValueError(f"answer is {answer:g}; {self.key} allows a time from 0 to {self.longest:g}")
        return round(answer / self.step) * self.step

    def right(self, answer: Any) -> bool:
        """Whether it is near enough."""
        return bool(abs(answer - self.answer) <= self.near)

    def explain(self, answer: Any) -> str:
        """Both times, and which way the answer was off."""
        if answer == self.answer:
            return f"You said {answer:g}, and {answer:g} it is."
        if self.right(answer):
            return f"You said {answer:g}, and that is close: it is {self.answer:g}."
        return f"You said {answer:g}. It is {self.answer:g}. {self.low if answer < self.answer else self.high}"

    def offer(self) -> str:
        """What to type."""
        example = f'predict("{self.key}", {self.longest / 2:g})'
        return f"A time from 0 to {self.longest:g}. Commit with {example}, or another time."

    def page(self) -> dict[str, Any]:
        """The boxes that are shown, and the axis."""
        given = {"F": 1, "B": 2, **self.chart}
        schedule = by_name(given["schedule"], given["K"], given["M"])
        spans = simulate(schedule, Costs(F=given["F"], B=given["B"])).spans
        return {
            "devices": schedule.devices,
            "longest": self.longest,
            "step": self.step,
            "boxes": [
                {
                    "device": s.device,
                    "kind": s.op.kind,
                    "name": f"{s.op.kind}{s.op.micro_batch}",
                    "start": s.start,
                    "end": s.end,
                }
                for s in spans
                if s.end <= given["until"]
            ],
            "paints": paints(),
        }

    def solution(self) -> float:
        """The right time."""
        return self.answer


def bar(key: str, entry: Mapping[str, Any]) -> Bar:
    """The entry of a file, checked. Raises ValueError."""
    found = texts(key, entry, {"question", "because", "low", "high"})
    numbers = {name: entry[name] for name in ("longest", "answer", "near", "step")}
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in numbers.values()):
        raise ValueError(f"{key} has {numbers}; each must be a number")
    if not 0 < entry["answer"] < entry["longest"] or entry["step"] <= 0:
        raise ValueError(f"{key} has {numbers}; answer must lie between 0 and longest, and step above 0")
    made = Bar(
        key, found["question"], found["because"], entry["chart"], low=found["low"], high=found["high"], **numbers
    )
    made.page()  # a chart that cannot be drawn is also the writer's slip
    return made


def paints() -> dict[str, list[str]]:
    """Fill and lettering of forwards and backwards, as in every chart."""
    return {kind: [PAINTS[kind].fill, PAINTS[kind].text] for kind in "FB"}
