"""How far a learner has come, and the two ways out of an exercise: seeing a solution, and starting again."""

from __future__ import annotations

from typing import Any

from gpipe_edu import store
from gpipe_edu.words import plural

from . import attempts, build, page, percent
from .exercise import Exercise, exercises, find


class Progress:
    """The state of every exercise; shows itself in a notebook and prints as text."""

    def __init__(self) -> None:
        self.rows: list[tuple[Exercise, dict[str, Any]]] = [
            (one, attempts.state(one.key)) for one in exercises().values()
        ]

    @property
    def solved(self) -> int:
        """How many exercises are solved."""
        return sum(bool(state["passed"]) for _, state in self.rows)

    @property
    def following(self) -> Exercise | None:
        """The first exercise that is not solved."""
        return next((exercise for exercise, state in self.rows if not state["passed"]), None)

    def __str__(self) -> str:
        lines = [f"{self.solved} of {len(self.rows)} solved"]
        for exercise, state in self.rows:
            mark = "x" if state["passed"] else "."
            lines.append(f"{mark}  {exercise.key:18} {exercise.title:48} {_state(state)}".rstrip())
        if self.following:
            lines.append(f"Next: {self.following.key}, in exercises/{self.following.notebook}.ipynb")
        lines.append(f"Kept in {store.path()}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        lines = [f"**{self.solved} of {len(self.rows)} solved**", "", "| | exercise | |", "|---|---|---|"]
        for exercise, state in self.rows:
            mark = "solved" if state["passed"] else ""
            lines.append(f"| {mark} | [{exercise.key}]({exercise.notebook}.ipynb) {exercise.title} | {_state(state)} |")
        return "\n".join(lines)


def progress() -> Progress:
    """How far you have come in the exercises."""
    return Progress()


def solution(key: str, give_up: bool = False) -> None:
    """Show one way to write the function of an exercise: after it is solved, or when you give up.

    Raises ValueError for a key that does not exist, FileNotFoundError where the course's solutions are not there.
    """
    exercise = find(key)
    key = exercise.key
    if not attempts.state(key)["passed"] and not give_up:
        page.show(f'Not solved yet. To see a solution all the same: `solution("{key}", give_up=True)`.')
        return
    master = next((path for path in build.masters() if path.stem == exercise.notebook), None)
    if master is None:
        raise FileNotFoundError(f"solutions/{exercise.notebook}.py is not there")
    for cell in percent.read(master.read_text(encoding="utf-8")):
        if "### BEGIN SOLUTION" in cell.source and f"{exercise.cell}-" in cell.metadata.get("nbgrader", {}).get(
            "grade_id", ""
        ):
            page.show(f"```python\n{percent.solution_of(cell.source)}\n```")


def reset(key: str) -> None:
    """Start the notebook of an exercise anew. What you have written stays, in a copy with the date in its name.

    Raises ValueError for a key that does not exist.
    """
    exercise = find(key)
    notebook, copy = build.reset(exercise.notebook)
    for other in exercises().values():
        if other.notebook == exercise.notebook:
            attempts.forget(other.key)
    print(f"{notebook.name} is as new." + (f" Your work is in {copy.name}, beside it." if copy else ""))


def _state(state: dict[str, Any]) -> str:
    if not state["tries"]:
        return ""
    tries = plural(state["tries"], "try", "tries")
    hints = f", {plural(state['hints'], 'hint')}" if state["hints"] else ""
    return f"{tries}{hints}" + (f", solved {state['passed']}" if state["passed"] else "")
