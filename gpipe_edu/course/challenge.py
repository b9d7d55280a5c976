"""Your turn: a learner types a schedule, a cut or a number, and what comes of it is shown; once solved, it is kept.

What is asked for stands in `challenges.toml`: how large, and what it must reach. Judged are results, never a text, so
any way there is right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from gpipe_edu import store
from gpipe_edu.schedule import Schedule, ScheduleError
from gpipe_edu.timeline import Timeline, simulate

from . import page

_SECTION: Final = "challenges"


class Judged(NamedTuple):
    """What came of an attempt: whether it is solved, a sentence, and a chart if there is one."""

    solved: bool
    words: str
    chart: Timeline | None = None


def attempt(key: str, answer: object) -> None:
    """Judge `answer` to the challenge `key`, such as "03/lean", and show what came of it.

    answer: a schedule as text or as a Schedule, a cut as a tuple of layer counts, or a number, whatever the lesson asks
    for. Raises ValueError for a key that does not exist, TypeError for an answer of another kind.
    """
    judge, wish = _find(key)
    judged = judge(wish, answer)
    trouble = _keep(key) if judged.solved else ""
    page.show(" ".join(filter(None, ["**Solved.**" if judged.solved else "**Not yet.**", judged.words, trouble])))
    if judged.chart is None:
        return
    if page.in_a_notebook():
        import_module("IPython.display").display(judged.chart)
    else:
        from gpipe_edu.view.text import render_text

        print(render_text(judged.chart))


def challenges(lesson: str = "") -> list[str]:
    """The keys of a lesson's challenges, or of all."""
    return [key for key in _wishes() if key.startswith(lesson)]


def solved() -> list[str]:
    """The keys of the challenges that are solved."""
    try:
        kept = store.read(_SECTION)
    except OSError:
        return []
    return [key for key in _wishes() if kept.get(key) == "solved"]


def _schedule(wish: Mapping[str, Any], answer: object) -> Judged:
    if not isinstance(answer, (str, Schedule)):
        raise TypeError(f"answer is {answer!r}; it must be a schedule as text, a line per device, or a Schedule")
    try:
        schedule = Schedule.parse(answer, name="yours") if isinstance(answer, str) else answer
        schedule.check()
    except ScheduleError as error:
        return Judged(False, f"It cannot run: {error}")
    plan = simulate(schedule)
    size = (wish["K"], wish["K"], wish["M"])
    if (schedule.devices, schedule.stages, schedule.micro_batches) != size:
        wanted = f"{wish['K']} devices with a stage each and {wish['M']} micro-batches"
        return Judged(False, f"It runs, but it needs {wanted}.", plan)
    missed = []
    if plan.makespan > wish.get("makespan", plan.makespan):
        missed.append(f"it takes {plan.makespan:g} units and may take {wish['makespan']:g}")
    room = wish.get("in_flight", plan.peak_in_flight)
    if any(held > most for held, most in zip(plan.peak_in_flight, room, strict=True)):
        missed.append(f"the devices hold {_list(plan.peak_in_flight)} micro-batches and may hold {_list(room)}")
    if missed:
        return Judged(False, f"It runs, but {' and '.join(missed)}.", plan)
    return Judged(True, f"It takes {plan.makespan:g} units, the devices hold {_list(plan.peak_in_flight)}.", plan)


def _cut(wish: Mapping[str, Any], answer: object) -> Judged:
    whole = isinstance(answer, (tuple, list)) and all(type(count) is int for count in answer)
    if not whole:
        raise TypeError(f"answer is {answer!r}; it must be the layers of each stage, such as (3, 3, 3)")
    counts: list[int] = list(answer)  # type: ignore[call-overload]
    costs = wish["costs"]
    if len(counts) != wish["K"] or sum(counts) != len(costs) or min(counts) < 1:
        return Judged(False, f"{_list(counts)} does not place {len(costs)} layers on {wish['K']} stages.")
    stages = [sum(costs[start:end]) for start, end in pairwise([0, *accumulate(counts)])]
    words = f"The stages cost {_list(stages)}; the largest may cost {wish['largest']}."
    return Judged(max(stages) <= wish["largest"], words)


def _batch(wish: Mapping[str, Any], answer: object) -> Judged:
    if type(answer) is not int:
        raise TypeError(f"answer is {answer!r}; it must be a whole number of samples")
    if answer < 1:
        return Judged(False, "A mini-batch has at least one sample.")
    needed = wish["fixed"] + answer * wish["sample"]
    words = f"N = {answer} needs {needed / 1e6:.2f} MB of {wish['room'] / 1e6:g} MB"
    if needed > wish["room"]:
        return Judged(False, f"{words}: it does not fit.")
    if needed + wish["sample"] <= wish["room"]:
        return Judged(False, f"{words}: it fits, but a larger one fits, too.")
    return Judged(True, f"{words}, and one sample more would not fit.")


_JUDGES: Final[dict[str, Callable[[Mapping[str, Any], object], Judged]]] = {
    "schedule": _schedule,
    "cut": _cut,
    "batch": _batch,
}


@cache
def _wishes() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("gpipe_edu.course").joinpath("challenges.toml").read_text(encoding="utf-8"))


def _find(key: str) -> tuple[Callable[[Mapping[str, Any], object], Judged], dict[str, Any]]:
    if key not in _wishes():
        raise ValueError(f"there is no challenge {key!r}; there are {', '.join(_wishes())}")
    wish = _wishes()[key]
    return _JUDGES[wish["kind"]], wish


def _keep(key: str) -> str:
    try:
        with store.change(_SECTION) as kept:
            kept[key] = "solved"
    except OSError as error:
        return f"(This could not be kept: {error}. Set {store.HOME} to a folder you may write to.)"
    return ""


def _list(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in values)
