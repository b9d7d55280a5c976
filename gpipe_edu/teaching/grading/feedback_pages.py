"""Feedback as HTML: one page for the class, and one for each student, each a file that needs no network.

Its content security policy blocks all requests to other hosts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from gpipe_edu.base.atomic_write import printable, write_whole
from gpipe_edu.base.words import plural
from gpipe_edu.course.predictions import question
from gpipe_edu.course.report import as_markdown, drawings, evidence
from gpipe_edu.course.submitted_notebook import Refused, refusing
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Chart, Finding
from gpipe_edu.view.compare import compare
from gpipe_edu.view.html import fill

from .grade import Class
from .marks import STATES, Mark, number, points
from .marks_tables import total, words_for_left_out
from .platform_gradebook import write_feedback
from .submissions import file_name

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

NOTES: Final = "passed_over.txt"
"""What was passed over, by name; the page of the class has no names."""

_MOST_OPS: Final = 400
"""In a chart drawn on these pages."""

_CRASHES: Final = {"error", "arguments", "endless", "printed", "exit", "memory", "too-deep", "strange"}
"""Slips of code that broke or had to be stopped, which reveal no belief."""

_COLOURS: Final = {
    "passed": "#2E7D4F",
    "partly": "#8DBF8B",
    "wrong": "#C8553D",
    "unwritten": "#B9B4AC",
    "broken": "#8C6BB1",
    "missing": "#DDD8CF",
    "refused": "#5B4A78",
    "not judged": "#E0A526",
}


def write(out: Path, graded: Class) -> Class:
    """Write feedback/STUDENT.html for each student, Moodle's zip of them, class.html and what was passed over.

    Returns the class as shown there: marks that could not be rendered are refused. Raises OSError.
    """
    folder = out / "feedback"
    folder.mkdir(exist_ok=True)
    taken: set[str] = set()
    marks, pages = {}, {}
    for student, row in graded.marks.items():
        said = [as_html(one) for one in row.values()]
        marks[student] = {one.key: one for one, _ in said}
        pages[student] = student_page(student, said)
        write_whole(folder / f"{file_name(student, taken)}.html", pages[student])
    write_feedback(out, pages, graded.handed_in)
    graded = graded._replace(marks=marks)
    write_whole(out / "class.html", class_page(graded))
    write_whole(out / NOTES, "".join(f"{printable(note)}\n" for note in graded.handed_in.notes))
    return graded


def class_page(graded: Class) -> str:
    """The state of the class: marks, misconceptions with the chart that shows each, and what to put to the vote."""
    students = len(graded.marks)
    totals = [total(row) for row in graded.marks.values()]
    parts = [
        "<h1>How the class stands</h1>",
        f'<p class="quiet">{plural(students, "student")}. Hand-ins: {escape(graded.handed_in.layout)}. Names stand in '
        f"marks.csv, not here, so this page can be projected.</p>",
    ]
    done = sorted(value for value in totals if value is not None)
    if done:
        keys = next(iter(graded.marks.values()))
        largest = sum(points(key) for key in keys)
        middle = (done[(len(done) - 1) // 2] + done[len(done) // 2]) / 2
        if len(done) > 1:
            parts.append(f"<p>Half of them have {number(middle)} of {largest} points or more.</p>")
        parts.append(_histogram(done, largest))
    parts += ["<h2>By task</h2>", _by_task(graded), "<h2>What they believe</h2>", *_beliefs(graded), *_votes(graded)]
    if graded.handed_in.notes:
        count = plural(len(graded.handed_in.notes), "thing")
        parts.append(f'<p class="quiet">{count} among the hand-ins passed over; {NOTES} says which.</p>')
    return _page("How the class stands", parts)


def student_page(student: str, said: Sequence[tuple[Mark, list[str]]]) -> str:
    """What one student reads, with nothing of any other student. said: each mark, and what `as_html` says about it."""
    row = {one.key: one for one, _ in said}
    largest = sum(points(key) for key in row)
    whole = total(row)
    told = f"{number(whole)} of {largest} points." if whole is not None else "Not everything could be judged yet."
    parts = [f"<h1>{escape(student)}</h1>", f"<p>{told}</p>"]
    for one, text in said:
        worth = "" if one.points is None else f" &middot; {number(one.points)} of {points(one.key)}"
        state = f'<p><span class="state">{escape(one.state)}</span>{worth}</p>'
        title = f"<h2>{escape(find_exercise(one.key).title)} <span class=quiet>{one.key}</span></h2>"
        parts += ["<section>", title, state, *text, "</section>"]
    return _page(f"{student}: marks", parts)


def as_html(one: Mark) -> tuple[Mark, list[str]]:
    """The mark and its feedback as HTML; if that can't be rendered, the mark is refused."""
    try:
        with refusing("what was found"):
            return one, _explain(one)
    except Refused as error:
        one = Mark(one.key, "refused", 0.0, str(error), notes=one.notes)
        return one, _explain(one)


