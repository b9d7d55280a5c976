"""The two ways out of an exercise: seeing a solution, and starting again."""

from __future__ import annotations

from pathlib import Path

from gpipe_edu.judge.exercise import find_exercise

from . import asking, attempts
from .building import build, percent_format, places
from .notebook import output


def solution(key: str, give_up: bool = False) -> None:
    """Show one way to write the function of an exercise: after it is solved, or when you give up.

    Where the course came without its solutions, it says so. Raises ValueError for a key that does not exist.
    """
    exercise = find_exercise(key)
    key = exercise.key
    if not attempts.state(key)["passed"] and not give_up:
        output.show(f"Not solved yet. To see a solution all the same: {asking.solution(key, give_up=True)}.")
        return
    master = places.ROOT / "solutions" / f"{exercise.notebook}.py"
    if not master.is_file():
        output.show("The solutions are not in this copy of the course: ask whoever gave it to you. There are hints.")
        return
    for cell in percent_format.read(master.read_text(encoding="utf-8")):
        if "### BEGIN SOLUTION" in cell.source and f"{exercise.cell}-" in cell.metadata.get("nbgrader", {}).get(
            "grade_id", ""
        ):
            output.show(f"```python\n{percent_format.solution_of(cell.source)}\n```")


def reset(key: str) -> None:
    """Start the notebook of an exercise over, and put its Python file aside, if there is one. What you have written is
    kept, in a copy with the date in its name.

    Raises ValueError for a key that does not exist.
    """
    exercise = find_exercise(key)
    try:
        notebook, copy = build.reset(exercise.notebook)
    except FileNotFoundError as error:
        output.show(f"Nothing was changed: {error}.")
        return
    print(f"{notebook.name} is as new." + (f" Your work is in {copy.name}, beside it." if copy else ""))
    for script in {Path(f"{exercise.notebook}.py").resolve(), notebook.with_suffix(".py").resolve()}:
        if script.is_file() and script.parent != places.ROOT / "solutions":  # where masters are
            print(f"{script.name} is {build.set_aside(script).name} now.")
    if trouble := attempts.forget(exercise.notebook):
        print(trouble)
