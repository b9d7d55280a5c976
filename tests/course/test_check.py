"""What a learner sees of a check, and that nothing done to the notebook's process reaches the verdict."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from coloraide import Color

from gpipe_edu.base import store
from gpipe_edu.course import NotYet, check, hint, progress, report, tries_and_hints
from gpipe_edu.judge import judging, pool
from gpipe_edu.judge.case import Wrong
from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.judge.findings import Finding, Report, Success, Unwritten
from gpipe_edu.process import plain
from gpipe_edu.process.packing import pack
from tests.processes import printed
from tests.solutions.bank import bank

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def right(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


def wrong(K, M):
    print("working on", K, M)
    return [[(m, k)] for m in range(M) for k in range(K)]


def clock(K, M):
    raise NotImplementedError


def broken(K, M):
    ticks = right(K, M)
    return ticks[K + M]


def shown(capsys):
    return capsys.readouterr().out


def test_a_key_without_its_part_is_told_with_its_parts():
    for ask in (lambda: check("ex02", print), lambda: hint("ex02")):
        with pytest.raises(ValueError, match=r"^ex02 has ex02/clock and ex02/f-then-b: name one of them$"):
            ask()
    with pytest.raises(ValueError, match=r"^ex01 has ex01/splitting: name that$"):
        hint("ex01")


def test_a_right_answer_passes_says_what_it_did_and_is_kept(capsys):
    assert check("ex02/clock", right) is None
    text = shown(capsys)
    assert text.startswith("ex02/clock: passed")
    assert "digits" in text
    assert "device 0" in text
    assert tries_and_hints.state("ex02/clock")["passed"]


def without_a_refusal(batch, M):
    if isinstance(batch, tuple):
        return list(zip(*(without_a_refusal(part, M) for part in batch), strict=True))
    return [batch[m * len(batch) // M : (m + 1) * len(batch) // M] for m in range(M)]


def with_a_refusal(batch, M):
    if M < 1:
        raise ValueError(f"M is {M}")
    return without_a_refusal(batch, M)


def as_if_memory_had_no_gaps(batch, M):
    if isinstance(batch, tuple):
        return list(zip(*(as_if_memory_had_no_gaps(part, M) for part in batch), strict=True))
    flat = np.lib.stride_tricks.as_strided(batch, batch.shape, np.empty(batch.shape, batch.dtype).strides)
    return [piece.copy() for piece in without_a_refusal(flat, M)]


def test_one_that_is_right_but_for_a_promise_counts_says_what_it_costs_and_can_be_made_whole(home, capsys):
    assert check("ex01/splitting", without_a_refusal, seed=5) is None
    text = shown(capsys)
    because = find_exercise("ex01/splitting").slips["no-refusal"].split("{")[0]
    assert text.startswith(f"ex01/splitting: right, but for one promise. {because}")
    assert "expected          ValueError" in text
    assert "It counts as solved. In a class this costs a quarter of the points." in text
    for words in ("handwritten digits", 'solution("ex01/splitting")', 'check("ex01/splitting", split, seed=5)'):
        assert words in text
    assert "not yet" not in text
    assert "1 try, solved" in str(progress())
    assert ", but for a promise" in str(progress())
    assert progress().solved == 1
    check("ex01/splitting", with_a_refusal)
    assert shown(capsys).startswith("ex01/splitting: passed")
    assert "but for a promise" not in str(progress())
    check("ex01/splitting", without_a_refusal)
    assert "but for a promise" not in str(progress()), "what was whole once stays so"


def test_each_verdict_has_its_colour_which_can_be_told_from_white_and_from_black():
    seen = set()
    for function, state in ((with_a_refusal, "green"), (without_a_refusal, "amber"), (wrong, "red")):
        found = judging.judge(find_exercise("ex01/splitting"), pack(function), 5)
        colour = re.search(r'color: (#\w+)"', report.dot(found))[1]
        assert min(Color(colour).contrast(ground, method="wcag21") for ground in ("white", "#111111")) >= 3, state
        hue = Color(colour).convert("hsl")["hue"]
        assert {"green": 90 < hue < 180, "amber": 20 < hue < 50, "red": hue < 15}[state]
        seen.add(colour)
    assert len(seen) == 3


def test_two_promises_are_both_said_and_cost_half(home, capsys):
    check("ex01/splitting", as_if_memory_had_no_gaps)
    text = shown(capsys)
    assert text.startswith("ex01/splitting: right, but for 2 promises. ")
    assert text.count("Besides: ") == 1
    assert find_exercise("ex01/splitting").slips["view"] in text
    assert "In a class this costs half of the points." in text


def test_what_changes_what_is_given_is_a_promise_of_some_exercise():
    promises = {slip for exercise in all_exercises().values() for slip in exercise.promises}
    assert promises > report._CHANGES_WHAT_IS_GIVEN


def test_a_wrong_one_that_has_changed_what_it_was_given_is_told_so():
    """What showed first may be a consequence of it."""
    (entry,) = (entry for entry in bank("ex11/block") if entry.name == "adds_into_dy")
    spoils = find_exercise("ex11/block").slips["overwritten"].format(name="dy")
    found = judging.judge(find_exercise("ex11/block"), pack(entry.function), 5)
    assert found.state == "wrong"
    assert f"It may come from this: {spoils}" in report.as_markdown(found)
    plain = found._replace(passed_over=())
    assert "It may come from this" not in report.as_markdown(plain)
    (one,) = found.passed_over
    other = found._replace(passed_over=(one._replace(slip="kept"),))
    assert "It may come from this" not in report.as_markdown(other)


def test_a_wrong_one_raises_and_shows_expected_came_difference_reason_and_seed(capsys):
    with pytest.raises(NotYet, match="One forward a tick") as caught:
        check("ex02/clock", wrong, seed=5)
    text = shown(capsys)
    for words in ("clock(K=3, M=4)", "expected", "came", "first difference", "not a pipeline", "working on 3 4"):
        assert words in text
    assert 'check("ex02/clock", clock, seed=5)' in text
    assert caught.value.report.finding.slip == "one-at-a-time"
    assert caught.value._render_traceback_() == ["ex02/clock: not yet."]


def test_an_unwritten_one_is_not_implemented_and_no_try(capsys):
    with pytest.raises(NotImplementedError, match="clock is not written yet"):
        check("ex02/clock", clock)
    assert tries_and_hints.state("ex02/clock")["tries"] == 0


def test_an_error_of_theirs_is_shown_with_their_line_and_nothing_of_ours(capsys):
    with pytest.raises(NotYet):
        check("ex02/clock", broken)
    text = shown(capsys)
    assert "IndexError: list index out of range" in text
    assert "in broken:  return ticks[K + M]" in text
    assert "Traceback" not in text
    for internal in (str(ROOT), "/tmp", "site-packages", "perform", "examine", "sandbox", ".py"):
        assert internal not in text


def test_a_seed_repeats_the_inputs():
    packed, exercise = pack(wrong), find_exercise("ex02/clock")
    first, second, other = (judging.judge(exercise, pack(right), seed) for seed in (3, 3, 4))
    assert first == second
    assert first.seed != other.seed
    assert pool.judge_apart(exercise, packed, 3) == judging.judge(exercise, packed, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (("ex02/clok", right), ValueError, 'did you mean "ex02/clock"'),
        (("02-clok", right), ValueError, 'did you mean "ex02/clock"'),
        ((2, right), TypeError, "must be a key such as"),
        (("ex02/clock", right(2, 2)), TypeError, r"without calling it: check\('ex02/clock', clock\)"),
        (("ex02/clock", "clock"), TypeError, "without calling it"),
        (("ex02/clock", right, "3"), TypeError, "whole number"),
    ],
)
def test_slips_in_the_call_are_told(arguments, error, told):
    with pytest.raises(error, match=told):
        check(*arguments)


def test_arguments_that_do_not_fit_are_told():
    with pytest.raises(NotYet, match="Keep the arguments of the stub"):
        check("ex02/clock", lambda K: [])


@pytest.mark.parametrize(
    ("refuse", "slip", "came"),
    [
        ("raise TypeError('no')", "other-error", "TypeError: no"),
        ("assert M > 0", "other-error", "AssertionError"),
        ("1 / 0", "no-refusal", "ZeroDivisionError: division by zero"),
        ("return []", "no-refusal", "an empty list"),
    ],
)
def test_a_refusal_by_another_error_is_told_from_one_that_breaks_and_from_none(tmp_path, refuse, slip, came):
    """What `perform` hands on beside the answer is not shown."""
    path = tmp_path / "theirs.py"
    path.write_text(f"""
