"""The puzzle's widget without a browser: messages in, answers out, what it shows where no widget runs."""

import json
import re

import pytest

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, SolvedLevels, share
from gpipe_edu.puzzles.states import StateSpace
from gpipe_edu.view.gantt.assets import widget_module
from tests.processes import printed
from tests.puzzles.solutions import SOLUTIONS, solved

pytest.importorskip("anywidget")

WITHOUT = """
import sys
sys.modules['anywidget'] = None
import gpipe_edu as ge
try:
    ge.puzzle(progress={!r})
except ImportError as error:
    print(error)
"""


@pytest.fixture
def where(tmp_path):
    return tmp_path / "puzzle.json"


def ask(widget, command, serial=1, **details):
    widget._obey(widget, {"do": command, "with": details, "serial": serial}, [])
    return json.loads(widget.answer)


def test_it_opens_the_first_level_and_says_what_it_is(where):
    widget = ge.puzzle(progress=where)
    answer = json.loads(widget.answer)
    assert answer["state"]["level"]["key"] == "first-dependency"
    assert answer["accepted"]
    assert repr(widget) == "Puzzle(first-dependency, K=3, M=1, 0 ops placed, makespan=0, not solved)"


def test_a_level_is_solved_run_and_remembered(where):
    widget = ge.puzzle(progress=where)
    answer = ask(widget, "place", 3, device=0, op="F0@0")
    assert (answer["serial"], answer["did"], answer["accepted"]) == (3, "place", True)
    assert answer["board"]["spec"]["kind"] == "F"
    answer = ask(widget, "type", 4, text=SOLUTIONS["first-dependency"])
    assert answer["state"]["solved"]
    answer = ask(widget, "run", 5, engine="numpy")
    planned, measured = answer["run"]["specs"]
    assert planned["source"] == "planned"
    assert planned["shown"] == measured["shown"], "one axis"
    assert sorted(planned["kind"]) == sorted(measured["kind"])
    assert answer["run"]["equal"]
    assert len(answer["run"]["words"]) >= 2
    assert widget.schedule == ge.naive(3, 1)
    assert ask(ge.puzzle(progress=where), "level", key="pipelining")["accepted"]


def test_whatever_is_asked_gets_an_answer(where, monkeypatch):
    widget = ge.puzzle(progress=where)
    before = json.loads(widget.answer)["state"]["rows"]
    for command, details in (("dance", {}), ("place", {"colour": 1}), ("place", {"device": "x", "op": 3}), (None, {})):
        answer = ask(widget, command, **details)
        assert not answer["accepted"]
        assert answer["message"]
        assert answer["state"]["rows"] == before
    monkeypatch.setattr("gpipe_edu.puzzles.session.run", lambda *_: 1 / 0)
    ask(widget, "type", text=SOLUTIONS["first-dependency"])
    answer = ask(widget, "run")
    assert answer["message"] == "that failed, ZeroDivisionError: division by zero"


def test_a_cut_string_is_told_on_the_page(where):
    answer = json.loads(ge.puzzle(share="gpipe1:1f1b:", progress=where).answer)
    assert "cut or altered" in answer["message"]
    text = share(LEVELS[0], solved("first-dependency").rows)
    assert json.loads(ge.puzzle(share=text, progress=where).answer)["state"]["solved"]


@pytest.mark.parametrize("key", ["7", "backward-twice", 7])
def test_a_number_or_a_key_opens_a_level_at_once(where, key):
    widget = ge.puzzle(key, progress=where)
    assert widget.board.level.key == "backward-twice"
    assert json.loads(widget.answer)["message"] == ""


def test_without_one_it_begins_with_the_first_level_that_is_not_solved(where):
    progress = SolvedLevels(where)
    for level in LEVELS[:3]:
        progress.record(solved(level.key))
    assert ge.puzzle(progress=where).board.level.key == "1f1b"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 0}, "level is '0'; it must be one of 1 first-dependency"),
        ({"level": True}, "level is 'True'; it must be one of 1 first-dependency"),
        ({"level": "nope"}, "level is 'nope'; it must be one of"),
        ({"theme": "pink"}, "theme is 'pink'"),
        ({"level": "1", "share": "gpipe1:x"}, "give only one"),
    ],
)
def test_bad_arguments_are_named(options, words, where):
    with pytest.raises(ValueError, match=words):
        ge.puzzle(progress=where, **options)


def test_where_no_widget_runs_there_is_a_line_and_a_picture(where):
    pytest.importorskip("matplotlib")
    widget = ge.puzzle(progress=where)
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
    ask(widget, "place", device=0, op="F0@0")
    data, _ = widget._repr_mimebundle_()
    assert "image/png" in data
    assert not re.search(r"0x[0-9a-f]+", data["text/plain"])


def test_without_anywidget_it_says_what_to_install(where):
    assert "pip install anywidget" in printed(WITHOUT.format(str(where)))


def test_an_unfinished_board_is_back_after_the_kernel_was_restarted(where):
    first = ge.puzzle(progress=where)
    assert "back" not in json.loads(first.answer)["message"]
    ask(first, "place", device=0, op="F0@0")
    ask(first, "place", device=1, op="F0@1")
    again = ge.puzzle(progress=where)
    answer = json.loads(again.answer)
    assert again.board.rows == first.board.rows
    assert answer["accepted"]
    assert answer["message"] == "Your unfinished board is back; Clear empties it"
    ask(again, "clear")
    assert not any(ge.puzzle(progress=where).board.rows)


def test_going_to_another_level_and_back_keeps_the_board_and_says_so(where):
    widget = ge.puzzle(progress=where)
    ask(widget, "type", text=SOLUTIONS["first-dependency"])
    ask(widget, "level", key="pipelining")
    ask(widget, "place", device=0, op="F0@0")
    answer = ask(widget, "level", key="first-dependency")
    assert not any(widget.board.rows), "a solved board is not unfinished"
    assert answer["message"] == "The first dependency"
    answer = ask(widget, "level", key="pipelining")
    assert answer["message"] == "Pipelining. Your unfinished board is back; Clear empties it"
    assert answer["state"]["rows"] == [["F0@0"], [], []]


def test_a_board_that_somebody_sent_is_not_called_unfinished(where):
    text = share(LEVELS[0], solved("first-dependency").rows)
    answer = json.loads(ge.puzzle(share=text, progress=where).answer)
    assert "unfinished" not in answer["message"]


def test_what_can_be_placed_is_worked_out_once_a_move(where, monkeypatch):
    widget = ge.puzzle(progress=where)
    played, run = [], StateSpace.run
    monkeypatch.setattr(StateSpace, "run", lambda space, rows, *more: played.append(rows) or run(space, rows, *more))
    answer = ask(widget, "place", device=0, op="F0@0")
    assert answer["state"]["ready"] == [[], ["F0@1"], []]
    assert [ghost["op"] for ghost in answer["board"]["ghosts"]] == ["F0@1"]
    assert len(played) == 1


def test_the_page_is_sent_only_what_it_reads(where):
    script = widget_module("puzzles/page/js/puzzle_host.js")
    answer = ask(ge.puzzle(progress=where), "place", device=0, op="F0@0")
    state = answer["state"]
    for part in (state, state["level"], state["levels"][0], answer["board"]):
        assert [name for name in part if not re.search(rf"\b{name}\b", script)] == []
