"""A report: its pictures show what cannot run up to where it stands still, and what an answer says stays its words."""

from types import SimpleNamespace

from markdown_it import MarkdownIt

import gpipe_edu as ge
from gpipe_edu.course.check import show
from gpipe_edu.course.notebook import frontend
from gpipe_edu.course.notebook.output import plain
from gpipe_edu.course.report import as_markdown, drawings
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Chart, Finding, Line, Report, Trouble
from gpipe_edu.timeline import Timeline
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

DEADLOCK = Chart("yours", "F0 B0 F1 B1\nF0 F1 B1 B0")
EXPECTED = Chart("expected", str(ge.gpipe(2, 2)))


def test_what_runs_is_a_timeline_and_what_does_not_a_standstill():
    yours, expected = drawings((DEADLOCK, EXPECTED))
    assert isinstance(yours, StuckSchedule)
    assert len(yours.arrows) == 4
    assert isinstance(expected, Timeline)
    (missing,) = drawings((Chart("yours", "F0 B0\nF0"),))
    assert [str(span.op) for span in missing.absent] == ["B0@1"]
    assert drawings((Chart("yours", "-\n-"),)) == []
    (still,) = drawings((Chart("yours", "F0 B0\nF0", F=[1, 2, 3], B=[2, 4, 6]),))
    assert still.ran[0].end == 1, "costs of three stages say nothing of two"


def test_a_report_shows_the_circle_where_no_notebook_runs(capsys):
    finding = Finding("deadlock", "they wait for each other", charts=(DEADLOCK, EXPECTED))
    show(Report("ex09/cap", "wrong", 1, finding=finding))
    out = capsys.readouterr().out
    assert "device 1  F0 || [F1?] B1? [B0?]" in out
    assert "..stands behind..> B0@0" in out
    assert "device 0  F0- F1- " in out


def test_and_a_picture_of_both_in_a_notebook(monkeypatch):
    shown = []
    monkeypatch.setattr(frontend, "_given", [SimpleNamespace(display=shown.append)])
    show(Report("ex09/cap", "wrong", 1, finding=Finding("deadlock", "", charts=(DEADLOCK, EXPECTED))))
    assert "cannot run: deadlock" in repr(shown[-1])
    assert 'class="wait"' in shown[-1].to_svg()


def test_nothing_that_an_answer_prints_or_raises_is_markup_or_moves_a_terminal_s_cursor():
    trouble = Trouble("ValueError", "```\n# a heading\n````", (Line("<cell 1>", 2, "clock", "raise ValueError"),))
    finding = Finding("other-error", "It raised.", call="clock(2, 3)", trouble=trouble)
    text = as_markdown(Report("ex02/clock", "wrong", 1, finding=finding, printed="\x1b[2J```\n**bold**\u202e"))
    shown = MarkdownIt().render(text)
    assert "<h1>" not in shown
    assert "<strong>bold" not in shown
    words = plain(text)
    for line in ("ValueError: ```", "# a heading", "````", "\\x1b[2J```", "**bold**\\u202e"):
        assert line in words.splitlines()


def test_a_name_that_an_answer_gives_to_something_is_no_link_in_a_sentence():
    said = find_exercise("ex02/clock").sentence("not-ticks", {"kind": "a [b](//192.0.2.1) <//192.0.2.1>"})
    assert "a b(//192.0.2.1) //192.0.2.1" in said
    assert "<a" not in MarkdownIt().render(said)
