"""How far a learner has come, over everything that stores a result, and where to go on."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gpipe_edu.base import store
from gpipe_edu.base.words import plural
from gpipe_edu.judge.exercise import Exercise, all_exercises
from gpipe_edu.puzzles.levels import LEVELS
from gpipe_edu.puzzles.saved import SolvedLevels

from . import challenge, tries_and_hints
from .lessons import LESSONS, THREAD, Lesson, lesson
from .notebook import output, short_lived
from .predictions import question
from .predictions.commit import recall

_CHECK: Final = "\u2713"


class LessonState(NamedTuple):
    """One lesson: its predictions and challenges by key, and how each stands. right: True, False, None while open.

    optional: those of both that are in an optional part.
    """

    lesson: Lesson
    right: dict[str, bool | None]
    solved: dict[str, bool]
    optional: frozenset[str] = frozenset()

    @property
    def in_thread(self) -> bool:
        """Whether it is part of the thread, not a side room."""
        return self.lesson.number in THREAD

    @property
    def begun(self) -> bool:
        """Whether anything has been done in it."""
        return any(one is not None for one in self.right.values()) or any(self.solved.values())

    @property
    def done(self) -> bool:
        """Whether all its predictions are made and all its challenges solved, except for the optional ones."""
        return self.optional.issuperset(self.open + self.unsolved)

    @property
    def open(self) -> list[str]:
        """The predictions that are not made."""
        return [key for key, one in self.right.items() if one is None]

    @property
    def unsolved(self) -> list[str]:
        """The challenges that are not solved."""
        return [key for key, one in self.solved.items() if not one]

    @property
    def counts(self) -> str:
        """What has been done, in one line."""
        if not self.begun:
            return ""
        made = [one for one in self.right.values() if one is not None]
        words = f"{len(made)} of {plural(len(self.right), 'prediction')} made, {sum(made)} right"
        if self.solved:
            words += f"; {sum(self.solved.values())} of {plural(len(self.solved), 'challenge')} solved"
        return words


class Progress:
    """Every lesson, puzzle and exercise, and where to go on; shows itself in a notebook and prints as text."""

    def __init__(self) -> None:
        self.lessons = [_state_of(one) for one in LESSONS]
        self.puzzles = len(SolvedLevels().records)
        self.rows: list[tuple[Exercise, dict[str, Any]]] = [
            (one, tries_and_hints.state(one.key)) for one in all_exercises().values()
        ]

    @property
    def solved(self) -> int:
        """How many exercises are solved."""
        return sum(bool(state["passed"]) for _, state in self.rows)

    @property
    def following(self) -> Exercise | None:
        """The first exercise that is not solved."""
        return next((exercise for exercise, state in self.rows if not state["passed"]), None)

    @property
    def here(self) -> LessonState | None:
        """The lesson to go on with: in the thread the last one begun, or the one after it, then the side rooms; None
        when nothing is left.
        """
        thread = sorted(
            (state for state in self.lessons if state.in_thread), key=lambda s: THREAD.index(s.lesson.number)
        )
        begun = max((place for place, state in enumerate(thread) if state.begun), default=0)
        rooms = (state for state in self.lessons if not state.in_thread)
        return next((state for state in (*thread[begun:], *rooms) if not state.done), None)

    def __str__(self) -> str:
        lines = ["Lessons"]
        for state in self.lessons:
            name = f"{state.lesson.number} {state.lesson.title}"
            lines.append(f"{_mark(state.done)}  {name:34} {state.counts}".rstrip())
        lines.append(f"Puzzles: {self.puzzles} of {len(LEVELS)} levels solved")
        lines.append(f"Exercises: {self.solved} of {len(self.rows)} solved")
        for exercise, tries in self.rows:
            lines.append(f"{_mark(tries['passed'])}  {exercise.key:18} {exercise.title:48} {_tries(tries)}".rstrip())
        if self.here:
            lines.append(f"Continue here: notebooks/{self.here.lesson.notebook}.ipynb")
        if self.following:
            lines.append(f"Next exercise: {self.following.key}, in exercises/{self.following.notebook}.ipynb")
        lines.append(f"Kept in {store.path()}")
        lines += filter(None, [output.plain(short_lived.warning())])
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        lessons = [(state.done, _lesson_link(state.lesson), state.counts) for state in self.lessons]
        tries = [
            (state["passed"], f"{_link(one.key, f'exercises/{one.notebook}')} {one.title}", _tries(state))
            for one, state in self.rows
        ]
        done = sum(state.done for state in self.lessons)
        puzzles = f"{_link('Puzzles', 'notebooks/schedule_puzzles')}: {self.puzzles} of {len(LEVELS)} levels solved"
        return "\n\n".join(
            [
                f"**{self._way()}**",
                _fold(f"Lessons: {done} of {len(lessons)} done", lessons),
                _fold(f"Exercises: {self.solved} of {len(tries)} solved", tries),
                puzzles,
                *filter(None, [short_lived.warning()]),
            ]
        )

    def _way(self) -> str:
        if self.here is None:
            return "All lessons are done."
        link = _lesson_link(self.here.lesson)
        if not any(state.begun for state in self.lessons):
            return f"Begin here: {link}"
        return f"Continue here: {link}"


class Recap:
    """How the predictions of one lesson came out, and which to look at again."""

    def __init__(self, number: str) -> None:
        self.state = _state_of(lesson(number))

    def __str__(self) -> str:
        right = self.state.right
        made = {key: one for key, one in right.items() if one is not None}
        words = [f"**{sum(made.values())} of {len(right)} predictions right.**"]
        again = [key for key, one in made.items() if not one]
        if again:
            words.append(
                f"Look again at {', '.join(f'`{key}`' for key in again)}: what did you think, and why is it not so?"
            )
        for told, keys in (("Still open", self.state.open), ("Not solved yet", self.state.unsolved)):
            needed = [key for key in keys if key not in self.state.optional]
            if needed:
                words.append(f"{told}: {_keys(needed)}.")
        spare = [key for key in self.state.open + self.state.unsolved if key in self.state.optional]
        if spare:
            words.append(f"If you want more: {_keys(spare)}.")
        return " ".join(words)

    def __repr__(self) -> str:
        return output.plain(str(self))

    def _repr_markdown_(self) -> str:
        return str(self)


def progress(number: str = "") -> Progress | Recap:
    """How far you have come: in everything, or in the predictions and challenges of one lesson, such as "03".

    Raises ValueError for a lesson that does not exist.
    """
    return Recap(number) if number else Progress()


def _state_of(one: Lesson) -> LessonState:
    right: dict[str, bool | None] = {}
    for key in question.keys(one.number):
        asked = question.find(key)
        outcome = recall(asked)
        right[key] = None if outcome is None else asked.right(outcome.chosen)
    done = challenge.solved()
    solved = {key: key in done for key in challenge.challenges(f"{one.number}/")}
    optional = {*filter(question.optional, right), *filter(challenge.optional, solved)}
    return LessonState(one, right, solved, frozenset(optional))


def _keys(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _mark(done: object) -> str:
    return "x" if done else "."


def _lesson_link(one: Lesson) -> str:
    return _link(f"{one.number} {one.title}", f"notebooks/{one.notebook}")


def _link(words: str, notebook: str) -> str:
    """Words that lead to a notebook, where it is beside the one that is open."""
    return words if store.hosted_by() else f"[{words}](../{notebook}.ipynb)"


def _fold(summary: str, rows: list[tuple[Any, str, str]]) -> str:
    table = [
        "| | | |",
        "|---|---|---|",
        *(f"| {_CHECK if done else ''} | {name} | {how} |" for done, name, how in rows),
    ]
    return "\n".join([f"<details><summary>{summary}</summary>", "", *table, "", "</details>"])


def _tries(state: dict[str, Any]) -> str:
    if not state["tries"]:
        return ""
    tries = plural(state["tries"], "try", "tries")
    hints = f", {plural(state['hints'], 'hint')}" if state["hints"] else ""
    but = ", but for a promise" if state["but"] else ""
    return f"{tries}{hints}" + (f", solved {state['passed']}{but}" if state["passed"] else "")