def _explain(one: Mark) -> list[str]:
    notes = [f'<p class="quiet">{escape(note)}</p>' for note in one.notes]
    report = one.report
    if report is None:
        return [f"<p>{escape(one.why)}</p>", *notes] if one.why else notes
    text = as_markdown(report).partition("\n\n")
    first = re.sub(r"^\*\*.*?\*\* ?", "", text[0])
    return [
        _MARKDOWN.render("\n\n".join(filter(None, [first, text[2]]))),
        *_charts(drawn.charts if (drawn := report.first or report.success) else ()),
        *notes,
    ]


def _charts(charts: Sequence[Chart]) -> list[str]:
    found = []
    with suppress(ValueError, TypeError, IndexError, OverflowError):  # rows made by an answer may be anything
        small = tuple(chart for chart in charts if len(chart.rows.split()) <= _MOST_OPS)
        drawn = drawings(small)
        found = [f"<figure>{compare(*drawn).to_svg()}</figure>"] if drawn else []
    return found


def _histogram(values: list[float], largest: int) -> str:
    counts = Counter(min(9, int(10 * value / largest)) if largest else 0 for value in values)
    most, width = max(counts.values()), 56
    bars = []
    for tenth in range(10):
        height = 110 * counts[tenth] / most
        x = 10 + tenth * width
        bars.append(f'<rect x="{x}" y="{130 - height:.0f}" width="{width - 6}" height="{height:.0f}" fill="#3B6FB6"/>')
        if counts[tenth]:
            label = f'<text x="{x + 25}" y="{124 - height:.0f}" text-anchor="middle">{counts[tenth]}</text>'
            bars.append(label)
    ticks = [f'<text x="{7 + tenth * width}" y="148" text-anchor="middle">{10 * tenth}</text>' for tenth in range(11)]
    head = '<svg viewBox="-5 0 620 155" width="620" font-size="14" role="img">'
    title = "<title>Students by share of points</title>"
    return f'{head}{title}{"".join([*bars, *ticks])}<text x="585" y="148">%</text></svg>'


def _by_task(graded: Class) -> str:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for row in graded.marks.values():
        for key, one in row.items():
            rows[key][one.state] += 1
    lines = []
    for key, counts in rows.items():
        size = sum(counts.values())
        bar = "".join(
            f'<span style="width:{100 * counts[state] / size:.2f}%;background:{_COLOURS[state]}"></span>'
            for state in STATES
            if counts[state]
        )
        told = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        lines.append(
            f"<tr><td>{key}<br><span class=quiet>{escape(find_exercise(key).title)}</span></td>"
            f'<td><div class="bar">{bar}</div><span class=quiet>{told}</span></td></tr>'
        )
    seen = [state for state in STATES if any(counts[state] for counts in rows.values())]
    legend = "".join(f'<span><i style="background:{_COLOURS[s]}"></i>{s}: {escape(STATES[s])}</span>' for s in seen)
    told = f'<p class="quiet">{escape(words)}</p>' if (words := words_for_left_out(graded)) else ""
    return f'<table>{"".join(lines)}</table><p class="key">{legend}</p>{told}'


def _slips(graded: Class, wanted: Callable[[Mark], bool]) -> list[tuple[str, str, list[Finding]]]:
    """Task, slip, and the findings of all students whose marks are wanted, the most common first."""
    found: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for row in graded.marks.values():
        for key, one in row.items():
            if one.finding is not None and wanted(one):
                found[key, one.slip].append(one.finding)
    return [(*name, findings) for name, findings in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))]


def _beliefs(graded: Class) -> list[str]:
    """Misconceptions alone: an answer that is right except for a promise has none, and a crash reveals none."""
    parts = []
    believed = _slips(graded, lambda mark: mark.state == "wrong" and mark.slip not in _CRASHES)
    for key, _, findings in believed[:12]:
        first = findings[0]
        who = plural(len(findings), "student")
        parts.append(f"<h3>{who} in {key}</h3>{_MARKDOWN.render(first.because)}")
        lines = evidence(first) if first.trouble is None else [f"{first.trouble.kind}: {first.trouble.message}"]
        parts.append(f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else "")
        parts += _charts(first.charts[:2])
    return parts or ["<p>No misconception was met.</p>"]


def _votes(graded: Class) -> list[str]:
    """The predictions that belong to the tasks most often wrong."""
    lost: Counter[str] = Counter()
    for key, _, findings in _slips(graded, lambda mark: True):
        lost[key] += len(findings)
    parts: list[str] = []
    for key, count in lost.most_common(3):
        for name in list(find_exercise(key).predictions)[:1]:
            asked = question.find(f"{key[:4]}/{name}")
            options = "".join(f"<li>{_inline(text)}</li>" for text in asked.options.values())
            parts.append(
                f"<h3>{plural(count, 'student')} lost points in {key}. Ask all of them:</h3>"
                f'{_MARKDOWN.render(asked.text)}<ol type="A">{options}</ol>'
                f'<p class="quiet">{asked.answer} is right. {_inline(asked.because)}</p>'
            )
    return ["<h2>What to put to the vote next</h2>", *parts] if parts else []


def _inline(text: str) -> str:
    return str(_MARKDOWN.renderInline(text))


def _page(title: str, parts: Iterable[str]) -> str:
    return fill(__file__, title=escape(title), parts="\n".join(parts))
