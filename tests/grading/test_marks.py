"""What an answer is worth, for every slip and every answer of the bank."""

import json

import pytest

from gpipe_edu.course.building import percent_format, places
from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.judge.findings import Finding, Report, Success
from gpipe_edu.judge.pool import Task
from gpipe_edu.process.packing import pack
from gpipe_edu.teaching.grading import marks
from gpipe_edu.teaching.grading.marks import as_text, mark, points, share, worth
from tests.amount import third
from tests.each import each
from tests.solutions.bank import everything
from tests.solutions.shares import share_of


def passed(key, *slips):
    return Report(key, "passed", 1, 3, None, Success("words"), "", tuple(Finding(slip, slip) for slip in slips))


def wrong(key, slip):
    return Report(key, "wrong", 1, 3, Finding(slip, slip))


def test_points_are_those_of_the_masters():
    for key in all_exercises():
        master = places.ROOT / "solutions" / f"{find_exercise(key).notebook}.py"
        cells = [cell.metadata.get("nbgrader", {}) for cell in percent_format.read(master.read_text(encoding="utf-8"))]
        assert points(key) == next(
            cell["points"] for cell in cells if cell.get("grade_id") == f"{find_exercise(key).cell}-check"
        )


@each("key", all_exercises())
def test_every_promise_is_a_slip_that_has_a_sentence(key):
    assert set(find_exercise(key).promises) <= set(find_exercise(key).slips)


@each("entry", everything())
def test_every_answer_of_the_bank_has_its_share(entry):
    if not entry.slip:
        assert share(passed(entry.key)) == share_of(entry)
    elif entry.slip in find_exercise(entry.key).promises and share_of(entry):
        assert share(passed(entry.key, entry.slip)) == share_of(entry)
    else:
        assert share(wrong(entry.key, entry.slip)) == share_of(entry)


@pytest.fixture
def chosen(pytestconfig):
    """The bank's answers that break a promise: all with `--whole-class`, else one of each task, daily of a third."""
    breaking = [entry for entry in everything() if entry.slip and share_of(entry)]
    one_of_each = list({entry.key: entry for entry in breaking}.values())
    return breaking if pytestconfig.getoption("whole_class") else third(one_of_each)


@pytest.mark.slow
def test_beside_a_broken_promise_the_judge_finds_nothing_else(chosen, worker):
    for entry in chosen:
        exercise = find_exercise(entry.key)
        report = worker.report(Task(entry.name, exercise, pack(entry.function), 20181116))
        assert (report.state, share(report)) == ("passed", 0.75), (entry.name, report.finding)


def test_one_promise_is_counted_once_and_all_together_cost_no_more_than_half():
    key = "ex01/splitting"
    assert share(passed(key, "no-refusal", "no-refusal-tuple")) == 0.75
    assert share(passed(key, "no-refusal", "view")) == 0.5
    assert share(passed(key, "no-refusal", "view", "no-samples", "input-changed")) == 0.5


def test_the_worst_seed_counts_whatever_the_order():
    reports = [passed("ex02/clock"), wrong("ex02/clock", "twice"), passed("ex02/clock", "other-error")]
    for order in (reports, reports[::-1]):
        found = mark(order)
        assert (found.state, found.points, found.slip) == ("wrong", 0, "twice")
    found = mark([reports[0], reports[2]])
    assert (found.state, found.points) == ("partly", 1.5)
    assert mark([reports[0], reports[2]], all_or_nothing=True).points == 0
    assert json.dumps(found.points) == "1.5"


@pytest.fixture
def half(monkeypatch):
    monkeypatch.setitem(marks._scheme()["partial"], "ex02/clock", 0.5)


def test_a_wrong_answer_earns_its_part_of_half_by_the_cases_before_the_first_wrong_one(half):
    key, cases = "ex02/clock", find_exercise("ex02/clock").cases
    for calls, share_of_half in ((0, 0), (1, 0), (1 + cases // 2, cases // 2 / cases), (1 + cases, 1), (9 * cases, 1)):
        found = mark([Report(key, "wrong", 1, calls, Finding("twice", "twice"))])
        assert (found.state, found.points) == ("wrong", round(0.5 * share_of_half * points(key), 2))
        right = (
            f"right in {min(calls - 1, cases)} of about {cases} cases before: {0.5 * share_of_half:.0%} of the points"
        )
        assert found.notes == ((right,) if share_of_half else ())
    late, early = (Report(key, "wrong", 1, calls, Finding("twice", "twice")) for calls in (cases, 2))
    least = mark([early]).points
    for order in ([late, early, passed(key)], [passed(key), early, late]):
        assert mark(order).points == least
    assert mark([passed(key, "other-error"), late]).state == "wrong"
    assert mark([late], all_or_nothing=True)[1:3] == ("wrong", 0)
    assert mark([late], all_or_nothing=True).notes == ()
    assert mark([Report(key, "unwritten", 1, 2)]).points == 0
    assert mark([wrong("ex01/splitting", "view")]).points == 0


@pytest.mark.parametrize(("strict", "points"), [(False, "2.25 of 3"), (True, "0 of 3")])
def test_a_mark_says_what_is_broken_and_what_it_is_worth_and_not_what_check_says_it_costs(strict, points):
    found = mark([passed("ex01/splitting", "view")], all_or_nothing=strict)
    text = as_text(found)
    assert text.startswith("ex01/splitting: right, but for one promise. view")
    assert worth(found) == points
    assert "a quarter" not in text
    assert "counts as solved" not in text
