"""One order in which all ops can run: valid, complete, and found fast."""

import gpipe_edu as ge
from gpipe_edu import Schedule
from tests.oracle import inputs, plain, play
from tests.recipes import recompute_and_split, small_schedules


def test_the_order_respects_every_need_and_every_device():
    for schedule in [*small_schedules(4, 4), recompute_and_split(3, 3)]:
        steps = schedule.steps
        there = {tuple(op) for _, op, _ in steps}
        assert len(steps) == len(there) == sum(map(len, schedule.rows))
        done: set = set()
        for _, op, waited_for in steps:
            assert {tuple(need) for need in waited_for} == set(inputs(tuple(op), there, schedule.stages))
            assert done.issuperset(waited_for), (schedule.name, op)
            done.add(op)
        for device, row in enumerate(schedule.rows):
            assert [op for where, op, _ in steps if where == device] == list(row)


def test_ops_that_can_never_run_are_left_out_and_all_others_are_there():
    stuck = Schedule.parse("F0 B0 F1 B1\nF0 F1 B1 B0")
    assert {tuple(op) for _, op, _ in stuck.steps} == set(play(plain(stuck)))
    assert len(stuck.steps) == 2


def test_fifty_thousand_ops_are_put_in_order():
    assert len(ge.gpipe(32, 800).steps) == 2 * 32 * 800
