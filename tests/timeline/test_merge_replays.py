"""Several disturbed runs give the times of one that nothing disturbed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu.timeline import merge_replays, replay

from ..recipes import RECIPES

SECONDS = {"F": 1.0, "B": 2.0, "R": 1.0, "C": 3.0, "I": 1.0, "W": 1.0}


def run(schedule, late=()):
    return replay(schedule, lambda op: SECONDS[op.kind] + 5 * (op in late), source="replayed", unit="s")


@given(st.sampled_from(sorted(RECIPES)), st.integers(2, 5), st.randoms(use_true_random=False))
def test_ops_disturbed_in_all_runs_but_one_leave_no_trace(name, runs, rng):
    schedule = RECIPES[name](3, 4)
    ops = [op for row in schedule.rows for op in row]
    late = [[] for _ in range(runs)]
    for op in ops:
        for one in rng.sample(range(runs), runs - 1):
            late[one].append(op)
    found = merge_replays(run(schedule, ops_late) for ops_late in late)
    assert found == run(schedule)
    assert (found.source, found.unit, found.name) == ("replayed", "s", schedule.name)


def test_what_can_not_be_put_together_is_refused():
    gpipe, other = run(ge.gpipe(2, 2)), run(ge.one_f_one_b(2, 2))
    with pytest.raises(ValueError, match="at least one run"):
        merge_replays([])
    with pytest.raises(ValueError, match="other ops, or in another order"):
        merge_replays([gpipe, other])
    with pytest.raises(ValueError, match="is planned"):
        merge_replays([gpipe, ge.simulate(ge.gpipe(2, 2))])
