"""A question with options, of which one is right; every other one is told why it is not.

[what-is-stored]
question = "..."                  # Markdown, one or two sentences
options = ["...", "...", "..."]   # shown as A, B, C
answer = "B"
wrong = { A = "...", C = "..." }  # Markdown; shown to those who chose that option
because = "..."                   # Markdown; shown to all, after the commit
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, ClassVar

from .kind import Question, texts


@dataclass(frozen=True)
class Choice(Question):
    """Options by letter, the letter of the right one, and for every other letter what is wrong with it."""

    options: Mapping[str, str] = field(default_factory=dict)
    answer: str = "A"
    wrong: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "choice"

    def read(self, answer: object) -> str:
        """The letter of an option, a small one being as good."""
        if not isinstance(answer, str):
            raise TypeError(f"answer is {answer!r}; it must be {_either(self.options)}, as text")
        given = answer.strip().upper()
        if given not in self.options:
            raise ValueError(f"answer is {answer!r}; {self.key} allows {_either(self.options)}")
        return given

    def right(self, kept: Any) -> bool:
        """Whether it is the right letter."""
        return bool(kept == self.answer)

    def told(self, kept: Any) -> str:
        """Both letters, and what is wrong with a wrong one."""
        if self.right(kept):
            return f"You said {kept}, and {kept} it is."
        return f"You said {kept}. It is {self.answer}. {self.wrong[kept]}"

    def offered(self) -> str:
        """The options, one a line."""
        options = "\n".join(f"- {name}. {text}" for name, text in self.options.items())
        return f'{options}\n\nCommit with predict("{self.key}", "A"), or another letter.'

    def page(self) -> dict[str, Any]:
        """The options; their texts are Markdown."""
        return {"options": [[name, text] for name, text in self.options.items()]}

    def solution(self) -> str:
        """The right letter."""
        return self.answer


def choice(key: str, entry: Mapping[str, Any]) -> Choice:
    """The entry of a file, checked: its writer learns of a slip when the cell is first run. Raises ValueError."""
    if not isinstance(entry["options"], list) or not 2 <= len(entry["options"]) <= 6:
        raise ValueError(f"{key} has options {entry['options']!r}; it must be a list of 2 to 6 texts")
    found = texts(key, entry, {"question", "because"})
    options = texts(
        key, dict(zip(ascii_uppercase, entry["options"], strict=False)), set(ascii_uppercase[: len(entry["options"])])
    )
    options = dict(sorted(options.items()))
    if entry["answer"] not in options:
        raise ValueError(f"{key} has answer {entry['answer']!r}; it must be {_either(options)}")
    others = options.keys() - {entry["answer"]}
    if not isinstance(entry["wrong"], dict) or entry["wrong"].keys() != others:
        raise ValueError(
            f"{key} has wrong = {entry['wrong']!r}; it must tell of {', '.join(sorted(others))} why it is wrong"
        )
    return Choice(
        key, found["question"], found["because"], options, entry["answer"], texts(key, entry["wrong"], others)
    )


def _either(letters: Iterable[str]) -> str:
    *most, last = letters
    return f"{', '.join(most)} or {last}"
