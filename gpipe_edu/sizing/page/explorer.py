"""`PlanExplorer`, a plan with sliders in a notebook: how many devices, how fast their links, how large the mini-batch.

The page says where its sliders stand, in one message, and waits for the answer, one trait: so no requests pile up while
a search takes seconds, and a second view of the same widget shows what the first has asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, ClassVar, Final, NamedTuple

import anywidget
import traitlets

from gpipe_edu.sizing.job import Job
from gpipe_edu.sizing.planner import MOST_DEVICES, Planner, duration
from gpipe_edu.view.gantt.assets import asset, style, widget_module
from gpipe_edu.view.palette import PAGE

from .picture import as_html

NETWORKS: Final = (1.25e9, 3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9)
"""Bytes per second of a device's link to other nodes, one way: 10 to 800 Gbit/s, as Ethernet and InfiniBand come."""

_TIMES: Final = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
"""Of the mini-batch that was given: others are another training."""


class Slider(NamedTuple):
    """What it turns, what it is called, its values, and each as a reader sees it."""

    name: str
    label: str
    values: tuple[float, ...]
    stops: tuple[str, ...]


class PlanExplorer(anywidget.AnyWidget):
    """What `Planner.explore` returns; `guide` is the one that its sliders ask for."""

    _esm: ClassVar[str] = widget_module("sizing/page/js/sliders.js")
    _css: ClassVar[str] = style() + asset("sizing/page/js/sliders.css")

    sliders = traitlets.List(traitlets.Dict()).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, guide: Planner) -> None:
        self.guide, self._first, self._all = guide, guide.job, sliders_of(guide.job)
        own = {"devices": guide.job.machine.devices, "link": _link(guide.job), "batch": guide.job.batch}
        at = {name: values.index(own[name]) for name, _, values, _ in self._all}
        super().__init__(
            sliders=[{"name": each.name, "label": each.label, "stops": list(each.stops)} for each in self._all],
            answer=self._answer(at),
        )
        self.on_msg(self._hear)

    def _hear(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        at = {each.name: int(content["wish"][each.name]) for each in self._all}
        try:
            self.guide = Planner(self._job(at), self.guide.ways)
        except ValueError as error:  # no plan is left
            self.answer = {"at": at, "html": f"<p>{escape(str(error))}</p>", "words": "No plan."}
            return
        self.answer = self._answer(at)

    def _job(self, at: Mapping[str, int]) -> Job:
        values = {each.name: each.values[at[each.name]] for each in self._all}
        machine = self._first.machine._replace(devices=int(values["devices"]))
        if "link" in values:
            turned: dict[str, Any] = {_which(self._first): values["link"]}
            machine = machine._replace(**turned)
        return self._first._replace(machine=machine, batch=int(values["batch"]))

    def _answer(self, at: Mapping[str, int]) -> dict[str, Any]:
        best = self.guide.best
        words = f"{duration(best.step)} a step, {best.mfu:.0%} MFU (planned)." if best else "Nothing fits."
        return {"at": dict(at), "html": as_html(self.guide, PAGE, folded=True), "words": words}

    def __repr__(self) -> str:
        return repr(self.guide)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if found is None:
            return None
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return {**data, "text/html": as_html(self.guide), "text/plain": repr(self)}, metadata


def sliders_of(job: Job) -> list[Slider]:
    """The sliders of a job; what it has now is one of their values. Links that take no time have none."""
    devices = sorted({job.machine.devices} | {2**power for power in range(MOST_DEVICES.bit_length())})
    batches = sorted({max(1, int(job.batch * times)) for times in _TIMES})
    found = [Slider("devices", "devices", tuple(devices), tuple(f"{count:,}" for count in devices))]
    own = _link(job)
    if own:
        links = tuple(sorted({own, *NETWORKS}))
        label = "link between nodes" if _which(job) == "network" else "link"
        found.append(Slider("link", label, links, tuple(f"{link / 1e9:.4g} GB/s" for link in links)))
    tokens = job.model.tokens
    stops = tuple(f"{N:,}" + (f" ({N * tokens / 1e6:.3g} M tokens)" if tokens > 1 else "") for N in batches)
    return [*found, Slider("batch", "batch", tuple(batches), stops)]


def _which(job: Job) -> str:
    return "network" if job.machine.node and job.machine.network else "link"


def _link(job: Job) -> float | None:
    found: float | None = getattr(job.machine, _which(job))
    return found
