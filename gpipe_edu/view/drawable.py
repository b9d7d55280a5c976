"""What is said to those who ask for a picture of something that has none."""

from __future__ import annotations

from gpipe_edu.schedule.schedule import meant


def not_drawable(function: str, given: object) -> TypeError:
    """The error for `given`, which `function` (gantt or compare) was to draw: what it draws, and what may be meant."""
    advice = ". Give them one by one, without brackets" if isinstance(given, (list, tuple)) else meant(given)
    return TypeError(
        f"{function} draws schedules and timelines, such as ge.{function}(ge.gpipe(4, 8)); got {given!r}{advice}"
    )
