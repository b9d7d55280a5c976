"""What a plot stands on: a new figure has the theme of the notebook, and all that is drawn later can be read on it.

A plot on axes of somebody else takes their figure as it is, so what is drawn asks the paper and not the notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .palette import GROUNDS, Ground
from .theme import notebook_theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """A pyplot figure, in inches, on paper of the notebook's theme."""
    from matplotlib import pyplot  # only pyplot shows a figure by itself in a notebook, so only here

    return pyplot.figure(figsize=(width, height), layout="constrained", facecolor=GROUNDS[notebook_theme()].paper)


def theme_under(ax: Axes) -> str:
    """ "dark" if the axes stand on dark paper of ours, else "light"."""
    from matplotlib.colors import same_color

    figure = ax.get_figure(root=True)
    return "dark" if figure and same_color(figure.get_facecolor(), GROUNDS["dark"].paper) else "light"


def ground_under(ax: Axes) -> Ground:
    """The ground of that theme."""
    return GROUNDS[theme_under(ax)]


def dress(ax: Axes) -> None:
    """Make spines, ticks, labels, title and legend readable on the paper under them."""
    ground = ground_under(ax)
    ax.set_facecolor(ground.paper)
    ax.tick_params(which="both", colors=ground.ink)
    for spine in ax.spines.values():
        spine.set_color(ground.ink)
    for words in (ax.xaxis.label, ax.yaxis.label):
        words.set_color(ground.ink)
    for where in ("left", "center"):
        ax.set_title(ax.get_title(loc=where), loc=where, color=ground.ink)
    if legend := ax.get_legend():
        for words in legend.get_texts():
            words.set_color(ground.ink)
        legend.get_frame().set_facecolor(ground.paper)
