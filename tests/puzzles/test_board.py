"""Moves and what is said of them."""

import re

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Board, Level, find_level
from gpipe_edu.puzzles.levels import sandbox
from gpipe_edu.puzzles.position import CODES, Position
from gpipe_edu.puzzles.states import StateSpace
from gpipe_edu.schedule import Op
from tests.amount import examples
from tests.oracle import expected_code, plain, times
from tests.strategies import RANDOM

from .brute import duration_of, peak_of
from .solutions import SOLUTIONS, solved

pytestmark = pytest.mark.slow


def op(text):
    ((found,),) = ge.Schedule.parse(text).rows
    return found


def place(board, *texts):
    return [board.place(board.level.home(op(text).stage), op(text)) for text in texts][-1]


@pytest.mark.parametrize(
    ("before", "device", "move", "code", "says"),
    [
        ("", 1, "F0@1", "waiting", "F0@1 on device 1 waits for F0@0, which is not on the board: a forward needs"),
        ("F0@0", 0, "B0@0", "waiting", "B0@0 on device 0 waits for B0@1, .*: a backward needs the gradient"),
        ("", 0, "B0@0", "order", "device 0 runs B0@0 before F0@0, but a backward needs the activations of its forward"),
        ("F0@0", 0, "F0@0", "duplicate", "F0@0 appears twice on device 0; every op runs exactly once"),
        ("F0@0", 0, "F0@1", "split-stage", "F0@1 is on device 0, but stage 1 is on device 1: all ops of a stage run"),
        ("F0@0", 1, "F1@0", "split-stage", "F1@0 is on device 1, but stage 0 is on device 0"),
        ("F0@0 F1@0", 0, "F2@0", "cap", "with F2@0, device 0 would hold 3 micro-batches, the cap is 2"),
        ("", 0, "F4@0", "level", "F4@0 on device 0: the micro-batches of this level are 0 to 3"),
        ("", 0, "F0@2", "level", "F0@2 on device 0: the stages of this level are 0 to 1"),
        ("F0@0", 0, "R0@0", "level", "R0@0 on device 0: this level is played with F forward, B backward"),
        ("", 2, "F0@0", "place", "device is 2; the devices are 0 to 1"),
        ("", -1, "F0@0", "place", "device is -1; the devices are 0 to 1"),
    ],
)  # fmt: skip
def test_a_refusal_names_op_and_device_and_says_why(before, device, move, code, says):
    board = Board(find_level("memory-wall"))
    if before:
        assert place(board, *before.split()).accepted
    rows = board.rows
    verdict = board.place(device, op(move))
    assert not verdict.accepted
    assert verdict.code == code
    assert code in {*CODES, "place"}
    assert re.match(says, verdict.message), verdict.message
    assert board.rows == rows


def test_a_backward_that_would_have_needed_a_recompute_is_refused_for_the_memory_of_its_forward():
    board = Board(find_level("recompute-early"))
    assert board.type("F0@0 F1@0 F2@0 F0@1 F0@2 F1@1 B0@2").accepted
    verdict = board.type("B0@1")
    assert verdict.code == "cap"
    assert verdict.message == (
        "B0@1 not here: with F1@1, device 1 would hold 6 units, the cap is 4; recompute would free some of it"
    )
    assert board.type("R0@1 B0@1").accepted


def test_a_recompute_behind_its_backward_and_two_ways_at_once_are_refused():
    board = Board(find_level("recompute-early"))
    assert board.type("F0@0 F0@1 F0@2 B0@2").accepted
    verdict = board.type("R0@2")
    assert verdict.code == "order"
    assert "runs B0@2 before R0@2" in verdict.message
    verdict = board.type("C0@2")
    assert verdict.code == "mixed"
    assert "device 2 has B0@2 and C0@2" in verdict.message


def solution_moves(key):
    """The ops of a written solution in an order in which they run."""
    return [(device, step) for device, step, _ in ge.Schedule.parse(SOLUTIONS[key]).steps]


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
def test_a_level_is_solved_move_by_move(level):
    board = Board(level)
    moves = solution_moves(level.key)
    board.set_mode("guided")
    for count, (device, step) in enumerate(moves, start=1):
        assert step in board.ready[device], step
        verdict = board.place(device, step)
        assert verdict.accepted, verdict
        assert board.score.solved == (count == len(moves))


@pytest.mark.parametrize("level", LEVELS[:-1], ids=lambda level: level.key)
def test_what_is_drawn_of_a_part_is_what_the_whole_will_show(level):
    """Partial times, by the independent simulator: those of the ops in the finished schedule."""
    board = Board(level)
    whole = times(plain(ge.Schedule.parse(SOLUTIONS[level.key])), duration_of(level), level.costs.send)
    for device, step in solution_moves(level.key):
        board.place(device, step)
        assert {(*span.op,): (span.start, span.end) for span in board.timeline.spans} == {
            o: whole[o] for o in whole if any(o in row for row in board.rows)
        }