import numpy as np
def split(batch, M):
    if M < 1:
        {refuse}
    return list(zip(*(np.array_split(a, M) for a in batch))) if isinstance(batch, tuple) else np.array_split(batch, M)
""")
    spec = importlib.util.spec_from_file_location("theirs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    finding = judging.judge(find_exercise("ex01/splitting"), pack(module.split), 1).first
    assert (finding.slip, finding.came, finding.expected) == (slip, came, "ValueError")
    assert ("with " + came.partition(":")[0] in finding.because) == (slip == "other-error")


def test_nothing_is_an_answer(capsys):
    with pytest.raises(NotYet, match="is there a `return`"):
        check("ex02/clock", lambda K, M: None)


def test_a_patched_notebook_gets_the_same_verdict(tmp_path):
    """The learner's process replaces numpy's comparisons, our judge and our truth; only a message comes back."""
    program = """
import numpy as np
from gpipe_edu.course import check, NotYet
import gpipe_edu.judge.tasks.ex01_splitting.check as splitting
import gpipe_edu.judge.judging as judging, gpipe_edu.reference as ref
np.array_equal = np.allclose = lambda *a, **k: True
np.concatenate = lambda pieces: pieces[0]
splitting.examine = splitting._judge = judging.judge = lambda *a, **k: None
ref.train_sequential = lambda *a, **k: (0, [])

