"""How `diagnose` is called."""

from __future__ import annotations

from typing import Any, Final

from gpipe_edu.judge.guest.forms import gather
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.timeline import Message

HIDDEN: Final = {"gpipe_edu.diagnose": "diagnose"}


def perform(diagnose: Any, spans: list[Any], messages: list[Any], layers: list[int]) -> Any:
    """What the function says of a profile, and its `layers` as they are afterwards."""
    timeline = Timeline([Span(*span) for span in spans], len(layers), messages=[Message(*one) for one in messages])
    layers = list(layers)
    return gather(diagnose(timeline, layers)), layers
