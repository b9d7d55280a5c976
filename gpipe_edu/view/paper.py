"""The paper under a plot: a new figure has the theme of the notebook, and what is drawn later is readable on it.

A plot on the caller's axes leaves their figure as it is, so colours follow the paper and not the notebook.
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
    from matplotlib import pyplot  # in a notebook only pyplot figures show themselves, so pyplot is used only here

    return pyplot.figure(figsize=(width, height), layout="constrained", facecolor=GROUNDS[notebook_theme()].paper)


def theme_under(ax: Axes) -> str:
    """ "dark" if the axes are on dark paper of ours, else "light"."""
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
