"""Tries, hints and solutions: help comes one step at a time, each after an honest try, and stays once it is there.

A try is honest if the code has changed since the last one: checking the same answer again earns nothing.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from gpipe_edu.base import store
from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.judge.findings import Report

from . import asking
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
            if report.state == "passed" and not entry["passed"]:
                entry["passed"] = date.today().isoformat()
    except OSError as error:
        return f"Your result could not be kept ({error}). Set {store.HOME} to a folder you may write to."
    return ""


def state(key: str) -> dict[str, Any]:
    """tries, hints (how many have been shown), passed (a date or "") of one exercise."""
    try:
        return _entry(store.read(_SECTION), key)
    except OSError:
        return _entry({}, key)


def offer(key: str) -> str:
    """What to look at after a try: our solution if it was right, otherwise a hint."""
    now = state(key)
    if now["passed"]:
        return f"Our way to write it: {asking.solution(key)}."
    if now["hints"] < 3 and now["tries"] > now["tries_at_hint"]:
        return f"Stuck? {asking.hint(key)} has hint {now['hints'] + 1} of 3."
    return f"Stuck? {asking.hint(key)} shows the hints again." if now["hints"] else ""


def hint(key: str) -> None:
    """Show the next hint of an exercise if a try has earned it, and all earlier ones.

    Raises ValueError for a key that does not exist.
    """
    exercise = find_exercise(key)
    key, hints, now = exercise.key, exercise.hints, state(exercise.key)
    last = ""
    if now["passed"]:
        now["hints"] = 3
    elif now["hints"] < 3 and now["tries"] > now["tries_at_hint"]:
        now["hints"] += 1
        _keep(key, hints=now["hints"], tries_at_hint=now["tries"])
    elif now["hints"] < 3:
        more = "another" if now["hints"] else "your own"
        last = f"Hint {now['hints'] + 1} of 3 comes after {more} try: change the code and check it."
    else:
        last = f"That was all. {asking.solution(key, give_up=True)} shows one way to write it."
    shown = [f"**Hint {number} of 3.** {text}" for number, text in enumerate(hints[: now["hints"]], start=1)]
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
    empty: dict[str, Any] = {"tries": 0, "seen": [], "hints": 0, "tries_at_hint": 0, "passed": ""}
    return {name: found[name] if type(found.get(name)) is type(value) else value for name, value in empty.items()}
