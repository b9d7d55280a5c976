"""What passes between two steps is told, with who came last: from traces whose times are worked out here."""

import json

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline.opened.load import open_files

SCHEDULES = (ge.one_f_one_b(4, 8), ge.gpipe(3, 6), ge.zero_bubble_v(3, 6))


def saved(folder, schedule, own, steps=3, missing=()):
    """A trace for each rank: F takes 10 ms, B 20, and rank k lets own[k] seconds pass before each step. Returns how
    long nothing runs before each step but the first.

    missing: (rank, step) whose last op is not in the trace."""
    K = schedule.devices
    ends, events, idle = [0.0] * K, [[] for _ in range(K)], []
    for number in range(steps):
        free = [end + time for end, time in zip(ends, own, strict=True)]
        done, first = {}, float("inf")
        for device, op, _ in schedule.steps:
            start = max([free[device], *(done[need] for need in schedule.needs(op))])
            done[op] = start + {"F": 0.01, "B": 0.02, "I": 0.01, "W": 0.01}[op.kind]
            if (device, number) not in missing or op != schedule.rows[device][-1]:
                for cat, name, begin, end in (
                    ("user_annotation", f"PP:{op.stage}{op.kind}{op.micro_batch}", free[device], done[op]),
                    ("cpu_op", "c10d::recv_", free[device], free[device] + 1e-6),
                    ("cpu_op", "aten::linear", start, done[op]),
                ):
                    times = {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
                    events[device].append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, **times})
            free[device] = done[op]
            first = min(first, start)
        idle.append(first - max(ends))
        ends = free
    for rank, found in enumerate(events):
        about = {"distributedInfo": {"rank": rank, "backend": "gloo", "world_size": K}}
        (folder / f"rank{rank}_trace.json").write_text(json.dumps({"traceEvents": found, **about}))
    return idle[1:]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_a_rank_that_comes_late_to_each_step_is_named_with_what_it_costs(tmp_path, schedule):
    for late in range(schedule.devices):
        own = [0.3 if rank == late else 0.002 for rank in range(schedule.devices)]
        idle = saved(tmp_path, schedule, own)
        steps = open_files(tmp_path).steps
        assert [step.pause is None for step in steps] == [True, False, False]
        found = ge.diagnose(steps)
        [told] = [one for one in found.findings if "Between steps" in one.sentence]
        assert f"device {late} comes last, and takes 0.3 s " in told.sentence.replace("300 ms", "0.3 s")
        assert "the next step, others " in told.sentence
        assert ": the step waits for what it does there, such as loading data." in told.sentence
        assert found.between == pytest.approx(max(0.0, *idle), abs=1e-5)
        assert told.gain >= found.between
        if late == 0:  # nobody begins without it
            assert idle[0] > 0.25
            assert "- Between steps no device runs an op for " in str(found)


def test_what_takes_all_ranks_as_long_is_no_one_s_fault(tmp_path):
    assert saved(tmp_path, ge.one_f_one_b(4, 8), [0.05] * 4) == pytest.approx([0.05] * 2)
    found = ge.diagnose(open_files(tmp_path).steps)
    assert found.between == pytest.approx(0.05, abs=1e-5)
    assert (
        "Between steps no device runs an op for 50 ms in the median: device 0 comes last, and takes 50 ms from its "
        "last op until it turns to the next step, no longer than others (50 ms); an optimizer's step is in that time."
    ) in str(found)


def test_steps_that_follow_at_once_and_one_alone_are_told_nothing_of_it(tmp_path):
    for own, steps in (([0.0001] * 4, 3), ([0.3] * 4, 1)):
        saved(tmp_path, ge.one_f_one_b(4, 8), own, steps)
        found = ge.diagnose(open_files(tmp_path).steps)
        assert "Between steps" not in "".join(one.sentence for one in found.findings)


def test_the_time_behind_a_step_that_is_not_whole_is_none_between_steps(tmp_path):
    saved(tmp_path, ge.one_f_one_b(2, 4), [0.3, 0.002], 4, missing=[(1, 1)])
    steps = open_files(tmp_path).steps
    assert [step.pause is None for step in steps] == [True, True, False]
