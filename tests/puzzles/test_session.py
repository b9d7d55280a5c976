"""The puzzle through plain data: what a page sends and gets."""

import json

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, share
from gpipe_edu.puzzles.session import Session
from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span
from tests.each import each

from .solutions import SOLUTIONS, solved


def do(session, command, **arguments):
    """As through a wire: everything goes as JSON."""
    return json.loads(json.dumps(session.do(command, **json.loads(json.dumps(arguments)))))


def test_all_levels_can_be_played_through_it():
    session = Session()
    for level in LEVELS:
        assert session.state()["level"]["key"] == level.key
        answer = do(session, "type", text=SOLUTIONS[level.key])
        assert answer["accepted"], answer["message"]
        assert answer["state"]["solved"]
        if level is not LEVELS[-1]:
            following = LEVELS[LEVELS.index(level) + 1].key
            assert do(session, "level", key=following)["accepted"]
    assert Session().state()["level"]["key"] == "sandbox"


def test_a_move_comes_back_as_what_there_is_to_draw():
    session = Session()
    state = do(session, "place", device=0, op="F0@0")["state"]
    assert state["rows"] == [["F0@0"], [], []]
    assert state["ready"] == [[], ["F0@1"], []]
    assert session.board.timeline.spans == (Span(0, Op("F", 0, 0), 0, 1),)
    assert session.board.position.memory == [[(0, 1)], [], []]
    assert session.board.score.makespan == 1
    assert "bound" in state["level"]["proof"]
    assert state["verdict"].startswith("not solved: still to be placed: B0@0 on device 0, F0@1")


def test_a_refused_move_changes_nothing_and_says_why():
    session = Session()
    answer = do(session, "place", device=1, op="F0@1")
    assert not answer["accepted"]
    assert answer["code"] == "waiting"
    assert "F0@1 on device 1 waits for F0@0" in answer["message"]
    assert answer["state"]["rows"] == [[], [], []]


@each(
    "command, arguments, says",
    [
        ("dance", {}, "command is 'dance'; it must be one of place, remove"),
        ("place", {"device": 0, "op": "hello"}, 'cannot read "hello"'),
        ("place", {"device": 0, "op": "F0@0 F0@1"}, "it must be one op, such as F0@1"),
        ("place", {"device": 0, "op": ""}, "it must be one op"),
        ("place", {"device": 9, "op": "F0@0"}, "the devices are 0 to 2"),
        ("level", {"key": "x"}, "it must be one of"),
        ("open", {"text": "gpipe1:1f1b:"}, "cut or altered"),
        ("mode", {"mode": "wild"}, "mode is 'wild'"),
        ("hint", {"size": 7}, "hint size is 7"),
        ("sandbox", {"K": 99}, "sandbox K is 99"),
        ("run", {}, "nothing to run yet: still to be placed"),
        ("undo", {}, "nothing to take back"),
    ],
)
def test_bad_words_get_a_sentence(command, arguments, says):
    answer = do(Session(), command, **arguments)
    assert not answer["accepted"]
    assert says in answer["message"]


def test_hint_share_open_prove_and_run():
    session = Session()
    assert do(session, "hint")["hint"]["op"] == "F0@0"
    assert do(session, "hint", size=1)["hint"]["op"] == ""
    session.do("type", text=SOLUTIONS["first-dependency"])
    text = do(session, "share")["share"]
    session.do("clear")
    assert do(session, "open", text=text)["state"]["solved"]
    proof = do(session, "prove")["proof"]
    assert proof["text"].startswith("proved: no schedule is done before 6")
    assert proof["bound"] == 6
    result = do(session, "run")["run"]
    assert result["equal"]
    assert len(session.ran.measured.spans) == len(session.ran.planned.spans) == 6


def test_a_whole_board_is_a_csv_and_an_unfinished_one_says_what_is_missing():
    session = Session("1f1b")
    assert do(session, "csv")["message"].startswith("nothing to write yet: still to be placed")
    session.do("type", text=SOLUTIONS["1f1b"])
    told = do(session, "csv")["csv"]
    assert ge.Schedule.parse(told["text"]) == session.board.position.schedule
    assert told["file"] == "1f1b.csv"
    assert told["flags"].endswith("PipelineScheduleSingle --parallelism.pipeline_parallel_schedule_csv 1f1b.csv")


def test_editing_and_modes():
    session = Session()
    session.do("type", text="F0@0 F0@1")
    assert do(session, "remove", device=1)["state"]["rows"] == [["F0@0"], [], []]
    assert do(session, "undo")["state"]["rows"] == [["F0@0"], ["F0@1"], []]
    assert do(session, "undo")["state"]["rows"] == [["F0@0"], [], []]
    assert do(session, "redo")["state"]["rows"] == [["F0@0"], ["F0@1"], []]
    assert do(session, "mode", mode="free")["state"]["mode"] == "free"
    state = do(session, "move", device=1, at=0, to_device=0, to=0)["state"]
    assert state["rows"] == [["F0@1", "F0@0"], [], []]
    assert session.board.problems[0].code == "split-stage"
    assert state["problems"][0] == {"message": session.board.problems[0].message, "op": "F0@1"}


def test_a_shared_board_that_breaks_a_rule_opens_in_free_mode():
    session = Session()
    session.do("mode", mode="free")
    session.do("type", text="1: F0")
    text = session.do("share")["share"]
    answer = do(Session(), "open", text=text)
    assert answer["accepted"]
    assert answer["state"]["mode"] == "free"
    assert answer["state"]["rows"] == [[], ["F0@1"], []]


def test_a_sandbox_has_the_sizes_that_were_asked_for():
    session = Session()
    state = do(session, "sandbox", K=2, M=3, V=2, B=1, cap=4)["state"]
    level = session.board.level
    assert (level.K, level.M, level.stages) == (2, 3, 4)
    assert state["level"]["cap"] == [4, 4]


@each("level", reversed(LEVELS))  # what is opened is solved: levels before it come later
def test_every_level_is_open_from_the_start(level):
    assert Session(level.key).board.level is level
    for command, arguments in (
        ("level", {"key": level.key}),
        ("open", {"text": share(level, solved(level.key).rows)}),
    ):
        answer = do(Session(), command, **arguments)
        assert answer["accepted"], answer["message"]
        assert answer["state"]["level"]["key"] == level.key
