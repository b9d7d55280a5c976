"""A question: options, of which one is right, and for each wrong one the reason why it is.

[what-is-stored]
question = "..."                  # Markdown, one or two sentences
options = ["...", "...", "..."]   # A, B, C here; each learner sees them in a different order
answer = "B"
wrong = { A = "...", C = "..." }  # Markdown; shown to those who chose that option
because = "..."                   # Markdown; shown to all, after the commit
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any, TypeGuard

from . import option_order


@dataclass(frozen=True)
class Choice:
    """Options by their letters in the file, the letter of the right one, and for every other what is wrong with it.

    `text`, `because`, which is shown only after a commit, and the options are Markdown. An answer is stored as the
    letter in the file, which holds in every order. `order` lists these letters in the order in which they are shown as
    A, B, C.
    """

    key: str
    text: str
    because: str
    options: Mapping[str, str]
    answer: str
    wrong: Mapping[str, str]
    order: tuple[str, ...] = ()

    def shuffle(self) -> Choice:
        """The options in this learner's order."""
        return replace(self, order=tuple(option_order.shuffle(self.key, self.options)))

    def as_seen(self, answer: str) -> str:
        """The letter under which this learner sees a stored answer."""
        return ascii_uppercase[self._order.index(answer)]

    def read(self, answer: object) -> str:
        """The option behind a letter as shown, in upper or lower case: what is stored. Raises TypeError or ValueError
        that say what is allowed.
        """
        if not isinstance(answer, str):
            raise TypeError(f"answer is {answer!r}; it must be {_either(self.options)}, as text")
        given = answer.strip().upper()
        if given not in self.options:
            raise ValueError(f"answer is {answer!r}; {self.key} allows {_either(self.options)}")
        return self._order[ascii_uppercase.index(given)]

    def knows(self, answer: object) -> TypeGuard[str]:
        """Whether `answer`, from a learner's file, is an option of the question in its current form."""
        return isinstance(answer, str) and answer in self.options

    def right(self, answer: str) -> bool:
        """Whether it is the right option."""
        return answer == self.answer

    def explain(self, answer: str) -> str:
        """Both letters, and what is wrong with a wrong one."""
        said, right = self.as_seen(answer), self.solution()
        if self.right(answer):
            return f"You said {said}, and {right} it is."
        return f"You said {said}. It is {right}. {self.wrong[answer]}"

    def offer(self) -> str:
        """For pages and terminals without a widget: the options, one a line, and how to commit."""
        options = "\n".join(f"- {letter}. {text}" for letter, text in self.page())
        return f'{options}\n\nCommit with predict("{self.key}", "A"), or another letter.'

    def page(self) -> list[list[str]]:
        """What the widget shows before a commit: each option with its letter."""
        return [[self.as_seen(name), self.options[name]] for name in self._order]

    def solution(self) -> str:
        """The letter under which the right option is shown."""
        return self.as_seen(self.answer)

    @property
    def _order(self) -> tuple[str, ...]:
        return self.order or tuple(self.options)


def choice(key: str, entry: Mapping[str, Any]) -> Choice:
    """The entry of a file, checked, so its writer learns of a slip when the cell is first run. Raises ValueError."""
    if not isinstance(entry["options"], list) or not 2 <= len(entry["options"]) <= 6:
        raise ValueError(f"{key} has options {entry['options']!r}; it must be a list of 2 to 6 texts")
    found = _texts(key, entry, {"question", "because"})
    options = _texts(
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
        key, found["question"], found["because"], options, entry["answer"], _texts(key, entry["wrong"], others)
    )


def _texts(key: str, entry: Mapping[str, Any], names: Set[str]) -> dict[str, str]:
    """The entries `names`, each a text. Raises ValueError for one that is empty or not a string."""
    found = {name: entry[name] for name in names}
    if not all(isinstance(text, str) and text.strip() for text in found.values()):
        raise ValueError(f"{key} has an empty text, or one that is no text")
    return {name: text.strip() for name, text in found.items()}


def _either(letters: Iterable[str]) -> str:
    *most, last = letters
    return f"{', '.join(most)} or {last}"