@pytest.mark.sweep
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
@examples(3)
@given(rng=RANDOM)
def test_random_guided_play_is_always_sound_and_ready_names_every_move_there_is(level, rng):
    board = Board(level)
    board.set_mode("guided")
    for turn in range(60):
        ready = board.ready
        if turn % 7 == 0 and level.key != "sandbox":
            allowed = [{o for o in level.ops() if trial(board, device, o).accepted} for device in range(level.K)]
            assert [set(ops) for ops in ready] == allowed
        choices = [(device, o) for device, ops in enumerate(ready) for o in ops]
        if not choices:
            break
        assert board.place(*rng.choice(choices)).accepted
        assert board.problems == []
        for device, row in enumerate(board.rows):
            assert level.cap is None or peak_so_far(row, level) <= level.cap[device]
    if board.position.complete:
        assert expected_code(plain(board.position.schedule)) is None
        assert board.position.peaks == tuple(peak_of(level, row) for row in board.rows)


def trial(board, device, o):
    copy = Board(board.level)
    copy.set_mode("guided")
    assert copy.load(board.rows).accepted
    return copy.place(device, o)


def peak_so_far(row, level):
    """The peak of a row to be gone on with: what may be recomputed later will be, and what is finished was not."""
    row = [tuple(o) for o in row]
    if not {"R", "C"} & set(level.kinds):
        return peak_of(level, row)
    open_cells = {o[1:] for o in row} - {o[1:] for o in row if o[0] in "RCBI"}
    return peak_of(level, row, open_cells)


def test_undo_and_redo_go_through_every_change():
    board = Board(find_level("pipelining"))
    seen = [board.rows]
    for device, step in solution_moves("pipelining"):
        board.place(device, step)
        seen.append(board.rows)
    board.clear()
    seen.append(board.rows)
    for rows in reversed(seen[:-1]):
        assert board.undo().accepted
        assert board.rows == rows
    assert board.undo().message == "nothing to take back"
    for rows in seen[1:]:
        assert board.redo().accepted
        assert board.rows == rows
    assert not board.redo().accepted
    board.undo()
    board.undo()
    assert board.place(*solution_moves("pipelining")[-1]).accepted
    assert not board.redo().accepted


def test_a_refused_move_is_no_change_to_take_back():
    board = Board(find_level("pipelining"))
    place(board, "F0@0")
    place(board, "F0@0")
    board.undo()
    assert board.rows == ((), (), ())


def test_in_guided_mode_an_op_that_others_need_stays():
    board = Board(find_level("pipelining"))
    place(board, "F0@0", "F1@0", "F0@1")
    verdict = board.remove(0, 0)
    assert verdict.code == "waiting"
    assert "F0@1 on device 1 waits for F0@0" in verdict.message
    assert board.remove(0).accepted
    assert board.rows == ((op("F0@0"),), (op("F0@1"),), ())
    assert board.remove(2).message == "there is no place -1 on device 2: it has no ops"
    assert board.remove(0, 5).message == "there is no place 5 on device 0: its ops stand at 0 to 0"


def test_ops_can_be_put_in_between_and_moved():
    board = Board(find_level("pipelining"))
    place(board, "F0@0", "F1@0", "F0@1")
    assert board.place(0, op("F2@0"), at=1).accepted
    assert [str(o) for o in board.rows[0]] == ["F0@0", "F2@0", "F1@0"]
    assert board.move(0, 1, 0, 2).accepted
    assert [str(o) for o in board.rows[0]] == ["F0@0", "F1@0", "F2@0"]
    assert board.move(0, 0, 1, 1).code == "split-stage"
    assert board.move(0, 0, 0, 3).code == "place"
    assert board.place(0, op("B0@0"), at=0).code == "order"


def test_free_mode_takes_anything_and_lists_what_is_wrong():
    board = Board(find_level("memory-wall"))
    assert board.set_mode("free").accepted
    for device, text in ((1, "B0@1"), (1, "F0@1"), (0, "F0@0"), (0, "F0@0"), (1, "F1@0"), (0, "R9@7")):
        assert board.place(device, op(text)).accepted
    assert [problem.code for problem in board.problems] == ["level"]
    board.remove(0)
    assert [problem.code for problem in board.problems] == ["split-stage"]
    board.remove(1)
    assert [problem.code for problem in board.problems] == ["duplicate"]
    board.remove(0)
    assert [problem.code for problem in board.problems] == ["order"]
    assert [str(span.op) for span in board.timeline.spans] == ["F0@0"]
    assert board.set_mode("guided").code == "order"
    assert board.move(1, 0, 1, 1).accepted
    assert board.problems == []
    assert board.set_mode("guided").accepted
    assert len(board.timeline.spans) == 3
    with pytest.raises(ValueError, match="mode is 'wild'; it must be one of guided, free"):
        board.set_mode("wild")


def test_free_mode_finds_a_deadlock_between_devices():
    board = Board(find_level("memory-wall"))
    board.set_mode("free")
    board.type("F0 B0 F1 B1\nF0 F1 B0 B1")
    assert [problem.code for problem in board.problems] == ["deadlock"]
    assert {str(span.op) for span in board.timeline.spans} == {"F0@0", "F0@1"}


