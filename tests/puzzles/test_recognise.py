"""Names for what somebody had built before, and for nothing else."""

import gpipe_edu as ge
from gpipe_edu.puzzles import recognise
from gpipe_edu.schedule.recompute import with_recompute
from tests.each import each

from .solutions import divided, in_groups


def first_in_first_out(K, M):
    return ge.Schedule([[ge.Op(kind, m, k) for kind in "FB" for m in range(M)] for k in range(K)])


@each(
    "schedule, name",
    [
        (ge.naive(3, 4), "model parallelism without a pipeline"),
        (ge.gpipe(3, 4), "GPipe"),
        (first_in_first_out(3, 4), "GPipe with its backwards in first-in-first-out order"),
        (ge.one_f_one_b(3, 4), "1F1B"),
        (ge.zero_bubble(3, 4), "ZB-H1 (zero bubble)"),
        (ge.interleaved(2, 4, 2), "interleaved 1F1B with 2 stages per device"),
        (ge.interleaved(2, 4, 3), "interleaved 1F1B with 3 stages per device"),
        (ge.gpipe(3, 4, recompute="late"), "GPipe with late recompute"),
        (ge.gpipe(3, 4, recompute="early"), "GPipe with early recompute"),
        (with_recompute(ge.one_f_one_b(3, 4), "always"), "1F1B with early recompute"),
        (
            with_recompute(ge.one_f_one_b(3, 4), "except_last"),
            "1F1B with early recompute of all but the last micro-batch",
        ),
        (with_recompute(ge.zero_bubble(3, 4), "always"), "ZB-H1 (zero bubble) with early recompute"),
        (divided(ge.one_f_one_b(3, 4)), "1F1B with every backward divided, W right after I"),
        (in_groups(ge.gpipe(3, 2), 2), "GPipe, 2 micro-batches at a time"),
    ],
)
def test_known_schedules_have_their_name_and_no_other(schedule, name):
    assert recognise(schedule) == (name,)


def test_where_several_are_the_same_all_are_named():
    assert recognise(ge.gpipe(1, 1)) == (
        "model parallelism without a pipeline",
        "GPipe",
        "GPipe with its backwards in first-in-first-out order",
        "1F1B",
    )


def test_micro_batches_may_have_other_numbers():
    for schedule, name in ((ge.one_f_one_b(3, 4), "1F1B"), (ge.gpipe(3, 4), "GPipe")):
        renamed = [[op._replace(micro_batch=(2, 0, 3, 1)[op.micro_batch]) for op in row] for row in schedule.rows]
        assert recognise(ge.Schedule(renamed)) == (name,)


def test_one_swap_is_enough_to_have_no_name():
    for schedule in (ge.gpipe(3, 4), ge.one_f_one_b(3, 4), ge.zero_bubble(3, 4), ge.interleaved(2, 4, 2)):
        for device, row in enumerate(schedule.rows):
            for at in range(len(row) - 1):
                rows = [list(other) for other in schedule.rows]
                rows[device][at : at + 2] = rows[device][at + 1], rows[device][at]
                swapped = ge.Schedule(rows)
                if not swapped.problems():
                    assert "1F1B" not in recognise(swapped)
                    assert "GPipe" not in recognise(swapped)
                    assert "ZB-H1 (zero bubble)" not in recognise(swapped)


def test_stages_that_do_not_go_round_evenly_have_no_name():
    assert recognise(ge.Schedule.parse("F0@0 F0@1 B0@1 B0@0\nF0@2 B0@2")) == ()
