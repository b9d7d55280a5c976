"""`Gantt`, the widget in a notebook: keeps the timelines, answers the page's requests, writes files.

A request and its answer are one message each. The answer is one JSON text, because a widget's state is copied and
compared piece by piece, which for lists of 30,000 numbers takes longer than drawing them. Files for the page's "save
as" are each made by Python, so that saved pictures are the ones for papers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import anywidget
import traitlets

from gpipe_edu.timeline import Timeline
from gpipe_edu.view.layout import layout
from gpipe_edu.view.notebook import summary, widget_bundle
from gpipe_edu.view.svg import paint

from .assets import style, widget_module
from .page import explore, number, offer, open_traces, page, payload, refusal
from .settings import Settings
from .spec import to_json

_MOST_OPS_IN_PNG = 4000
"""A still picture of more ops takes seconds and shows no more than its summary."""


class Gantt(anywidget.AnyWidget):
    """The interactive chart that `ge.gantt` returns.

    Traits that can be read, set and observed: cursor, selected, zoom, speed, theme, memory, critical_path. cursor is a
    time from the start of the step; selected an op such as "F3@1", "" for none; zoom is [] for the whole step or
    [from, to]; theme is "auto", "light" or "dark".
    """

    _esm: ClassVar[str] = widget_module()
    _css: ClassVar[str] = style()

    offer = traitlets.Unicode().tag(sync=True)
    payload = traitlets.Unicode().tag(sync=True)
    wish = traitlets.Dict().tag(sync=True, echo_update=False)
    cursor = traitlets.Float(None, allow_none=True).tag(sync=True, echo_update=False)
    selected = traitlets.Unicode("").tag(sync=True, echo_update=False)
    zoom = traitlets.List(traitlets.Float(), maxlen=2).tag(sync=True, echo_update=False)
    speed = traitlets.Float(1.0).tag(sync=True)
    theme = traitlets.Enum(["auto", "light", "dark"], "auto").tag(sync=True)
    memory = traitlets.Bool(True).tag(sync=True)
    critical_path = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        timelines: Sequence[Timeline],
        settings: Settings | None = None,
        *,
        cap: float | None = None,
        **options: Any,
    ) -> None:
        self._timelines, self._settings, self._cap = tuple(timelines), settings, cap
        self._kept: Settings | None = None
        super().__init__(offer=to_json(offer(settings)), **options)
        self._draw(0)
        self.observe(self._grant, "wish")
        self.observe(lambda change: self._draw(int(self.wish.get("serial", 0))), "critical_path")
        self.on_msg(self._hear)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """What is drawn now."""
        return self._timelines

    @property
    def settings(self) -> Settings | None:
        """The settings of the explorer's controls; None where there are no controls."""
        return self._settings

    def _grant(self, change: Mapping[str, Any]) -> None:
        """Do what the page requests, or say why not."""
        wish = change["new"]
        serial = int(wish.get("serial", 0))
        try:
            wanted, kept = _read(wish)
            timelines = tuple(each.timeline() for each in (wanted, kept) if each)
        except (ValueError, TypeError) as error:
            self.payload = number(refusal(error), serial)
            return
        self._timelines, self._settings, self._kept = timelines, wanted, kept
        self._draw(serial)

    def _draw(self, serial: int) -> None:
        if self._settings is not None:
            answer = explore(self._settings, self._kept, self.critical_path, self._cap)
        else:
            answer = to_json(payload(self._timelines, critical_path=self.critical_path, cap=self._cap))
        self.payload = number(answer, serial)

    def _hear(self, widget: object, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        if "save" in content:
            self._save(content["save"])
        elif "open" in content:
            self._open(content, buffers)
        elif "ahead" in content:
            self._look_ahead(content)

    def _save(self, kind: str) -> None:
        """Send the chart as files for the reader to save, or say why it can't be."""
        try:
            for name, media, data in files(self, kind):
                self.send({"file": name, "media": media}, [data])
        except (ValueError, ImportError) as error:
            self.send({"refused": str(error)})

    def _open(self, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Answer with the spec of what the reader opened, without one if several files are not one run, or say why it
        can't be read."""
        names = content["open"] if isinstance(content["open"], list) else [content["open"]]
        try:
            found = open_traces(list(zip(names, map(bytes, buffers), strict=True)), content["beside"])
            answer = {"spec": to_json(found)} if found else {}
        except ValueError as error:
            answer = {"refused": str(error)}
        self.send({"opened": {"number": content["number"], **answer}})

    def _look_ahead(self, content: Mapping[str, Any]) -> None:
        """Answer requests that may come next, so that the page has the answers when they do."""
        answers = []
        for wish in content.get("ahead", ()):
            try:
                answers.append(explore(*_read(wish), self.critical_path, self._cap))
            except (ValueError, TypeError) as error:
                answers.append(refusal(error))
        self.send({"ahead": answers, "round": content.get("round")})

    def to_html(self, path: str | Path | None = None, *, note: str = "") -> str:
        """A self-contained page that needs no kernel and no network; also written to `path` if one is given. note:
        what is said below the chart, such as the words of `ge.diagnose`.

        An explorer's page offers the sizes in `gpipe_edu.view.gantt.page.GRID` with every schedule and way to
        recompute, at the costs set now.
        """
        options = {
            "memory": self.memory,
            "critical": self.critical_path,
            "speed": self.speed,
            "theme": self.theme,
        }
        text = page(self._timelines, self._settings, options, self._cap, note)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_svg(self, path: str | Path | None = None) -> str:
        """The chart as the text of a self-contained SVG file; also written to `path` if one is given."""
        text = paint(self._still(), self._still_theme)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_png(self, path: str | Path | None = None, dpi: float = 150) -> bytes:
        """The chart as a PNG file; also written to `path` if one is given. Needs matplotlib."""
        from gpipe_edu.view.matplotlib_painter import png  # matplotlib is optional, so it is loaded only for a PNG

        data = png(self._still(), dpi, self._still_theme)
        if path is not None:
            Path(path).write_bytes(data)
        return data

    def save_trace(self, path: str | Path) -> list[Path]:
        """Write a Chrome trace, which Perfetto opens; for several charts one each, numbered. Returns the paths."""
        target = Path(path)
        if len(self._timelines) == 1:
            return [self._timelines[0].save_trace(target)]
        return [
            timeline.save_trace(target.with_stem(f"{target.stem}-{number}"))
            for number, timeline in enumerate(self._timelines, 1)
        ]

    @property
    def _still_theme(self) -> str:
        """The theme of files, which go into papers and mails: light, unless dark was asked for."""
        return "dark" if self.theme == "dark" else "light"

    def _still(self) -> Any:
        return layout(*self._timelines, memory=self.memory, critical_path=self.critical_path)

    def __repr__(self) -> str:
        return "\n".join(map(summary, self._timelines))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        few = sum(len(timeline.spans) for timeline in self._timelines) <= _MOST_OPS_IN_PNG
        return widget_bundle(
            super()._repr_mimebundle_(**kwargs), repr(self), self._still() if few else None, self.theme
        )


def _read(wish: Mapping[str, Any]) -> tuple[Settings, Settings | None]:
    """The settings requested, and those to compare them with. Raises ValueError or TypeError."""
    kept = wish.get("kept")
    return Settings.of(wish), Settings.of(kept) if kept else None


class Drawing(Protocol):
    """What can be saved: the widget, or anything else with its methods."""

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """What is drawn."""

    def to_svg(self) -> str:
        """The text of an SVG file."""

    def to_png(self) -> bytes:
        """A PNG file."""

    def to_html(self) -> str:
        """The text of a self-contained page."""

    def save_trace(self, path: Path) -> list[Path]:
        """Write a Chrome trace, or one each of several timelines; returns the paths."""


class SavedFile(NamedTuple):
    """A file to be saved: its name, its media type and its content."""

    name: str
    media: str
    content: bytes


def files(chart: Drawing, kind: str) -> list[SavedFile]:
    """The chart as files of `kind`: one, or for a trace one per timeline. Raises ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"cannot save as {kind!r}; it must be one of {', '.join(KINDS)}")
    return KINDS[kind](chart)


def _one(ending: str, media: str, content: Callable[[Drawing], str | bytes]) -> Callable[[Drawing], list[SavedFile]]:
    def make(chart: Drawing) -> list[SavedFile]:
        made = content(chart)
        return [SavedFile(f"{_name(chart)}.{ending}", media, made.encode() if isinstance(made, str) else made)]

    return make


def _traces(chart: Drawing) -> list[SavedFile]:
    with TemporaryDirectory() as folder:
        paths = chart.save_trace(Path(folder) / f"{_name(chart)}.json")
        return [SavedFile(path.name, "application/json", path.read_bytes()) for path in paths]


def _name(chart: Drawing) -> str:
    """The timelines' names as a file's name, on any system."""
    names = "-".join(timeline.name or "timeline" for timeline in chart.timelines)
    return re.sub(r"\W+", "-", names).strip("-").lower()[:80] or "timeline"


KINDS: Final[dict[str, Callable[[Drawing], list[SavedFile]]]] = {
    "svg": _one("svg", "image/svg+xml", lambda chart: chart.to_svg()),
    "png": _one("png", "image/png", lambda chart: chart.to_png()),
    "html": _one("html", "text/html", lambda chart: chart.to_html()),
    "trace": _traces,
}
"""What the page offers, by the word it sends."""