@pytest.mark.parametrize(
    ("K", "M", "V", "kinds"), [(3, 3, 1, "FB"), (4, 3, 1, "FIW"), (2, 3, 3, "FB"), (3, 2, 2, "FRB")]
)
@examples(40)
@given(rng=RANDOM)
def test_rows_cut_off_anywhere_break_no_rule(K, M, V, kinds, rng):
    """Each device's part of a legal schedule can be completed, even where what it waits for is still missing."""
    level = Level("x", "x", "x", K, M, kinds=kinds, V=V)
    model = StateSpace(level)
    state, rows = model.start, [[] for _ in range(K)]
    while moves := list(model.moves(state)):
        move = rng.choice(moves)
        rows[move.action.device].append(move.op)
        state = model.after(state, move)
    cut = [row[: rng.randrange(len(row) + 1)] for row in rows]
    position = Position(level, cut)
    assert position.problems == []
    if len(level.ways) == 1:
        assert len(position.missing) == sum(map(len, rows)) - sum(map(len, cut))


def test_a_device_that_is_stuck_is_ready_for_nothing():
    board = Board(find_level("memory-wall"))
    board.set_mode("free")
    board.type("0: F0")
    board.type("1: B0")
    assert [[str(o) for o in ops] for ops in board.ready] == [["F1@0", "F2@0", "F3@0"], []]


def test_guided_undo_does_not_lead_back_to_what_is_wrong():
    board = Board(find_level("pipelining"))
    board.set_mode("free")
    board.place(1, op("F0@1"))
    board.remove(1)
    board.set_mode("guided")
    assert "that board was built in free mode" in board.undo().message
    assert board.rows == ((), (), ())


@pytest.mark.parametrize(
    ("text", "accepted", "says"),
    [
        ("F0@0", True, "F0@0 placed"),
        ("  F0@0 F1@0  # two", True, "F0@0 F1@0 placed"),
        ("0: F0 F1", True, "F0@0 F1@0 placed"),
        ("F0@0 F0@2", False, r"F0@2 on device 2 waits for F0@1, .* \(F0@0 placed before\)"),
        ("F0", False, "F0 on which stage\\? Write F0@0 for stage 0, or 0: F0 for device 0"),
        ("3: F0", False, '"3:" is no device; the devices are 0 to 2'),
        ("x: F0", False, '"x:" is no device'),
        ("f0@0", False, '.*Did you mean "F0@0"'),
        ("hello", False, r'line 1: cannot read "hello"; write a letter \(F, B\)'),
        ("", False, "nothing to place"),
        ("1:", False, "nothing to place"),
        ("F0 B0\nF0 B0", False, "there are 2 rows; this level has 3 devices"),
        ("F0 B0\nF0 X0\nF0 B0", False, 'line 2: cannot read "X0"'),
        ("F0 B0\nF0 B0\nB0 F0", False, "device 2 runs B0@2 before F0@2"),
        ("F0\nF0\n-", True, "rows replaced"),
    ],
)
def test_typing(text, accepted, says):
    board = Board(find_level("pipelining"))
    verdict = board.type(text)
    assert verdict.accepted == accepted
    assert re.match(says, verdict.message), verdict.message


def test_rows_are_taken_whole_or_not_at_all():
    board = solved("1f1b")
    before = board.rows
    assert not board.type(str(ge.gpipe(3, 4))).accepted
    assert board.rows == before
    assert board.score.solved


def test_memory_over_time_is_known_while_building():
    board = Board(find_level("recompute-early"))
    board.type("F0@0 F1@0 F0@1")
    # A forward holds input and inside; when it has ended, what will be recomputed is dropped.
    assert board.position.memory[0] == [(0.0, 3.0), (1.0, 4.0), (2.0, 2.0)]
    assert board.position.peaks == (4.0, 3.0, 0)
    assert Board(find_level("recompute-early")).position.memory == [[], [], []]


def test_a_nearly_empty_board_is_judged_without_the_micro_batches_that_nobody_has_touched(monkeypatch):
    timed = []

    def counted(schedule, costs):
        timed.append(sum(map(len, schedule.rows)))
        return ge.simulate(schedule, costs)

    monkeypatch.setattr("gpipe_edu.puzzles.position.simulate", counted)
    board = Board(sandbox(K=4, M=64))
    board.place(0, Op("F", 0, 0))
    assert board.score.reasons[-1].endswith(f"and {3 * 4 * 64 - 1 - 3} more")
    assert timed == [3 * 4], "F, R and B on four stages"


def test_ops_on_a_wrong_device_are_told_where_their_stage_belongs_however_many_they_are():
    board = Board(sandbox(K=2, M=64))
    for kind in "FBRCIW":
        board.place(0, Op(kind, 0, 1))
    assert board.problems[0].message.startswith("F0@1 is on device 0, but stage 1 is on device 1")
