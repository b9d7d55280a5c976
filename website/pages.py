"""The pages: the front, one for each lesson, exercise and doc, the explorer, and the search index."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from html import escape, unescape
from os.path import normpath
from pathlib import Path
from typing import Any

import gpipe_edu as ge
from gpipe_edu.course.lessons import READING_ORDER
from gpipe_edu.course.predictions.widget import Prediction

from . import cells, colab_kaggle, course_progress, in_page, markdown, reader_cells, still_charts
from .bundle import bundle
from .lab import MEGABYTES, MEGABYTES_OF_PLOTS
from .run_notebooks import execute

HERE = Path(__file__).parent
NOTE = re.compile(r'<p class="ge-note">.*?</p>', re.DOTALL)
"""What a saved explorer says about itself, where there is no site around it."""
COURSE = "docs/course.md"
LAB = "lab/lab/index.html?path={name}"


def build(root: Path, out: Path, only: Sequence[str], with_lab: bool) -> None:
    """Write all pages into `out`. only: names of notebooks, if a few are enough, as in a test."""
    sources = _sources(root)
    pages = {at: _page_of(at) for at in sources}
    for folder in ("live", "assets", "notebooks", "exercises", "docs", "benchmarks"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    template, front = _text("template.html"), _text("front.html")
    box = in_page.box(with_lab)
    found: list[list[str]] = []
    notebooks = [at for at in sources if at.endswith(".ipynb")]
    for at in sources:
        if only and at in notebooks and Path(at).stem not in only:
            continue
        print(f"page {pages[at]}", flush=True)
        up = "../" * pages[at].count("/")
        banner = ""
        if at in notebooks:
            with still_charts.for_a_page():
                notebook = execute(root, root / at, out / "live")
            reader_cells.leave_out(notebook)
            banner = _banner(notebook, up + LAB.format(name=at) if with_lab else "", colab_kaggle.links(at))
            still_charts.put_inline(notebook)
            body = in_page.notebook(cells.html(notebook, at, pages), up, with_lab)
        else:
            text = (root / at).read_text(encoding="utf-8")
            course = (root / COURSE).read_text(encoding="utf-8")
            body = _front(course, pages) if at == "README.md" else markdown.html(text, at, pages)
            body = f'<section class="text">{body}</section>'
        title = _title(body)
        if at == "README.md":
            there = LAB.format(name="notebooks/00_start_here.ipynb")
            start = f'<a class="button quiet" href="{there}" target="lab">Open lesson 00 in JupyterLab</a>'
            body = body.replace("</p>", "</p>" + front.format(lab=start if with_lab else "") + box, 1)
            body += course_progress.script(course_progress.count())
        follows = _next(at, notebooks, pages)
        text = template.format(title=escape(title), up=up, page=Path(at).stem, banner=banner, body=body, next=follows)
        (out / pages[at]).write_text(text, encoding="utf-8")
        found += _sections(pages[at], title, body)
    write_page(out / "explorer.html", "The explorer", _text("explorer.html") + box)
    ge.gantt(ge.gpipe(4, 8)).to_html(out / "live" / "explorer.html")
    ge.gantt(ge.gpipe(4, 8), memory=False).to_html(out / "live" / "front.html")  # so that Play is in sight
    write_page(out / "progress.html", "Your progress", course_progress.page())
    write_page(out / "puzzle.html", "The schedule puzzle", in_page.puzzle(with_lab))
    in_page.write_assets(out / "assets")
    for live in (out / "live").glob("*.html"):
        live.write_text(_in_a_frame(live.read_text(encoding="utf-8")), encoding="utf-8")
    write_scripts(out / "assets", found)
    if colab_kaggle.repository():
        colab_kaggle.write(root, out / colab_kaggle.FOLDER, colab_kaggle.site(colab_kaggle.repository()), pages)
    _copy_what_is_linked(root, out, [out / page for page in pages.values()])


def _front(course: str, pages: dict[str, str]) -> str:
    """For a reader who is already here: the course's lessons and exercises, and not a word on how to get here."""
    sections = course[course.index("## ") :]
    body = markdown.html(_text("front.md"), "website/front.md", pages | {"website/front.md": "index.html"})
    tables = markdown.html(sections, COURSE, pages | {COURSE: "index.html"})
    return body.replace("<p>{tables}</p>", tables)


def _in_a_frame(page: str) -> str:
    """A chart's page that tells its height to the page around it, whose main part is not the chart."""
    height = f"<script>\n{_text('assets/height.js')}</script>\n"
    if height in page:
        return page
    page = NOTE.sub("", page)
    page = page.replace('<main id="ge-host"></main>', '<div id="ge-host"></div>')
    return page.replace("</body>", height + "</body>")


def write_page(path: Path, title: str, body: str) -> None:
    """A page at the top of the site that stands beside the lessons."""
    text = _text("template.html").format(title=escape(title), up="", page=path.stem, banner="", body=body, next="")
    path.write_text(text, encoding="utf-8")


