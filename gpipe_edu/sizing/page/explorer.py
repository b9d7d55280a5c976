"""`PlanExplorer`, a plan with sliders: how many devices, how fast their links, how large the mini-batch."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from gpipe_edu.sizing.in_words import duration
from gpipe_edu.sizing.job import MOST_DEVICES, Job
from gpipe_edu.view.palette import PAGE
from gpipe_edu.view.sliders import Slider, Sliders

from .picture import as_html

if TYPE_CHECKING:
    from gpipe_edu.sizing.planner import Planner

NETWORKS: Final = (1.25e9, 3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9)
"""Bytes per second of a device's link to other nodes, one way: 10 to 800 Gbit/s, as Ethernet and InfiniBand come."""

_TIMES: Final = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)
"""Multiples of the given mini-batch; anything beyond is a different training."""


class PlanExplorer(Sliders):
    """What `Planner.explore` returns; `guide` is the planner for what its sliders say."""

    def __init__(self, guide: Planner) -> None:
        self.guide, self._first = guide, guide.job
        sliders = sliders_of(guide.job)
        own = {"devices": guide.job.machine.devices, "link": _link(guide.job), "batch": guide.job.batch}
        super().__init__(sliders, {name: values.index(own[name]) for name, _, values, _ in sliders})

    def draw(self, values: Mapping[str, float]) -> tuple[str, str]:
        """The plan's picture, and its figures."""
        job = self._job(values)
        try:
            self.guide = self.guide if job == self.guide.job else type(self.guide)(job, self.guide.ways)
        except ValueError as error:  # no plan is left
            return f"<p>{escape(str(error))}</p>", "No plan."
        best = self.guide.best
        words = f"{duration(best.step)} a step, {best.mfu:.0%} MFU (planned)." if best else "Nothing fits."
        return as_html(self.guide, PAGE, folded=True), words

    def _job(self, values: Mapping[str, float]) -> Job:
        machine = self._first.machine._replace(devices=int(values["devices"]))
        if "link" in values:
            turned: dict[str, Any] = {_which(self._first): values["link"]}
            machine = machine._replace(**turned)
        return self._first._replace(machine=machine, batch=int(values["batch"]))

    def still(self) -> dict[str, Any]:
        """The picture without sliders."""
        return {"text/html": as_html(self.guide), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return repr(self.guide)


def sliders_of(job: Job) -> list[Slider]:
    """The sliders of a job, whose own values are among theirs. Links that take no time have none."""
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
