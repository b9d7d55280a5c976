"""What the package's widgets need of anywidget, for a page of the site: traits, and messages in both directions.

A page's own script shows them (`host.py` hands their state over), so there is no comm and nothing of ipywidgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import traitlets


class AnyWidget(traitlets.HasTraits):
    """A widget's state, and whom to tell of messages from the page. sent: messages for the page, in order."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.sent: list[Any] = []
        self._listeners: list[Callable[..., Any]] = []

    def on_msg(self, hear: Callable[..., Any]) -> None:
        """`hear(widget, content, buffers)` is called with each message of the page."""
        self._listeners.append(hear)

    def send(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """A message for the page, which takes it with the answer to its own."""
        self.sent.append(content)

    def hear(self, content: Any) -> None:
        """A message from the page."""
        for listener in self._listeners:
            listener(self, content, [])

    def synced(self) -> dict[str, Any]:
        """The traits that a page sees."""
        found: dict[str, Any] = self.trait_values(sync=True)
        return found