def _copy_what_is_linked(root: Path, out: Path, written: Sequence[Path]) -> None:
    """Copy pictures, sources and other files of the repository that pages link to and that are not pages themselves."""
    for page in written:
        if not page.exists():
            continue
        for link in re.findall(r'(?:href|src)="([^"#?:]+)"', page.read_text(encoding="utf-8")):
            target = Path(normpath(page.parent / link))
            source = root / target.relative_to(out)
            if not target.exists() and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


def _sources(root: Path) -> list[str]:
    """Every file that gets a page, lessons in order."""
    patterns = (
        "README.md",
        "notebooks/*.ipynb",
        "exercises/*.ipynb",
        "docs/*.md",
        "benchmarks/README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    )
    return [path.relative_to(root).as_posix() for pattern in patterns for path in sorted(root.glob(pattern))]


def _page_of(at: str) -> str:
    return "index.html" if at == "README.md" else str(Path(at).with_suffix(".html").as_posix())


def _title(body: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", found[1])) if found else "gpipe_edu"


def _banner(notebook: Any, lab: str, elsewhere: str) -> str:
    """What a reader can do with a page. lab: where the lab has it, "" without; elsewhere: `colab_kaggle.links`."""
    if not lab:
        return (
            '<p class="banner">Charts and questions work here. To run all of it, open the notebook on your machine: '
            "<code>make lab</code>.</p>"
        )
    if any(cell.metadata.get("needs_pytorch") for cell in notebook.cells):
        return (
            '<div class="banner"><span>Press <b>Run</b> in a cell. No browser runs PyTorch: what needs it is recorded.'
            f'</span> <a class="button quiet" href="../docs/install.html">Run all on your machine</a>{elsewhere}</div>'
        )
    return (
        '<div class="banner"><span>Cells run on this page: press <b>Run</b>, change them, run them again.</span> '
        f'<a class="button quiet" href="{lab}" target="lab" title="{MEGABYTES} MB at the first visit, '
        f'{MEGABYTES_OF_PLOTS} more with the first plot">Open it in JupyterLab</a>{elsewhere}</div>'
    )


def _next(at: str, notebooks: list[str], pages: dict[str, str]) -> str:
    """Links to the neighbours in the same folder: of lessons, in reading order, and then the puzzles."""
    around = [each for each in notebooks if Path(each).parent == Path(at).parent]
    if Path(at).parent.name == "notebooks":
        places = {number: place for place, number in enumerate(READING_ORDER)}
        around.sort(key=lambda each: places.get(Path(each).name[:2], len(places)))
    if at not in around:
        return ""
    place = around.index(at)
    links = []
    for each, words_, edge in ((place - 1, "Before", place > 0), (place + 1, "Next", place + 1 < len(around))):
        if edge:
            name = Path(around[each]).stem.replace("_", " ")
            links.append(f'<a href="{Path(pages[around[each]]).name}">{words_}: {escape(name)}</a>')
    return f'<nav class="next" aria-label="Neighbours">{" ".join(links)}</nav>'


def _sections(page: str, title: str, body: str) -> list[list[str]]:
    """[page, anchor, title, heading, text] for each heading.

    From code on a page of docs the text has each name once, such as a module's: people look for what they have seen.
    """
    body = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", body, flags=re.DOTALL)
    body = re.sub(r'<div class="after">|<div class="tools">.*?</div>', " ", body, flags=re.DOTALL)
    parts = re.split(r'<h[1-3] id="([^"]*)">(.*?)</h[1-3]>', body, flags=re.DOTALL)
    rows = []
    for anchor, heading, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        code = " ".join(re.findall(r"<pre\b.*?</pre>", text, flags=re.DOTALL)) if page.startswith("docs/") else ""
        names = " ".join(dict.fromkeys(re.findall(r"[A-Za-z_][\w.]+", _bare(code))))
        prose = _bare(re.sub(r"<pre\b.*?</pre>", " ", text, flags=re.DOTALL))
        rows.append([page, anchor, title, _bare(heading), f"{prose[:1500]} {names[:1500]}".strip()])
    return rows


def _bare(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def write_scripts(folder: Path, found: list[Any]) -> None:
    """Write the scripts, which are plain ones: a browser loads no modules from a page opened by double click."""
    shutil.copy(HERE / "assets" / "site.js", folder)
    sheets = (_text("assets/site.css"), Prediction._css, _text("assets/dark.css"))
    (folder / "site.css").write_text("\n".join(sheets), encoding="utf-8")
    bundle([HERE / "assets" / "search.js"], folder)
    sections = f"window.gpipeSections = {json.dumps(found, ensure_ascii=False)};\n"
    (folder / "sections.js").write_text(sections, encoding="utf-8")


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
