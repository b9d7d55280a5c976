"""A schedule that a reader types: judged at each keystroke, timed with the reader's costs, drawn beside a kept one.

What a reader may type is text, so every refusal is a sentence that says what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple
from warnings import catch_warnings, simplefilter

import gpipe_edu as ge
from gpipe_edu.schedule.pipeline_csv import torchtitan_flags
from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.timeline import Costs, Timeline
from gpipe_edu.timeline.stuck_schedule import StuckSchedule, standstill
from gpipe_edu.view.gantt.differences import differences
from gpipe_edu.view.gantt.settings import MOST, RECOMPUTE_WHEN, Settings, schedules
from gpipe_edu.view.gantt.spec import kind_names, spec, stuck_spec
from gpipe_edu.view.measures import TimeUnit

MOST_OPS: Final = 5000
"""Of one schedule: with more, a browser's Python takes longer to answer than people wait for a key."""

COSTS: Final = {"F": "1", "B": "2", "R": "", "C": "", "I": "", "W": "", "send": "0", "link": "0"}
"""The costs that one may type, and what is there at first; an empty one takes the default of `Costs`."""

_NAMES: Final = {"send": "latency"}
"""What the page calls a cost, where `Costs` has another word."""


_SHOWN: Final = TimeUnit(1, "")


class Judged(NamedTuple):
    """One typed schedule: a sentence about it, whether it cannot run, the letters of its ops, and what can be drawn."""

    says: str
    stuck: bool
    kinds: str = ""
    drawn: Timeline | StuckSchedule | None = None
    spec: Mapping[str, Any] | None = None
    """What the interactive chart takes."""


def judge(rows: str, costs: Mapping[str, str], kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a typed schedule does: a sentence, and the chart, None where nothing can be drawn.

    kept: {"rows", "costs"} of the one to compare it with, drawn below it on the same axis.
    """
    typed = _judged("Your schedule", rows, tuple(sorted(costs.items())))
    other = kept and _judged("Kept", kept["rows"], tuple(sorted(kept["costs"].items())))
    says = typed.says
    if other and not other.drawn:
        says += f"\nThe kept schedule is not drawn: {other.says}"
    chart = _chart([each for each in (typed, other) if each and each.drawn]) if typed.drawn else None
    return {"says": says, "stuck": typed.stuck, "kinds": typed.kinds, "chart": chart}


def recipe(**wanted: Any) -> dict[str, str]:
    """A recipe's rows, for the box; or why there are none. wanted: settings as the explorer takes them."""
    try:
        settings = Settings.of(wanted)
        # How many ops a micro-batch has on one device is the same for all sizes, so a small schedule shows it.
        ops = len(replace(settings, K=1, M=1).build().rows[0]) * settings.K * settings.M
        if ops > MOST_OPS:
            raise ValueError(
                f"K = {settings.K} and M = {settings.M} make {ops} ops; the box takes up to {MOST_OPS}, so choose a "
                f"smaller K or M"
            )
    except (ValueError, TypeError) as error:
        return {"refused": str(error)}
    return {"rows": str(settings.build())}


def as_csv(rows: str) -> dict[str, str]:
    """PyTorch's pipeline CSV of a typed schedule, its file and torchtitan's flags for it; or why there is none."""
    file = "schedule.csv"
    try:
        typed, _ = _parsed("", rows)
        return {"csv": typed.to_csv(), "file": file, "flags": torchtitan_flags(typed.rows, file)}
    except ValueError as error:
        return {"refused": str(error)}


def offer(rows: str) -> dict[str, Any]:
    """What the page's controls offer, and where they begin: at the size of `rows`, which stand in the box."""
    first = ge.Schedule.parse(rows)
    begin = Settings(K=first.devices, M=first.micro_batches)
    forms = {name: form_of(name)._asdict() for name in schedules()}
    return {
        "names": kind_names(),
        "schedules": forms,
        "recomputes": RECOMPUTE_WHEN,
        "settings": {name: getattr(begin, name) for name in ("schedule", "K", "M", "V", "recompute")},
        "costs": COSTS,
    }


@lru_cache(maxsize=8)  # the kept one is asked for with each keystroke
def _judged(name: str, rows: str, costs: tuple[tuple[str, str], ...]) -> Judged:
    try:
        typed, note = _parsed(name, rows)
        problems = typed.problems()
    except ValueError as error:
        return Judged(str(error), stuck=True)
    kinds = "".join(sorted({op.kind for row in typed.rows for op in row}))
    said = problems[0].message if problems else ""
    # A number that is far too large, as from a key held too long, names more stages than could be drawn.
    if not 1 <= typed.stages <= MOST_OPS:
        return Judged(said, stuck=True, kinds=kinds)
    try:
        timed = _costs(dict(costs))
        drawn: Any = standstill(typed, timed) if problems else ge.simulate(typed, timed)
    except ValueError as error:
        return Judged("\n".join(filter(None, [said, str(error)])), stuck=True, kinds=kinds)
    sent = stuck_spec(drawn, _SHOWN) if problems else spec(drawn, _SHOWN, critical_path=True)
    return Judged("\n".join(filter(None, [note, said or _figures(drawn)])), bool(problems), kinds, drawn, sent)


def _parsed(name: str, rows: str) -> tuple[ge.Schedule, str]:
    """A typed schedule, and what a reader has to know about how it was read. Raises ValueError if it cannot be."""
    words = len(re.split(r"[\s,]+", rows.strip()))
    if words > MOST_OPS:
        raise ValueError(f"The box has {words} ops, and takes up to {MOST_OPS}.")
    with catch_warnings(record=True) as notes:
        simplefilter("always")
        typed = ge.Schedule.parse(rows, name=name)
    return typed, "\n".join(f"{note.message}." for note in notes)


def _figures(drawn: Timeline) -> str:
    return f"It runs: makespan {drawn.makespan:g}, bubble {drawn.bubble_fraction:.1%} of the devices' time."


def _costs(typed: Mapping[str, str]) -> Costs:
    """The costs that somebody typed. Raises ValueError for what is not a cost."""
    given: dict[str, Any] = {}
    for name, text in typed.items():
        values = [_cost(_NAMES.get(name, name), word) for word in text.replace(",", " ").split()]
        if len(values) > 1 and name in ("send", "link"):
            raise ValueError(f"{_NAMES.get(name, name)} is {text!r}; it must be one number, for all devices")
        if values:
            given[name] = values if len(values) > 1 else values[0]
    return Costs(**given)


def _cost(name: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1
    if not 0 <= value <= MOST["cost"]:
        raise ValueError(
            f"{name} has {word!r}; a time is a number from 0 to {MOST['cost']}, such as 1 or 0.5, or several, one for "
            f"each stage, with blanks or commas between them"
        )
    return value


def _chart(drawn: list[Judged]) -> dict[str, Any]:
    """What the interactive chart takes, all on one axis."""
    timelines = [each.drawn for each in drawn if isinstance(each.drawn, Timeline)]
    # The typed one is described by how it differs from the kept one.
    words = differences(timelines[::-1]) if len(timelines) > 1 else []
    return {"error": None, "specs": [each.spec for each in drawn], "words": words}
