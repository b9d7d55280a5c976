"""What is wrong first is said first: that a schedule hangs, what a call that raised is to give, where two differ."""

import re

import numpy as np

import gpipe_edu as ge
from gpipe_edu import Op
from gpipe_edu.base.words import tell_apart
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.judging import judge
from gpipe_edu.judge.schedules import difference, stop_of
from gpipe_edu.judge.tasks.ex08_batchnorm.check import write_in_digits
from gpipe_edu.process.packing import pack
from tests.each import each
from tests.solutions.bank import bank


def finding(key, name):
    [entry] = [entry for entry in bank(key) if entry.name == name]
    return judge(find_exercise(key), pack(entry.function), 0).first


HANGS = ("neighbours_on_a_device", "backwards_as_forwards", "warm_up_of_1f1b", "each_through_all_its_rounds")


@each("name", HANGS)
def test_rows_that_hang_are_told_so_before_anything_else(name):
    found = finding("ex12/interleaved", name)
    rows = ge.Schedule.parse(found.came)
    hang = re.match(r"This hangs: device (\d) waits for ever at (\S+)\. ", found.because)
    assert [problem.code for problem in rows.problems()[:1]] == ["deadlock" if hang else "order"]
    if not hang:
        assert found.because.startswith(f"This cannot run: {rows.problems()[0].message}. ")
        return
    ran = {op for _, op, _ in rows.steps}
    waiting = [next(op for op in row if op not in ran) for row in rows.rows]
    assert str(waiting[int(hang[1])]) == hang[2]


def test_rows_that_run_are_not_told_that_they_hang():
    assert stop_of(ge.interleaved(3, 6, 2)) == ""
    assert "hangs" not in finding("ex12/interleaved", "one_group_of_all").because
    assert stop_of(ge.Schedule.parse("F0\nF0 B0")) == (
        "This cannot run: B0@0 is missing on device 0: every micro-batch is finished on every stage. "
    )


def test_the_first_difference_names_a_stage_where_the_device_does_not():
    rows, right = (ge.Schedule.parse(text) for text in ("F0@0 F0@1 B0@1 B0@0", "F0@0 F1@0 F0@1 F1@1"))
    assert difference(rows, right) == "device 0, place 1: F0@1 instead of F1@0"
    assert difference(ge.gpipe(2, 2), ge.one_f_one_b(2, 2)) == "device 0, place 2: B1 instead of B0"
    shifted = [[op._replace(stage=1 - op.stage) for op in row] for row in ge.gpipe(2, 2).rows]
    assert difference(ge.Schedule(shifted), ge.gpipe(2, 2)) == "device 0, place 0: F0@1 instead of F0@0"


@each("odd", range(3))
def test_the_first_difference_is_on_the_device_that_is_unlike_the_others(odd):
    def f_then_b(K, M):
        backs = [range(M) if k == odd else range(M - 1, -1, -1) for k in range(K)]
        return [[*(Op("F", m, k) for m in range(M)), *(Op("B", m, k) for m in backs[k])] for k in range(K)]

    found = judge(find_exercise("ex02/f-then-b"), pack(f_then_b), 0).finding
    assert found.slip == "backward-orders"
    assert found.call == "f_then_b(K=3, M=4)"
    assert found.difference == f"device {odd}, place 4: B0 instead of B3"


def test_a_call_that_raised_comes_with_what_it_is_to_give():
    def one_f_one_b(K, M):
        return [[Op("F", m, k) for m in range(M)][M] for k in range(K)]

    found = judge(find_exercise("ex07/1f1b"), pack(one_f_one_b), 0).finding
    assert found.because.startswith("Your code raised IndexError on this call. It has to work: ")
    assert (found.call, found.expected) == ("one_f_one_b(K=3, M=5)", str(ge.one_f_one_b(3, 5)))
    for key in ("ex14/buffer", "ex16/profile", "ex11/block"):
        name = next(entry.name for entry in bank(key) if entry.slip == "error")
        assert finding(key, name).expected, key


def test_a_recipe_that_is_called_is_no_error_of_ones_own():
    found = finding("ex12/interleaved", "calls_the_recipe")
    assert found.because.startswith("Your code calls a function that does what yours should do")
    assert found.trouble.message.startswith("interleaved is not available in this exercise")


def test_the_part_that_is_whole_is_named():
    assert "part 1 is whole in every piece" in finding("ex01/splitting", "labels_whole_beside_each_piece").because
    assert "part 0 is whole in every piece" in finding("ex01/splitting", "cuts_the_last_part_only").because


def test_numbers_that_differ_are_written_so():
    assert tell_apart(1.0, 2.0) == ("1", "2")
    assert tell_apart(1.82045455, 1.820454551) == ("1.82045455", "1.820454551")
    assert tell_apart(0.1, 0.1) == ("0.1", "0.1")
    assert tell_apart(0.1, 0.1 + 2e-17) == ("0.10000000000000001", "0.10000000000000002")
    assert tell_apart(float("nan"), 1.0) == ("nan", "1")
    expected, came = write_in_digits(np.array([0.125, 0.7295454550]), np.array([0.1250000004, 0.7295454550]))
    assert (expected, came) == ("0.125, 0.729545", "0.1250000004, 0.729545")
