"""Activation memory over time as curves: the shape that tells GPipe's ramp from 1F1B's plateau.

Here the axes count time and memory, unlike those of a chart, so a learner can add lines of their own.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from gpipe_edu.timeline import Timeline
from gpipe_edu.timeline.memory import Size, memory_over_time

from .measures import heading, time_unit
from .paper import dress, new_figure, theme_under

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def memory_curve(
    timeline: Timeline,
    ax: Axes | None = None,
    *,
    boundary: Size = 0,
    interior: Size = 1,
    unit: str = "micro-batches",
) -> Axes:
    """A stepped line per device: the activations it holds, from sizes on paper; returns the axes.

    boundary, interior: as in `gpipe_edu.timeline.memory.memory_over_time`; unit: what they are counted in. Without
    `ax` a new pyplot figure is made. Raises ValueError if a size does not have one value per stage.
    """
    levels = memory_over_time(timeline, boundary, interior)
    own = ax is None
    if ax is None:
        ax = new_figure(9, 4).add_subplot()
    shown = time_unit(timeline.unit, timeline.makespan)
    named_every = -(-timeline.devices // 8)
    # The lightest colour can't be seen on light paper, nor the darkest ones on dark.
    scale, left_out = ("viridis", 1) if theme_under(ax) == "light" else ("viridis_r", 2)
    colours = mpl.colormaps[scale].resampled(timeline.devices + left_out)
    for (device, level), dashes in zip(enumerate(levels), cycle(("-", "--", "-.", ":")), strict=False):
        steps = [(timeline.start, 0.0), *level, (timeline.end, 0.0)]
        times = [(time - timeline.start) * shown.scale for time, _ in steps]
        held = [amount for _, amount in steps]
        # The colours run from the first device to the last, so a few names are enough where all would hide the lines.
        named = device % named_every == 0 or device == timeline.devices - 1
        label = f"device {device}, at most {max(held):g}" if named else f"_device {device}"
        ax.step(times, held, dashes, where="post", color=colours(device), linewidth=2.5, label=label)
    ax.set_xlabel(f"time in {shown.words}", fontsize=12)
    ax.set_ylabel(f"activations held, {unit}", fontsize=12)
    ax.set_title(", ".join(heading(timeline, shown)[:2]), fontsize=13, loc="left")
    ax.tick_params(labelsize=11)
    ax.margins(x=0.01)
    if all(held == int(held) for level in levels for _, held in level):
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    # A figure made by the caller has no room for a legend outside of its axes.
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if own else {"loc": "best"}
    ax.legend(fontsize=11, frameon=not own, **place)
    dress(ax)
    return ax
