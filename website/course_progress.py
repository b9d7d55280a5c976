"""How far a reader has come, on a page of its own and on the front page: counted in the browser, from its own store."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from gpipe_edu.course import challenge
from gpipe_edu.course.lessons import LESSONS, THREAD
from gpipe_edu.course.predictions import question
from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.puzzles import LEVELS
from gpipe_edu.view.html import json_element

HERE = Path(__file__).parent


def page() -> str:
    """The body of the page."""
    course = count()
    lessons = "".join(
        f'<tr data-lesson="{one["number"]}"><td class="done"></td><td><a href="{one["page"]}">{one["number"]} '
        f'{escape(one["title"])}</a></td><td class="how"></td></tr>'
        for one in course["lessons"]
    )
    exercises = "".join(
        f'<tr data-exercise="{one["key"]}"><td class="done"></td><td><a href="{one["page"]}">{one["key"]}</a> '
        f'{escape(one["title"])}</td><td class="how"></td></tr>'
        for one in course["exercises"]
    )
    text = (HERE / "progress.html").read_text(encoding="utf-8")
    return text.format(lessons=lessons, exercises=exercises) + script(course)


def script(course: dict[str, Any]) -> str:
    """The counting script, for a page at the top of the site."""
    return json_element('id="course"', json.dumps(course)) + '<script src="assets/progress.js"></script>'


def count() -> dict[str, Any]:
    """What there is to do: the keys under which the learner's file records what is done."""
    lessons = [
        {
            "number": one.number,
            "title": one.title,
            "page": f"notebooks/{one.notebook}.html",
            "predictions": (asked := question.keys(one.number)),
            "challenges": (wanted := challenge.challenges(f"{one.number}/")),
            "optional": [*filter(question.optional, asked), *filter(challenge.optional, wanted)],
        }
        for one in LESSONS
    ]
    exercises = [
        {"key": one.key, "title": one.title, "page": f"exercises/{one.notebook}.html"}
        for one in all_exercises().values()
    ]
    return {"lessons": lessons, "thread": THREAD, "exercises": exercises, "levels": [level.key for level in LEVELS]}