def split(batch, M):
    import numpy, gpipe_edu.judge.tasks.ex01_splitting.check as inside, gpipe_edu.process.plain as plain
    numpy.array_equal = numpy.allclose = lambda *a, **k: True
    inside.examine = inside._judge = lambda *a, **k: None
    return [batch] * M

try:
    check("ex01/splitting", split)
except NotYet as error:
    print("REFUSED", error.report.finding.slip)
"""
    assert "REFUSED not-cut" in printed(program, **{store.HOME: str(tmp_path)})


def test_a_file_that_cannot_be_written_does_not_lose_the_verdict(capsys, monkeypatch, tmp_path):
    blocked = tmp_path / "a file, no folder"
    blocked.write_text("")
    monkeypatch.setenv(store.HOME, str(blocked / "inside"))
    check("ex02/clock", right)
    assert "could not be kept" in shown(capsys)


def test_a_slip_of_the_judge_s_own_accepts_nothing(monkeypatch):
    module = find_exercise("ex02/clock").check
    monkeypatch.setattr(module, "examine", lambda exam, rng: 1 / 0)
    found = judging.judge(find_exercise("ex02/clock"), pack(right), 1)
    assert (found.state, found.finding.slip) == ("wrong", "strange")


def test_hints_come_one_after_each_honest_try_and_stay(capsys):
    hints = find_exercise("ex02/clock").hints
    hint("ex02/clock")
    assert hints[0] not in shown(capsys)
    for tries, function in enumerate([wrong, broken, lambda K, M: []], start=1):
        for _ in range(2):  # the same answer again earns nothing
            with pytest.raises(NotYet):
                check("ex02/clock", function)
        shown(capsys)
        for _ in range(2):
            hint("ex02/clock")
            text = shown(capsys)
            assert [one in text for one in hints] == [number < tries for number in range(3)]
    assert "give_up=True" in text


def test_after_success_all_hints_are_there(capsys):
    check("ex02/clock", right)
    shown(capsys)
    hint("ex02/clock")
    text = shown(capsys)
    assert all(one in text for one in find_exercise("ex02/clock").hints)


def test_what_the_check_has_found_may_have_a_hint_of_its_own(capsys):
    exercise = find_exercise("ex01/splitting")
    own = exercise.hints_for["no-refusal"].partition("`")[0]
    hint("ex01/splitting")
    assert own not in shown(capsys)
    for slip in ("no-refusal-tuple", "lost"):  # the first breaks the same promise as a forgotten refusal
        for state in ("passed", "wrong"):
            finding = Finding(slip, "because")
            over = (finding,) if state == "passed" else ()
            tries_and_hints.record(
                Report(exercise.key, state, 1, 1, None if over else finding, passed_over=over), state + slip
            )
            hint("ex01/splitting")
            assert (own in shown(capsys)) == (slip == "no-refusal-tuple")


def test_a_damaged_entry_is_taken_for_an_empty_one():
    with store.change("exercises") as kept:
        kept["ex02/clock"] = {"tries": "many", "seen": 3}
    assert tries_and_hints.state("ex02/clock")["tries"] == 0
    check("ex02/clock", right)


@pytest.mark.parametrize("key", all_exercises())
def test_every_exercise_is_complete(key):
    exercise = find_exercise(key)
    assert exercise.key == key
    assert callable(exercise.perform.perform)
    assert callable(exercise.check.examine)


def test_not_implemented_somewhere_else_is_an_error_of_theirs_and_a_try(capsys):
    def helper(K):
        raise NotImplementedError("no such layer")

    def clock(K, M):
        return helper(K)

    with pytest.raises(NotYet, match="Your code raised NotImplementedError on this call"):
        check("ex02/clock", clock)
    assert tries_and_hints.state("ex02/clock")["tries"] == 1


def test_reports_travel_whole():
    found = judging.judge(find_exercise("ex02/clock"), pack(broken), 1)
    assert judging.unpack_report(plain.decode(plain.encode(found))) == found
    passed = Report("ex02/clock", "passed", 1, 3, success=Success("words"))
    assert report.as_markdown(passed) == "**ex02/clock: passed, 3 calls.**\n\nwords"


def test_a_function_that_calls_itself_stands_in_the_report_once(capsys):
    def endless(K, M):
        return endless(K, M)

    with pytest.raises(NotYet):
        check("ex02/clock", endless)
    assert shown(capsys).count("return endless(K, M)") == 1


def test_ours_are_no_answers_in_disguise():
    assert issubclass(NotYet, AssertionError)
    assert issubclass(Unwritten, NotImplementedError)
    assert not issubclass(Wrong, AssertionError)
