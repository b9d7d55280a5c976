"""How far a learner has come, and the two ways out of an exercise: seeing a solution, and starting again."""

from __future__ import annotations

from typing import Any

from . import attempts, build, page, percent, store
from .task import CHECKS, Task, task_of


class Progress:
    """The state of every exercise; shows itself in a notebook and prints as text."""

    def __init__(self) -> None:
        self.rows: list[tuple[Task, dict[str, Any]]] = [(task_of(key), attempts.state(key)) for key in CHECKS]

    @property
    def solved(self) -> int:
        """How many tasks are solved."""
        return sum(bool(state["passed"]) for _, state in self.rows)

    @property
    def following(self) -> Task | None:
        """The first task that is not solved."""
        return next((task for task, state in self.rows if not state["passed"]), None)

    def __str__(self) -> str:
        lines = [f"{self.solved} of {len(self.rows)} solved"]
        for task, state in self.rows:
            lines.append(f"{'x' if state['passed'] else '.'}  {task.key:16} {task.title:48} {_state(state)}".rstrip())
        if self.following:
            lines.append(f"Next: {self.following.key}, in exercises/{self.following.notebook}.ipynb")
        lines.append(f"Kept in {store.path()}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        lines = [f"**{self.solved} of {len(self.rows)} solved**", "", "| | exercise | |", "|---|---|---|"]
        for task, state in self.rows:
            mark = "solved" if state["passed"] else ""
            lines.append(f"| {mark} | [{task.key}]({task.notebook}.ipynb) {task.title} | {_state(state)} |")
        return "\n".join(lines)


def progress() -> Progress:
    """How far you have come in the exercises."""
    return Progress()


def solution(key: str, give_up: bool = False) -> None:
    """Show one way to write the function of a task: after it is solved, or when you give up.

    Raises ValueError for a key that does not exist, FileNotFoundError where the course's solutions are not there.
    """
    task = task_of(key)
    if not attempts.state(key)["passed"] and not give_up:
        page.show(f'Not solved yet. To see a solution all the same: `solution("{key}", give_up=True)`.')
        return
    master = next((path for path in build.masters() if path.stem == task.notebook), None)
    if master is None:
        raise FileNotFoundError(f"solutions/{task.notebook}.py is not there")
    for cell in percent.read(master.read_text(encoding="utf-8")):
        if "### BEGIN SOLUTION" in cell.source and f"{key}-" in cell.metadata.get("nbgrader", {}).get("grade_id", ""):
            page.show(f"```python\n{percent.solution_of(cell.source)}\n```")


def reset(key: str) -> None:
    """Start the exercise of a task anew. What you have written stays, in a copy with the date in its name.

    Raises ValueError for a key that does not exist.
    """
    task = task_of(key)
    notebook, copy = build.reset(task.notebook)
    for other in CHECKS:
        if task_of(other).notebook == task.notebook:
            attempts.forget(other)
    print(f"{notebook.name} is as new." + (f" Your work is in {copy.name}, beside it." if copy else ""))


def _state(state: dict[str, Any]) -> str:
    if not state["tries"]:
        return ""
    tries = "1 try" if state["tries"] == 1 else f"{state['tries']} tries"
    hints = f", {state['hints']} hint{'s' * (state['hints'] > 1)}" if state["hints"] else ""
    return f"{tries}{hints}" + (f", solved {state['passed']}" if state["passed"] else "")
