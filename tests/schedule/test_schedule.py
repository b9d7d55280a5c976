"""Schedules as data: rows in, figures out, and a clear word for what is no schedule."""

import pickle

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Op, Schedule
from tests.oracle import expected_code, plain
from tests.recipes import small_schedules
from tests.refusals import refusals

ROWS = [[Op("F", 0, 0), Op("B", 0, 0)], [Op("F", 0, 1), Op("B", 0, 1)]]


def test_a_schedule_keeps_the_rows_and_the_name_it_was_given():
    schedule = Schedule(ROWS, name="mine")
    assert [list(row) for row in schedule.rows] == ROWS
    assert schedule.name == "mine"
    assert Schedule(ROWS).name == ""


def test_devices_stages_and_micro_batches_are_counted():
    schedule = ge.interleaved(2, 6, 3)
    assert (schedule.devices, schedule.stages, schedule.micro_batches) == (2, 6, 6)
    empty = Schedule([])
    assert (empty.devices, empty.stages, empty.micro_batches) == (0, 0, 0)


def test_rows_may_come_from_generators_and_are_read_once():
    assert Schedule((op for op in row) for row in ROWS) == Schedule(ROWS)


def test_later_changes_of_the_callers_lists_do_not_reach_the_schedule():
    rows = [list(row) for row in ROWS]
    schedule = Schedule(rows)
    rows[0].pop()
    assert schedule == Schedule(ROWS)


def test_schedules_are_equal_by_what_they_do_not_by_name():
    assert Schedule(ROWS, name="a") == Schedule(ROWS, name="b")
    assert len({Schedule(ROWS, name="a"), Schedule(ROWS, name="b"), ge.gpipe(2, 2)}) == 2
    assert Schedule(ROWS) != Schedule(ROWS[::-1])
    assert Schedule(ROWS) != ROWS


def test_check_returns_the_schedule_itself_so_that_calls_can_be_chained():
    schedule = ge.gpipe(3, 4)
    assert schedule.check() is schedule
    assert schedule.problems() == []


def test_check_raises_the_first_problem_and_carries_all():
    schedule = Schedule.parse("F0 F1\nF0 F1")
    with pytest.raises(ge.ScheduleError) as error:
        schedule.check()
    assert str(error.value) == schedule.problems()[0].message
    assert error.value.problems == schedule.problems()
    assert len(error.value.problems) == 4
    assert isinstance(error.value, ValueError)


def test_the_list_of_problems_is_the_callers_own():
    schedule = Schedule.parse("F0")
    schedule.problems().clear()
    assert len(schedule.problems()) == 1


def test_schedules_and_their_errors_survive_a_trip_to_another_process():
    schedule = ge.interleaved(2, 4, 2)
    schedule.check()
    again = pickle.loads(pickle.dumps(schedule))
    assert again == schedule
    assert again.name == schedule.name
    error = pickle.loads(pickle.dumps(ge.ScheduleError(Schedule.parse("F0").problems())))
    assert error.problems == Schedule.parse("F0").problems()


def test_the_first_micro_batches_of_a_legal_schedule_are_a_legal_schedule():
    for schedule in small_schedules(3, 5):
        for fewer in range(1, schedule.micro_batches + 2):
            cut = schedule.first(fewer)
            assert cut.micro_batches == min(fewer, schedule.micro_batches)
            assert expected_code(plain(cut)) is None, (schedule.name, fewer)
            assert plain(cut) == [[op for op in row if op[1] < fewer] for row in plain(schedule)]
            assert cut.name == schedule.name


def test_the_home_of_every_stage_is_known():
    assert ge.interleaved(2, 2, 2).device_of_stage == {0: 0, 1: 1, 2: 0, 3: 1}


def test_repr_names_the_size():
    assert repr(ge.gpipe(4, 8)) == "Schedule(gpipe, devices=4, stages=4, micro_batches=8)"
    assert repr(Schedule([])) == "Schedule(devices=0, stages=0, micro_batches=0)"


test_what_is_no_schedule = refusals(
    (TypeError, r'Op\("F", 0, 0\).*{}', Schedule, [None, 3, 2.5, True, [3], [None]]),
    (TypeError, r"rows\[2\]\[1\].*{}", lambda op: Schedule([*ROWS, [ROWS[0][0], op]]), ["F0", ("F", 0, 0), 3, None]),
    (TypeError, r"Schedule\.parse", lambda: Schedule("F0 B0")),
    (ValueError, "micro_batches is {}", ge.gpipe(2, 2).first, [0, -1]),
    (TypeError, "{}", ge.gpipe(2, 2).first, ["1", None, 1.5, True, [1]]),
)


def test_a_flat_list_of_ops_gets_the_advice_to_put_it_in_a_row():
    with pytest.raises(TypeError) as error:
        Schedule([Op("F", 0, 0), Op("B", 0, 0)])
    assert "is 'F'" not in str(error.value), "the learner gave ops, no letter 'F'"
    assert "one sequence of Op per device" in str(error.value)


def test_first_takes_a_numpy_integer():
    assert ge.gpipe(2, 4).first(np.int64(2)).micro_batches == 2


def test_a_schedule_of_a_schedule_is_the_same_under_its_old_name_or_a_new_one():
    given = ge.one_f_one_b(2, 3)
    assert (ge.Schedule(given).rows, ge.Schedule(given).name) == (given.rows, given.name)
    assert ge.Schedule(given, name="mine").name == "mine"


def test_pairs_stay_with_a_schedule_where_both_ops_do():
    whole = ge.dual_pipe_v(2, 4)
    assert Schedule(whole).pairs == whole.pairs
    assert whole.apart() == whole
    assert not whole.apart().pairs
    assert whole.first(3).pairs == {pair for pair in whole.pairs if all(op.micro_batch < 3 for op in pair)}


def test_a_pair_that_is_none_is_refused():
    row, last = ge.one_f_one_b(2, 3).rows
    for pair in ((row[2], row[3]), (row[0], row[1]), (last[0], last[1]), (row[3], row[2])):
        with pytest.raises(ValueError, match="is no pair: a pair is a forward and, right behind it on its device"):
            Schedule([row, last], pairs=[pair])


def test_pairs_that_wait_for_each_other_are_a_deadlock():
    pair = (Op("F", 1, 0), Op("B", 0, 0))
    early = Schedule.parse("F0 F1 B0 B1\nF0 B0 F1 B1").check()
    assert Schedule(early, pairs=[pair]).problems() == []
    late = Schedule.parse("F0 F1 B0 B1\nF0 F1 B0 B1").check()
    assert Schedule(late, pairs=[pair]).problems()[0].code == "deadlock"
