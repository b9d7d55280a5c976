"""The slides as one HTML file: no network, no kernel, keys of a clicker, and a handout when it is printed.

A slide is 1280 by 720 and scaled to the window, so what fits once fits everywhere. A live chart is a page of its own in
a frame; the keys that turn slides are heard in there, too.
"""

from __future__ import annotations

import json
from html import escape
from typing import Final

from markdown_it import MarkdownIt

from gpipe_edu.view.compare import compare
from gpipe_edu.view.gantt.page import page

from .outline import Lecture, Slide

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""The browser itself refuses whatever would leave the file."""

_OPTIONS: Final = {"memory": False, "critical": False, "speed": 1.0, "theme": "light"}

_IN_FRAME: Final = """<style>
body { margin: 0 !important; overflow: hidden; } main + p, noscript { display: none; }
.ge-gantt { padding: 0 !important; }
.ge-gantt .ge-legend, .ge-gantt .ge-words, .ge-gantt .ge-row + .ge-row { display: none !important; }
.ge-gantt .ge-small, .ge-gantt .ge-note, .ge-gantt .ge-tick, .ge-gantt small, .ge-gantt svg text.ge-link
{ font-size: 14px !important; }
</style>"""

_SEVERAL: Final = """
.ge-gantt .ge-explain { min-height: 0; height: 46px; overflow: hidden; } .ge-gantt .ge-title small { display: none; }
"""
"""Two charts below each other have no room to spare."""

_STYLE: Final = """
* { box-sizing: border-box; }
html, body { margin: 0; height: 100%; background: #15171A; font: 24px/1.4 Helvetica, Arial, "DejaVu Sans", sans-serif; }
#stage { position: fixed; left: 50%; top: 50%; width: 1280px; height: 720px; transform-origin: 0 0; overflow: hidden;
background: #fff; color: #1A1A1A; }
.slide { position: absolute; inset: 0; padding: 34px 48px 40px; display: none; flex-direction: column; gap: 14px; }
.slide.here { display: flex; }
h1 { font-size: 54px; line-height: 1.15; margin: 170px 0 10px; } h2 { font-size: 36px; line-height: 1.2; margin: 0; }
p, ul, ol { margin: 0 0 10px; } ul, ol { padding-left: 34px; }
code { font: 0.92em "DejaVu Sans Mono", Menlo, Consolas, monospace; background: #F2F0EB; padding: 0 4px; }
pre { background: #F2F0EB; padding: 16px 20px; margin: 0; font-size: 20px; line-height: 1.4; overflow: hidden; }
pre code { background: none; padding: 0; font-size: 1em; }
table { border-collapse: collapse; font-size: 22px; } td, th { padding: 4px 22px 4px 0; text-align: left; }
th { border-bottom: 2px solid #1A1A1A; }
.shown { flex: 1; min-height: 0; display: flex; align-items: flex-start; }
iframe { border: 0; width: 100%; height: 100%; }
.picture { display: block; } .picture svg { width: 100%; height: 100%; }
.options { list-style: none; padding: 0; display: grid; gap: 12px; width: 100%; }
.options > li { border: 2px solid #C9C5BC; padding: 10px 18px; display: flex; gap: 16px; }
.options b { font-size: 28px; line-height: 1.2; } .options small { display: block; font-size: 19px; color: #555; }
.told .options > li.right { border-color: #2E7D4F; background: #E9F4EC; }
.told .options > li:not(.right) { color: #777; }
.answer { visibility: hidden; } .told .answer { visibility: visible; }
.because { border-left: 6px solid #2E7D4F; padding-left: 16px; }
.foot { position: absolute; right: 48px; bottom: 12px; font-size: 14px; color: #666; }
.notes { display: none; } .still { display: none; }
@page { size: A4; margin: 14mm; }
@media print {
html, body { background: #fff; height: auto; font-size: 12pt; } #stage { position: static; transform: none !important;
width: auto; height: auto; overflow: visible; }
.slide { position: static; display: block; padding: 0 0 6mm; margin-bottom: 6mm; border-bottom: 1px solid #999;
break-inside: avoid; }
h1 { font-size: 22pt; margin: 0 0 4mm; } h2 { font-size: 15pt; margin: 0 0 2mm; } pre { font-size: 9.5pt; }
table { font-size: 11pt; } .options b { font-size: 13pt; } .options small { font-size: 10.5pt; }
iframe, .foot { display: none; } .still { display: block; width: 100%; }
svg { max-width: 100%; height: auto; } .shown { display: block; }
.answer { visibility: visible; } .notes { display: block; font-size: 11pt; color: #333; }
.options > li.right { border-color: #2E7D4F; }
}
"""

_SCRIPT: Final = """
const stage = document.getElementById("stage"), slides = [...stage.querySelectorAll(".slide")];
let at = Math.min(slides.length, Math.max(1, Number(location.hash.slice(1)) || 1)) - 1;
function fit() {
  const scale = Math.min(innerWidth / 1280, innerHeight / 720);
  stage.style.transform = `scale(${scale}) translate(-50%, -50%)`;
}
function open(slide) { // a chart is made when its slide is first near, and measures itself only where it shows
  for (const frame of slide.querySelectorAll("iframe[data-page]")) {
    const source = document.getElementById(frame.dataset.page);
    frame.addEventListener("load", () => frame.contentWindow.addEventListener("keydown", turned, true));
    frame.srcdoc = JSON.parse(source.textContent);
    delete frame.dataset.page;
  }
}
function show(to) {
  at = Math.min(slides.length - 1, Math.max(0, to));
  slides.forEach((slide, index) => slide.classList.toggle("here", index === at));
  open(slides[at]);
  history.replaceState(null, "", `#${at + 1}`);
}
function on() {
  const slide = slides[at];
  if (slide.dataset.vote !== undefined && !slide.classList.contains("told")) slide.classList.add("told");
  else if (at + 1 < slides.length) { slides[at + 1].classList.remove("told"); show(at + 1); }
}
function back() {
  const slide = slides[at];
  if (slide.classList.contains("told")) slide.classList.remove("told");
  else show(at - 1);
}
function turned(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const inside = event.view !== window; // arrows and blanks belong to the chart there; a clicker's keys do not
  const key = event.key;
  if (key === "PageDown" || (!inside && ["ArrowRight", "ArrowDown", " ", "Enter"].includes(key))) on();
  else if (key === "PageUp" || (!inside && ["ArrowLeft", "ArrowUp", "Backspace"].includes(key))) back();
  else if (!inside && key === "Home") show(0);
  else if (!inside && key === "End") show(slides.length - 1);
  else if (!inside && key === "f") document.documentElement.requestFullscreen?.();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
addEventListener("keydown", turned);
addEventListener("resize", fit);
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
fit();
show(at);
"""


def html(lecture: Lecture) -> str:
    """The whole file."""
    first = Slide(
        lecture.title,
        f"Lesson {lecture.number}, {lecture.minutes} minutes. Keys: → or PageDown goes on, ← or PageUp back, F fills "
        "the screen. A vote shows its answer with the second key. Printed, this is a handout.",
    )
    slides = [first, *lecture.slides]
    parts = [_slide(slide, number, len(slides)) for number, slide in enumerate(slides, 1)]
    pages = [_page(slide, number) for number, slide in enumerate(slides, 1) if slide.live or slide.explorer]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<title>{escape(lecture.title)}</title><style>{_STYLE}</style></head>\n<body>\n<div id="stage">\n'
        + "\n".join(parts)
        + "\n</div>\n"
        + "\n".join(pages)
        + f"\n<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def _slide(slide: Slide, number: int, count: int) -> str:
    head = f"<h{min(number, 2)}>{escape(slide.title)}</h{min(number, 2)}>"
    words = _MARKDOWN.render(slide.words) if slide.words else ""
    notes = f'<div class="notes">{_MARKDOWN.render(slide.notes)}</div>' if slide.notes else ""
    vote = " data-vote" if slide.vote else ""
    foot = f'<div class="foot">{number} / {count}</div>'
    return f'<section class="slide"{vote}>{head}<div>{words}</div>{_shown(slide, number)}{notes}{foot}</section>'


def _shown(slide: Slide, number: int) -> str:
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
    """The page of a live chart, as JSON, which no HTML inside can end."""
    zoom = f"html {{ zoom: {1.25 if slide.explorer else 1.35}; }}"
    larger = f"<style>{_SEVERAL if len(slide.charts) > 1 else zoom}</style>"
    text = page(slide.charts, slide.explorer, _OPTIONS, None).replace("</head>", f"{_IN_FRAME}{larger}</head>", 1)
    data = json.dumps(text).replace("<", "\\u003c")
    return f'<script type="application/json" id="page-{number}">{data}</script>'


def _inline(text: str) -> str:
    return str(_MARKDOWN.renderInline(text))
