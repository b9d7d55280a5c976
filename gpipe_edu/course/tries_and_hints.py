"""Tries, hints and solutions: help comes one step at a time, each after an honest try, and stays once it is there.

A try is honest if the code has changed since the last one: checking the same answer again earns nothing. There are two
ways out of an exercise: seeing a solution, and starting again.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, Final

from gpipe_edu.base import store
from gpipe_edu.judge.exercise import Exercise, all_exercises, find_exercise
from gpipe_edu.judge.findings import Report

from . import how_to_ask
from .building import build, percent_format, places
from .notebook import output

_SECTION: Final = "exercises"
_REMEMBERED: Final = 50


def record(report: Report, digest: str) -> str:
    """Store what a check found; returns a sentence if it could not be stored."""
    try:
        with store.change(_SECTION) as kept:
            entry = kept[report.key] = _entry(kept, report.key)
            if digest not in entry["seen"]:
                entry["seen"] = [*entry["seen"], digest][-_REMEMBERED:]
                entry["tries"] += 1
            entry["slip"] = report.first.slip if report.first else ""
            if report.state == "passed" and (not entry["passed"] or entry["but"]):
                entry["passed"], entry["but"] = date.today().isoformat(), bool(report.passed_over)
    except OSError as error:
        return f"Your result could not be kept ({error}). Set {store.HOME} to a folder you may write to."
    return ""


def state(key: str) -> dict[str, Any]:
    """tries, hints (how many were shown), passed (a date or ""), but (whether that breaks a promise), slip (what the
    last check found, or "") of an exercise."""
    try:
        return _entry(store.read(_SECTION), key)
    except OSError:
        return _entry({}, key)


def offer(exercise: Exercise) -> str:
    """What to look at after a try: our solution if it was right, otherwise a hint."""
    key, most, now = exercise.key, len(exercise.hints), state(exercise.key)
    if now["passed"]:
        return f"Our way to write it: {how_to_ask.solution(key)}."
    if now["hints"] < most and now["tries"] > now["tries_at_hint"]:
        return f"Stuck? {how_to_ask.hint(key)} has hint {now['hints'] + 1} of {most}."
    return f"Stuck? {how_to_ask.hint(key)} shows the hints again." if now["hints"] else ""


def hint(key: str) -> None:
    """Show the next hint of an exercise if a try has earned it, and all earlier ones; what the last check found may
    have a hint of its own, which comes first and uses up none of the others.

    Raises ValueError for a key that does not exist.
    """
    exercise = find_exercise(key)
    key, hints, now = exercise.key, exercise.hints, state(exercise.key)
    last, most = "", len(hints)
    if now["passed"]:
        now["hints"] = most
    elif now["hints"] < most and now["tries"] > now["tries_at_hint"]:
        now["hints"] += 1
        _keep(key, hints=now["hints"], tries_at_hint=now["tries"])
    elif now["hints"] < most:
        more = "another" if now["hints"] else "your own"
        last = f"Hint {now['hints'] + 1} of {most} comes after {more} try: change the code and check it."
    else:
        last = f"That was all. {how_to_ask.solution(key, give_up=True)} shows one way to write it."
    own = exercise.hint_for(now["slip"])
    shown = [f"**To what the check has found:** {own}"] if own else []
    shown += [f"**Hint {number} of {most}.** {text}" for number, text in enumerate(hints[: now["hints"]], start=1)]
    output.show("\n\n".join(filter(None, [*shown, last])))


def forget(notebook: str) -> str:
    """Start the exercises of a notebook over: no tries, no hints. Returns a sentence if that could not be stored."""
    try:
        with store.change(_SECTION) as kept:
            for one in all_exercises().values():
                if one.notebook == notebook:
                    kept.pop(one.key, None)
    except OSError as error:
        return f"Tries and hints could not be forgotten ({error}). Set {store.HOME} to a folder you may write to."
    return ""


def _keep(key: str, **values: Any) -> None:
    try:
        with store.change(_SECTION) as kept:
            kept[key] = {**_entry(kept, key), **values}
    except OSError:
        return  # the hint is shown all the same


def _entry(kept: dict[str, Any], key: str) -> dict[str, Any]:
    """The entry of an exercise with all fields present and of the right type, even if the file is damaged."""
    found = kept.get(key)
    found = found if isinstance(found, dict) else {}
    empty: dict[str, Any] = {
        "tries": 0,
        "seen": [],
        "hints": 0,
        "tries_at_hint": 0,
        "passed": "",
        "but": False,
        "slip": "",
    }
    return {name: found[name] if type(found.get(name)) is type(value) else value for name, value in empty.items()}


def solution(key: str, give_up: bool = False) -> None:
    """Show one way to write the function of an exercise: after it is solved, or when you give up.

    If the course came without its solutions, this says so. Raises ValueError for a key that does not exist.
    """
    exercise = find_exercise(key)
    key = exercise.key
    if not state(key)["passed"] and not give_up:
        output.show(f"Not solved yet. To see a solution all the same: {how_to_ask.solution(key, give_up=True)}.")
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
    if trouble := forget(exercise.notebook):
        print(trouble)
