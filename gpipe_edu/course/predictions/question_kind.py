"""What all kinds of predictions have in common: a text, an answer to commit to, and a verdict that tells why.

`choice.py` has options, `bar.py` a bar to drag to where a step ends, `click.py` ops to click, `curve.py` a curve to
draw. A page gets `page()` before a commit and `solution()` after it, and only then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Question(ABC):
    """One question: `text` and `because`, which is shown only after a commit, are Markdown.

    An answer is stored as plain data: what `read` returns.
    """

    key: str
    text: str
    because: str

    kind: ClassVar[str]
    """Its name in a file of predictions."""

    @abstractmethod
    def read(self, answer: object) -> Any:
        """`answer`, as typed or as a page sends it, in the form that is stored. Raises TypeError or ValueError that say
        what is allowed.
        """

    def as_seen(self, answer: Any) -> Any:
        """A stored answer, as a page shows it and `read` takes it: they differ where options are shuffled."""
        return answer

    def shuffle(self) -> Question:
        """The question in this learner's order, for those kinds that have one."""
        return self

    @abstractmethod
    def right(self, answer: Any) -> bool:
        """Whether the answer is right, or near enough."""

    @abstractmethod
    def explain(self, answer: Any) -> str:
        """The answer, the right one and, if they differ, what is wrong with it."""

    @abstractmethod
    def offer(self) -> str:
        """For pages and terminals without a widget: what can be answered, and how."""

    @abstractmethod
    def page(self) -> dict[str, Any]:
        """What the widget draws before a commit: plain data without the answer."""

    @abstractmethod
    def solution(self) -> Any:
        """The right answer, as the widget draws it after a commit: in the form of `as_seen`."""

    def knows(self, answer: object) -> bool:
        """Whether `answer`, from a learner's file, is an answer to the question in its current form."""
        try:
            return bool(self.read(answer) == answer)
        except (TypeError, ValueError):
            return False


def texts(key: str, entry: Mapping[str, Any], names: Set[str]) -> dict[str, str]:
    """The entries `names`, each a text. Raises ValueError for one that is empty or not a string."""
    found = {name: entry[name] for name in names}
    if not all(isinstance(text, str) and text.strip() for text in found.values()):
        raise ValueError(f"{key} has an empty text, or one that is no text")
    return {name: text.strip() for name, text in found.items()}
