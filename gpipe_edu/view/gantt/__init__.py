"""The interactive Gantt chart: explore a schedule by its controls, scrub through time, compare several.

A control's change is one message to Python and one spec back (`settings.py`, `spec.py`). So is opening a saved trace:
the file goes to the kernel as it is, up to 9 MB, because Jupyter closes the connection at a message of 10 MiB; a
self-contained page (`page.py`), which has no kernel, says so. After a kernel's restart a trait is dropped silently but
a message raises an error, so a message goes before every request. The modules of `view/js/` are joined into one for
anywidget and for the page, so there is no bundler; its layout and that of still pictures are pinned by one golden file.
Explorer and puzzle fit 600 pixels at a width of 930.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpipe_edu.base.validate import number
from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Costs, Timeline, calibrate, simulate
from gpipe_edu.view.layout import not_drawable, refuse

from .settings import Settings, recognise

if TYPE_CHECKING:
    from .widget import Gantt

__all__ = ["gantt"]


def gantt(
    *schedules_or_timelines: Schedule | Timeline,
    costs: Costs | None = None,
    memory: bool | None = None,
    critical_path: bool = False,
    cap: float | None = None,
    speed: float = 1.0,
    theme: str = "auto",
    **controls: Any,
) -> Gantt:
    """The interactive chart: given nothing or one recipe, an explorer with controls; given several, a comparison.

    costs: how long the ops of a schedule take; beside a timeline in seconds, the costs measured in it. memory: show
    what each device holds; by default only in a single chart, since two with it are taller than a screen. cap: the
    micro-batches a device has room for, drawn as a line. theme: "auto" follows the notebook, or "light" or "dark".
    controls: where the explorer starts, such as schedule="1f1b", K=4, M=8, V, recompute="early", F, B, R, send,
    factors=[1, 2, 1, 1] (how many times the costs each stage takes).

    A schedule that is no recipe's, or whose costs the controls cannot express, is shown without controls. Raises
    TypeError for anything other than schedules and timelines, ValueError for a schedule that cannot run or a bad
    option.
    """
    for given in schedules_or_timelines:
        if not isinstance(given, (Schedule, Timeline)):
            raise not_drawable("gantt", given)
    if costs is not None and not isinstance(costs, Costs):
        raise TypeError(f"costs is {costs!r}; it must be a Costs, such as Costs(F=1, B=2)")
    if theme not in ("auto", "light", "dark"):
        raise ValueError(f'theme is {theme!r}; it must be "auto", "light" or "dark"')
    if not number("speed", speed):
        raise ValueError("speed is 0; time would stand still, so give a number above 0")
    options = {
        "memory": len(schedules_or_timelines) < 2 if memory is None else bool(memory),
        "critical_path": bool(critical_path),
        "speed": float(speed),
        "theme": theme,
    }
    room = None if cap is None else number("cap", cap)
    settings = _settings(schedules_or_timelines, costs, controls)
    timelines = [settings.timeline()] if settings else _timelines(schedules_or_timelines, costs)
    refuse(timelines)
    try:
        from .widget import Gantt
    except ImportError as error:
        raise ImportError(
            "ge.gantt needs anywidget: pip install anywidget; a still picture needs nothing: ge.compare(...)"
        ) from error
    return Gantt(timelines, settings, cap=room, **options)


def _settings(given: Sequence[object], costs: Costs | None, controls: dict[str, Any]) -> Settings | None:
    """Where the explorer starts, None for a chart without controls."""
    known = Settings.__dataclass_fields__
    unknown = sorted(set(controls) - set(known))
    if unknown:
        raise TypeError(f"gantt has no option {unknown[0]!r}; the explorer's controls are {', '.join(known)}")
    if not given:
        return _set_costs(Settings(**controls), costs)
    if controls:
        raise ValueError(
            f"{', '.join(controls)} would change what you gave to draw; give either schedules and timelines, or "
            f"controls"
        )
    if len(given) == 1 and isinstance(given[0], Schedule):
        settings = recognise(given[0])
        return settings and _set_costs(settings, costs)
    return None


def _set_costs(settings: Settings, costs: Costs | None) -> Settings | None:
    """The settings with these costs; None if the controls cannot express them, such as costs for each single stage."""
    if costs is None:
        return settings
    F, B, R = costs.F, costs.B, costs.F if costs.R is None else costs.R
    if isinstance(F, Sequence) or isinstance(B, Sequence) or isinstance(R, Sequence):
        return None
    if (costs.C, costs.I, costs.W, costs.micro_batches, costs.unit) != (None, None, None, None, ""):
        return None
    return replace(settings, F=F, B=B, R=R, send=costs.send, link=costs.link, overlap=costs.overlap)


def _timelines(given: Sequence[Schedule | Timeline], costs: Costs | None) -> list[Timeline]:
    """Schedules as plans. Beside a timeline in seconds a plan has to be in seconds too, or they share no axis."""
    measured = next((each for each in given if isinstance(each, Timeline) and each.unit == "s"), None)
    planned = costs or (calibrate(measured) if measured else Costs())
    return [each if isinstance(each, Timeline) else simulate(each, planned) for each in given]
