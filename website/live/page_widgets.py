"""What the package's widgets need of anywidget, for a page of the site: traits, and messages in both directions.

It is put in anywidget's place (`host.start`). A page shows a widget with the widget's own script (`widgets.js`), so
there is no comm and nothing of ipywidgets.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import traitlets

from . import wire

MIME = "application/x-gpipe-edu-widget"
"""The form in which a page gets a widget: its number."""

widgets: list[AnyWidget] = []
"""Each by its number."""

_sent_scripts: set[str] = set()
"""Classes whose script the page already has."""


def begin_page() -> None:
    """A new page has no script yet."""
    _sent_scripts.clear()


class AnyWidget(traitlets.HasTraits):
    """A widget's state, and whom to tell of messages from the page. Private names must differ from our widgets'."""

    _esm: ClassVar[str] = ""
    _css: ClassVar[str] = ""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._page_listeners: list[Callable[..., Any]] = []
        self._from_page: Mapping[str, Any] = {}
        self._on_a_page = False
        self.number = len(widgets)
        widgets.append(self)
        self.observe(self._pass_on, list(self.trait_names(sync=True)))

    def open(self) -> dict[str, Any]:
        """The state, for a page that from now on is told about each change."""
        self._on_a_page = True
        found: dict[str, Any] = self.trait_values(sync=True)
        return found

    def on_msg(self, hear: Callable[..., Any]) -> None:
        """`hear(widget, content, buffers)` is called with each message from the page."""
        self._page_listeners.append(hear)

    def send(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """A message to the page."""
        packed = [base64.b64encode(bytes(each)).decode("ascii") for each in buffers]
        wire.send(widget=self.number, said=content, buffers=packed)

    def hear(self, content: Any, buffers: Sequence[str] = ()) -> None:
        """A message from the page."""
        for listener in self._page_listeners:
            listener(self, content, [memoryview(base64.b64decode(each)) for each in buffers])

    def update(self, state: Mapping[str, Any]) -> None:
        """What the page has changed; it is not told that again, or a slider would jump back while it is moved."""
        self._from_page = state
        try:
            for name, value in state.items():
                setattr(self, name, value)
        finally:
            self._from_page = {}

    def _pass_on(self, change: Any) -> None:
        known = change.name in self._from_page and self._from_page[change.name] == change.new
        if self._on_a_page and not known:
            wire.send(widget=self.number, changed={change.name: change.new})

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its number; the script goes to the page with the first widget of a class."""
        name = type(self).__name__
        if name not in _sent_scripts:
            _sent_scripts.add(name)
            wire.send(module=name, script=self._esm, style=self._css)
        return {MIME: {"widget": self.number, "module": name, "state": self.open()}}, {}
