"""What is drawn of a board: boxes where the simulator puts them, ghosts where they would really stand."""

import json

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Board, find_level, sandbox
from gpipe_edu.puzzles.page.picture import picture
from tests.each import each
from tests.puzzles.solutions import SOLUTIONS, solved


def pictured(key, text="", mode="guided"):
    board = Board(find_level(key))
    board.set_mode(mode)
    if text:
        assert board.type(text).accepted
    return board, picture(board)


@each("level", LEVELS)
def test_an_empty_and_a_solved_board_of_every_level(level):
    empty = picture(Board(level))
    json.dumps(empty, allow_nan=False)
    assert empty["spec"]["kind"] == ""
    assert empty["spec"]["K"] == len(empty["spec"]["stages"]) == level.K
    assert empty["spec"]["end"] >= (level.goal or 1)
    board = solved(level.key)
    drawn = picture(board)
    spans = sorted((span.device, span.start, span.end, str(span.op)) for span in board.timeline.spans)
    columns = zip(*(drawn["spec"][name] for name in ("start", "stop", "kind", "micro_batch", "stage")), strict=True)
    boxes = sorted((stage % level.K, start, stop, f"{kind}{b}@{stage}") for start, stop, kind, b, stage in columns)
    assert boxes == spans
    assert drawn["left"] == [[]] * level.K
    assert (drawn["ghosts"], drawn["stuck"]) == ([], [])
    assert drawn["spec"]["figures"][0] == f"makespan {board.score.makespan:g}"
    assert max(held for _, steps in drawn["spec"]["memory"] for held in steps) == max(board.score.peaks)


@each("level", LEVELS[:-1])
def test_ghosts_stand_where_the_op_then_runs(level):
    """A solution built op by op: before each, the ghosts that are placed run when the ghost said."""
    board = Board(level)
    queues = [list(row) for row in ge.Schedule.parse(SOLUTIONS[level.key]).rows]
    while any(queues):
        for ghost in picture(board)["ghosts"]:
            op = ge.Schedule.parse(ghost["op"]).rows[0][0]
            if board.place(ghost["device"], op).accepted:
                span = next((span for span in board.timeline.spans if span.op == op), None)
                assert (span.start, span.end) == (ghost["start"], ghost["end"])
                board.undo()
        device = next(d for d, queue in enumerate(queues) if queue and board.place(d, queue[0]).accepted)
        queues[device].pop(0)
    assert board.score.solved


def test_a_deadlock_is_a_circle_of_arrows_and_nothing_else_is():
    _, drawn = pictured("memory-wall", "F0 B0 F1 B1\nF0 F1 B1 B0", "free")
    assert drawn["circle"] == [
        ["B0@0", "B0@1", False],
        ["B0@1", "F1@1", True],
        ["F1@1", "F1@0", False],
        ["F1@0", "B0@0", True],
    ]
    _, drawn = pictured("memory-wall", "B0 F0\nF0 B0", "free")
    assert drawn["circle"] == []


def test_ops_alike_but_for_their_micro_batch_are_one_ghost():
    _, drawn = pictured("1f1b")
    assert drawn["ghosts"] == [{"op": "F0@0", "device": 0, "start": 0, "end": 1, "more": 3}]


def test_ops_that_cannot_run_stand_behind_those_that_can():
    _, drawn = pictured("1f1b", "F0@0 F0@1", "free")
    assert drawn["stuck"] == []
    board = Board(find_level("1f1b"))
    board.set_mode("free")
    for text in ("F0@0", "1: B2 F0 F1", "2: F9@7"):
        board.type(text)
    drawn = picture(board)
    assert [(box["op"], box["device"], box["at"]) for box in drawn["stuck"]] == [
        ("B2@1", 1, 0),
        ("F0@1", 1, 1),
        ("F1@1", 1, 2),
        ("F9@7", 2, 0),
    ]
    assert [(box["start"], box["end"]) for box in drawn["stuck"]] == [(0, 1), (1, 2), (2, 3), (0, 1)]


def test_bubbles_are_drawn_only_between_ops_until_the_board_is_complete():
    _, drawn = pictured("1f1b", "F0@0 F0@1")
    assert (drawn["spec"]["idle"]["device"], drawn["spec"]["idle"]["stop"]) == ([1], [1])
    whole = picture(solved("1f1b"))
    assert -1 in whole["spec"]["idle"]["next"]


def test_what_is_left_follows_the_way_that_was_chosen():
    def kinds(drawn, device):
        return {op[0] for group in drawn["left"][device] for op in group["ops"] if op[1] == "0"}

    _, drawn = pictured("recompute-early")
    assert kinds(drawn, 0) == set("FRBC")
    _, drawn = pictured("recompute-early", "F0@0 R0@0")
    assert kinds(drawn, 0) == {"B"}
    assert kinds(drawn, 1) == set("FRBC")


def test_units_and_aims_are_told():
    _, drawn = pictured("recompute-early", "F0@0")
    assert drawn["unit"] == "units"
    assert drawn["spec"]["figures"][-1] == "peak memory 3 units"
    assert {"goal 12", "par 11"} <= set(drawn["spec"]["figures"])
    _, drawn = pictured("sandbox")
    assert (drawn["goal"], drawn["par"]) == (None, None)


def test_without_a_goal_the_axis_grows_with_the_board():
    ends = []
    for M in (8, 24, 60):
        board = Board(sandbox(K=2, M=64))
        board.type(" ".join(f"F{b}@0" for b in range(M)))
        ends.append(picture(board)["spec"]["end"])
    assert ends == [16, 32, 64]
    assert picture(solved("sandbox"))["spec"]["end"] == solved("sandbox").score.makespan


def test_of_many_ops_some_are_named_and_the_others_counted():
    board = Board(sandbox(K=2, M=64))
    board.place(0, ge.Op("F", 3, 0))
    groups = {(group["kind"], group["stage"]): group for group in picture(board)["left"][0]}
    forwards = groups["F", 0]
    assert forwards["ops"][:4] == ["F0@0", "F1@0", "F2@0", "F4@0"]
    assert len(forwards["ops"]) + forwards["more"] == 63
    assert len(groups["W", 0]["ops"]) + groups["W", 0]["more"] == 64
