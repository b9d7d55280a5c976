"""The plan of a lecture, `lectures/NN.toml`: which words, charts, votes and cells of a lesson make its slides.

    title = "Who works when"
    minutes = 45

    [[slide]]
    title = "The loop is not the time"
    words = "Markdown, for the wall: few lines."
    notes = "For the speaker's window and the handout."
    live = [{ schedule = "gpipe", K = 4, M = 4 }]      # charts to drag and play; several share one time axis
    picture = [{ schedule = "naive", K = 4, M = 1 }]   # the same, still
    explorer = { schedule = "gpipe", K = 4, M = 8 }    # one with controls
    vote = "03/loop"                                   # a prediction; its answer comes with the second key
    code = "sched-loop"                                # a code cell of the lesson, by its id

A slide has words beside at most one of the others. Numbers in `words` are those of the lesson, which asserts them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.course.building.places import ROOT
from gpipe_edu.course.lessons import lesson
from gpipe_edu.course.predictions import question
from gpipe_edu.course.predictions.choice import Choice
from gpipe_edu.schedule.recipes import RECIPES, by_name
from gpipe_edu.timeline import Costs, Timeline, simulate
from gpipe_edu.view.gantt.settings import Settings

_SHOWN: Final = ("live", "picture", "explorer", "vote", "code")
_MOST_LINES: Final = 16
"""Of code on a slide."""


class Slide(NamedTuple):
    """One slide: its words, and what else is on it. charts: to be drawn, live or still."""

    title: str
    words: str = ""
    notes: str = ""
    charts: tuple[Timeline, ...] = ()
    live: bool = False
    explorer: Settings | None = None
    vote: Choice | None = None
    code: str = ""


class Lecture(NamedTuple):
    """What a plan says."""

    number: str
    title: str
    minutes: int
    slides: tuple[Slide, ...]


def numbers(root: Path = ROOT) -> list[str]:
    """The lessons that have a lecture."""
    return sorted(path.stem for path in (root / "lectures").glob("*.toml"))


def read(number: str, root: Path = ROOT) -> Lecture:
    """The lecture for a lesson. Raises ValueError, naming the slide, for a plan that does not fit the lesson."""
    if number not in numbers(root):
        raise ValueError(f"there is no lecture {number!r}; there are {', '.join(numbers(root)) or 'none'}")
    plan = tomllib.loads((root / "lectures" / f"{number}.toml").read_text(encoding="utf-8"))
    cells = _cells(root / "notebooks" / f"{lesson(number).notebook}.ipynb")
    slides = tuple(_slide(f"{number}, slide {place}", entry, cells) for place, entry in enumerate(plan["slide"], 1))
    return Lecture(number, plan["title"], plan["minutes"], slides)


def _slide(where: str, entry: Mapping[str, Any], cells: Mapping[str, str]) -> Slide:
    unknown = sorted(set(entry) - {"title", "words", "notes", *_SHOWN})
    shown = [name for name in _SHOWN if name in entry]
    if unknown or len(shown) > 1 or "title" not in entry:
        raise ValueError(f"{where} has {', '.join(entry)}; it has a title, words, notes and one of {', '.join(_SHOWN)}")
    slide = Slide(entry["title"], entry.get("words", ""), entry.get("notes", ""))
    if "vote" in entry:
        return slide._replace(vote=question.find(entry["vote"]))
    if "code" in entry:
        text = cells.get(entry["code"])
        if text is None or text.count("\n") >= _MOST_LINES:
            raise ValueError(
                f"{where}: {entry['code']!r} is no code cell of the lesson with at most {_MOST_LINES} lines"
            )
        return slide._replace(code=text)
    if "explorer" in entry:
        settings = Settings(**entry["explorer"])
        return slide._replace(explorer=settings, charts=(settings.timeline(),))
    charts = tuple(_chart(where, one) for one in entry.get("live", entry.get("picture", ())))
    return slide._replace(charts=charts, live="live" in entry)


def _chart(where: str, entry: Mapping[str, Any]) -> Timeline:
    given = dict(entry)
    name, title = given.pop("schedule", ""), given.pop("name", "")
    if name not in RECIPES:
        raise ValueError(f"{where}: schedule is {name!r}; it must be one of {', '.join(RECIPES)}")
    made = by_name(name, given.pop("K"), given.pop("M"))
    planned = simulate(made, Costs(**given))
    return planned.with_name(title) if title else planned


def _cells(path: Path) -> dict[str, str]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in found if cell["cell_type"] == "code"}
