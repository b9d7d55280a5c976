"""The slides as one HTML file: no network, no kernel, keys of a clicker, and a handout when it is printed.

A slide is 1280 by 720 and scaled to the window, so it fits on any screen. A live chart is a page of its own in a frame,
which also listens for the keys that turn slides. The file's content security policy blocks all requests to other hosts.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from gpipe_edu.view.compare import compare
from gpipe_edu.view.gantt.page import page
from gpipe_edu.view.html import fill, json_element, style_element

from .outline import Lecture, Slide

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

_OPTIONS: Final = {"memory": False, "critical": False, "speed": 1.0, "theme": "light"}


def html(lecture: Lecture) -> str:
    """The whole file."""
    first = Slide(
        lecture.title,
        f"Lesson {lecture.number}, {lecture.minutes} minutes. Keys: → or PageDown goes on, ← or PageUp back, F fills "
        "the screen, S opens a window with your notes, the next slide and a clock. A vote shows its answer with the "
        "second key. Printed, this is a handout.",
    )
    slides = [first, *lecture.slides]
    parts = [_slide(slide, number, len(slides)) for number, slide in enumerate(slides, 1)]
    pages = [_page(slide, number) for number, slide in enumerate(slides, 1) if slide.live or slide.explorer]
    return fill(
        __file__,
        title=escape(lecture.title),
        minutes=str(lecture.minutes),
        slides="\n".join(parts),
        pages="\n".join(pages),
        speaker=_beside("speaker.js"),
        speaker_style=style_element(_beside("speaker.css")),
    )


def _slide(slide: Slide, number: int, count: int) -> str:
    head = f"<h{min(number, 2)}>{escape(slide.title)}</h{min(number, 2)}>"
    words = _MARKDOWN.render(slide.words) if slide.words else ""
    notes = f'<div class="notes">{_MARKDOWN.render(slide.notes)}</div>' if slide.notes else ""
    vote = " data-vote" if slide.vote else ""
    foot = f'<div class="foot">{number} / {count}</div>'
    return f'<section class="slide"{vote}>{head}<div>{words}</div>{_show(slide, number)}{notes}{foot}</section>'


def _show(slide: Slide, number: int) -> str:
    if slide.vote:
        options = "".join(
            f'<li class="{"right" if name == slide.vote.answer else "wrong"}"><b>{name}</b><div>{_inline(text)}'
            + (f'<small class="answer">{_inline(slide.vote.wrong[name])}</small>' if name in slide.vote.wrong else "")
            + "</div></li>"
            for name, text in slide.vote.options.items()
        )
        because = f'<div class="answer because">{_MARKDOWN.render(slide.vote.because)}</div>'
        return f'<div>{_MARKDOWN.render(slide.vote.text)}</div><ul class="options">{options}</ul>{because}'
    if slide.code:
        return f'<pre class="code"><code>{escape(slide.code)}</code></pre>'
    if not slide.charts:
        return ""
    still = compare(*slide.charts).to_svg()
    if slide.live or slide.explorer:
        frame = f'<iframe data-page="page-{number}" title="{escape(slide.title)}"></iframe>'
        return f'<div class="shown">{frame}<div class="still">{still}</div></div>'
    return f'<div class="shown picture">{still}</div>'


def _page(slide: Slide, number: int) -> str:
    """The page of a live chart, as JSON."""
    form = "explorer" if slide.explorer else "several" if len(slide.charts) > 1 else "chart"
    text = page(slide.charts, slide.explorer, _OPTIONS, None)
    style = style_element(_beside("frame.css")) + "</head>"
    text = text.replace("<html", f'<html class="{form}"', 1).replace("</head>", style, 1)
    return json_element(f'id="page-{number}"', json.dumps(text))


def _inline(text: str) -> str:
    return str(_MARKDOWN.renderInline(text))


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
