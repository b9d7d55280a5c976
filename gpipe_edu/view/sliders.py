"""Sliders over a picture, in a notebook or on a page: they say where they stand, and Python draws.

The page asks in one message and waits for the answer, one trait: so no requests pile up while an answer takes seconds,
and a second view of the same widget shows what the first has asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import anywidget
import traitlets

from gpipe_edu.base.words import plural
from gpipe_edu.timeline import Timeline
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

from .compare import Comparison
from .gantt.assets import asset, style, widget_module
from .measures import time_unit
from .notebook import bundle, summary
from .svg import paint


class Slider(NamedTuple):
    """What it turns, what it is called, its values, and each as a reader sees it."""

    name: str
    label: str
    values: tuple[float, ...]
    stops: tuple[str, ...]


class Sliders(anywidget.AnyWidget):
    """A row of sliders, and what `draw` makes of where they stand: HTML, and a line that is read aloud.

    at: for each slider, by its name, the index of the value that it starts at.
    """

    _esm: ClassVar[str] = widget_module("view/js/sliders.js")
    _css: ClassVar[str] = style() + asset("view/js/sliders.css")

    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, sliders: Sequence[Slider], at: Mapping[str, int]) -> None:
        self.turned = tuple(sliders)
        super().__init__(
            sliders=[{"name": each.name, "label": each.label, "stops": list(each.stops)} for each in self.turned],
            answer=self._answer(at),
        )
        self.on_msg(self._hear)

    def draw(self, values: Mapping[str, float]) -> tuple[str, str]:
        """HTML, and a line, for these values of the sliders."""
        raise NotImplementedError

    def _hear(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        self.answer = self._answer({each.name: int(content["wish"][each.name]) for each in self.turned})

    def _answer(self, at: Mapping[str, int]) -> dict[str, Any]:
        html, words = self.draw({each.name: each.values[at[each.name]] for each in self.turned})
        return {"at": dict(at), "html": html, "words": words}

    def still(self) -> dict[str, Any]:
        """What is shown where no widget runs, by MIME type."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if found is None:
            return None
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return {**data, **self.still()}, metadata


class Slide(Sliders):
    """What `slide` returns."""

    def __init__(self, slider: Slider, draw: Callable[[Any], Comparison], start: int) -> None:
        self._draw = draw
        super().__init__([slider], {slider.name: start})

    def draw(self, values: Mapping[str, float]) -> tuple[str, str]:
        """The charts, and their lines."""
        (value,) = values.values()
        self._shown = self._draw(value)
        return paint(self._shown.layout, "page"), "; ".join(map(_line, self._shown.timelines))

    def still(self) -> dict[str, Any]:
        """The picture at the value where the slider stands."""
        return bundle(self._shown.layout, repr(self), self._shown.timelines)

    def __repr__(self) -> str:
        return repr(self._shown)


def _line(timeline: Timeline | StuckSchedule) -> str:
    if isinstance(timeline, StuckSchedule):
        return summary(timeline)
    makespan = time_unit(timeline.unit, timeline.makespan).show(timeline.makespan)
    return f"{timeline.name or 'schedule'}: {makespan}, bubble {timeline.bubble_fraction:.1%}"


def slide(
    label: str, values: Sequence[float], draw: Callable[[Any], Comparison], *, start: int = 0, unit: str = ""
) -> Slide:
    """Charts that follow a slider: `draw(value)`, a `ge.compare(...)`, for one of the values at a time.

    label: what the slider turns; unit: what follows its values. start: the index of the value that it starts at.
    Raises ValueError for fewer than two values, or a start that is not one of their indices.
    """
    if len(values) < 2:
        raise ValueError(f"values has {plural(len(values), 'value')}; a slider needs two or more")
    if not 0 <= start < len(values):
        raise ValueError(f"start is {start}; it must be 0 to {len(values) - 1}, the place of one of the values")
    stops = tuple(f"{value:,g}{unit and ' ' + unit}" for value in values)
    return Slide(Slider("value", label, tuple(values), stops), draw, start)
