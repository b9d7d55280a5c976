"""A question about how something changes: the learner draws the curve.

[bubble-over-m]
kind = "curve"
question = "..."
at = [1, 2, 4, 8, 16, 32]     # where the curve is asked for
answer = [0.75, 0.6, ...]     # its values there, from 0 to 1
across = "micro-batches M"    # what the axes show
up = "bubble"
near = 0.1                    # how far off, on average, a curve may be and still count as right
low = "..."                   # what is wrong with a curve that runs too low
high = "..."                  # and too high
because = "..."
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from .question_kind import Question, texts


@dataclass(frozen=True)
class Curve(Question):
    """Values between 0 and 1 at a few places."""

    at: tuple[float, ...] = ()
    answer: tuple[float, ...] = ()
    across: str = ""
    up: str = ""
    near: float = 0
    low: str = ""
    high: str = ""

    kind: ClassVar[str] = "curve"

    def read(self, answer: object) -> list[float]:
        """The values, in hundredths."""
        if not isinstance(answer, (list, tuple)) or any(
            isinstance(value, bool) or not isinstance(value, (int, float)) for value in answer
        ):
            raise TypeError(f"answer is {answer!r}; it must be a list of {len(self.at)} numbers from 0 to 1")
        if len(answer) != len(self.at) or not all(0 <= value <= 1 for value in answer):
            raise ValueError(
                f"answer is {answer!r}; {self.key} wants {len(self.at)} numbers from 0 to 1, one for each of {self.at}"
            )
        return [round(value, 2) for value in answer]

    def right(self, answer: Any) -> bool:
        """Whether it is near enough on average: to nine digits, so a page, which rounds sums differently, agrees."""
        return round(fmean(abs(value - true) for value, true in zip(answer, self.answer, strict=True)), 9) <= self.near

    def explain(self, answer: Any) -> str:
        """Near, or too low or too high on the whole."""
        if self.right(answer):
            return "Your curve is close to the right one."
        low = round(fmean(answer), 9) < round(fmean(self.answer), 9)
        return f"Your curve runs too {'low' if low else 'high'}. {self.low if low else self.high}"

    def offer(self) -> str:
        """What to type."""
        start = ", ".join(["0.5"] * len(self.at))
        return (
            f"The {self.up} for {self.across} = {', '.join(map(str, self.at))}. "
            f'Commit with predict("{self.key}", [{start}]), or other numbers from 0 to 1.'
        )

    def page(self) -> dict[str, Any]:
        """The axes."""
        return {"at": list(self.at), "across": self.across, "up": self.up}

    def solution(self) -> list[float]:
        """The right values."""
        return list(self.answer)


def curve(key: str, entry: Mapping[str, Any]) -> Curve:
    """The entry of a file, checked. Raises ValueError."""
    found = texts(key, entry, {"question", "because", "across", "up", "low", "high"})
    made = Curve(
        key=key,
        at=tuple(entry["at"]),
        answer=tuple(entry["answer"]),
        near=entry["near"],
        **{("text" if name == "question" else name): text for name, text in found.items()},
    )
    made.read(made.answer)
    return made
