"""The puzzle in a terminal."""

import re

import pytest
from typer.testing import CliRunner

import gpipe_edu as ge
from gpipe_edu.cli import app, main
from gpipe_edu.puzzles import LEVELS, SolvedLevels, share
from tests.processes import printed

from .solutions import SOLUTIONS, solved


@pytest.fixture
def play(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")

    def call(*lines, arguments=()):
        done = CliRunner().invoke(app, ["puzzle", *arguments], input="\n".join(lines) + "\n")
        assert done.exit_code == 0, done.output
        return done.output

    return call


def solve_up_to(key):
    progress = SolvedLevels()
    for level in LEVELS:
        if level.key == key:
            return
        progress.record(solved(level.key))


def test_all_levels_solved_by_typing(play):
    lines = [line for level in LEVELS for line in (" / ".join(SOLUTIONS[level.key].splitlines()), "next")]
    out = play(*lines, "levels", "quit")
    assert out.count("Solved with makespan") == 12
    assert out.count("Type next to go on, or run to train with this schedule.") == 11
    assert out.count("Type next to go on.") == 1
    for number, level in enumerate(LEVELS, start=1):
        assert f"Level {number} of 12: {level.title}" in out
    assert set(SolvedLevels().records) == set(SOLUTIONS)
    assert "zero-bubble           Zero bubble                      solved with 14, par 14" in out
    assert str(SolvedLevels().path) in out.replace("\n", "")


def test_a_level_move_by_move_with_refusals_and_hints(play):
    out = play("F0@1", "F0@0", "ready", "hint", "hint", "hint", "F0@1", "F0@2", "B0@1", "2: B0", "B0@1", "B0@0")
    assert "No: F0@1 on device 1 waits for F0@0" in out
    assert "device 1: F0@1" in out
    assert "Look at device 1" in out
    assert "Device 1, at time 1: a forward" in out
    assert "Place F0@1 on device 1" in out
    assert "No: B0@1 on device 1 waits for B0@2" in out
    assert "Solved with makespan 6, at par, with 3 hints: you built model parallelism without a pipeline." in out
    assert "device 2  ........F0- B0-" in out


def test_a_deadlock_is_drawn_as_a_chain_of_arrows(play):
    solve_up_to("memory-wall")
    out = play("free", "F0 B0 F1 B1 / F0 F1 B1 B0")
    assert "B0@0 --needs--> B0@1 ..stands behind..> F1@1 --needs--> F1@0 ..stands behind..> B0@0" in out


def test_what_saves_work(play):
    solve_up_to("pipelining")
    out = play("F0@0 F0@1 F0@2 B0@2 B0@1 B0@0", "stamp", "back 2", "clear", "on", "finish", "levels")
    assert "the pattern of micro-batch 0, again every 2." in out
    assert "2 moves taken back." in out
    assert "7 ops placed; device 2 has a choice: B0@2 or F1@2." in out
    assert "11 ops placed for you; each counts as a hint." in out
    assert "with 11 hints" in out
    assert re.search(r"Pipelining +solved with 10, par 10\n", out), "the stamped one took no hint"


def test_any_level_opens_at_once(play):
    out = play("level zero-bubble", "levels")
    assert "Level 10 of 12: Zero bubble" in out
    assert len(re.findall(r" not solved\n", out)) == 12
    assert "Level 7 of 12" in play(arguments=["backward-twice"])


def test_editing(play):
    solve_up_to("memory-wall")
    out = play("F0@0 F1@0", "F2@0", "take 0", "undo", "redo", "take", "take 1", "take 9", "clear", "undo", "show")
    assert "with F2@0, device 0 would hold 3 micro-batches, the cap is 2" in out
    assert "memory at its peak: 2 of 2, 0 of 2" in out
    assert 'No: write "take 1"' in out
    assert "No: there is no place -1 on device 1: it has no ops" in out
    assert "No: device is 9; the devices are 0 to 1" in out


def test_free_mode(play):
    out = play("free", "1: F0", "check", "guided", "0: F0", "guided")
    assert "Wrong: F0@1 on device 1 waits for F0@0" in out
    assert "Not solved: F0@1 on device 1 waits" in out
    assert "No: first put right what is wrong" in out
    assert "guided: moves that break a rule are refused" in out


def test_a_dead_end_is_pointed_out(play):
    solve_up_to("interleaved")
    out = play("F0@0 F1@0 F2@0 F3@0 F0@1 F1@1 F2@1", "F0@2")
    assert "No op can be placed any more" in out


def test_share_and_open(play):
    solve_up_to("pipelining")
    text = share(LEVELS[1], solved("pipelining").rows)
    out = play(
        f"share {text}", "share", f"share {text[:-1]}", f"share {share(LEVELS[3], solved('1f1b').rows)}", "check"
    )
    assert f"\n> {text}\n" in out
    assert "No: this share string was cut or altered" in out
    assert "Level 4 of 12: One forward, one backward" in out
    assert "Solved with makespan 12, at par: you built 1F1B." in out
    assert "Solved" in play("check", arguments=["--share", text])


def test_a_whole_board_is_written_as_csv(play, tmp_path):
    file = tmp_path / "mine.csv"
    out = play(f"csv {file}", " / ".join(SOLUTIONS["first-dependency"].splitlines()), f"csv {tmp_path}", f"csv {file}")
    assert "No: nothing to write yet: still to be placed" in out
    assert "cannot be written (Is a directory); name another file" in " ".join(out.split())
    assert file.read_text() == ge.naive(3, 1).to_csv()


def test_prove_and_run(play, monkeypatch):
    for name, size in (("WIDTH", 12), ("SAMPLES", 3)):
        monkeypatch.setattr(f"gpipe_edu.puzzles.real_run.{name}", size)
    out = play("prove", "run", " / ".join(SOLUTIONS["first-dependency"].splitlines()), "run")
    assert "No schedule is done before 6" in out
    assert "Search: proved: no schedule is done before 6" in out
    assert "No: nothing to run yet: still to be placed: " in out
    assert "numpy: the gradients are the same as on one device" in out
    assert "planned, time in" in out
    assert "replayed, time in" in out


def test_words_that_are_no_command_are_answered(play):
    out = play("help", "", "dance", "level x", "hint 9", "?")
    assert out.count("leave (solved levels and unfinished boards are remembered)") == 2
    assert 'No: line 1: cannot read "dance"' in out
    assert "No: level is 'x'; it must be one of 1 first-dependency" in out
    assert "No: the sizes of hints are 1, 2, 3." in out


def test_progress_that_was_broken_is_mentioned(play, progress_file):
    progress_file.write_text("{")
    assert "progress.broken-1.json" in play("quit").replace("\n", "")


def test_a_sandbox_of_ones_own(play):
    solve_up_to("sandbox")
    out = play("F0 B0 / F0 B0", arguments=["sandbox", "--partitions", "2", "--micro-batches", "1", "--send", "1"])
    assert "Solved with makespan 8" in out  # 1 + 1 + 1 + 2 + 1 + 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "level is 'nowhere'"),
        (["1", "--partitions", "3"], "sizes can be chosen only in the last level"),
        (["sandbox", "--partitions", "99"], "sandbox K is 99; it must be at most 16"),
        (["--share", "gpipe1:x"], "share string was cut or altered"),
    ],
)
def test_bad_arguments_are_one_sentence_and_exit_code_2(arguments, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["puzzle", *arguments])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    assert err.count("\n") == 1


def test_it_plays_in_a_process_of_its_own_without_torch():
    code = "import sys; sys.modules['torch'] = None; from gpipe_edu.cli import main; main(['puzzle'])"
    assert "Solved with makespan 6" in printed(code, given="F0 B0 / F0 B0 / F0 B0\nquit\n")


def test_a_board_that_was_left_is_there_again(play):
    assert play("F0@2").count("No: ") == 1, "F0@1 is not there"
    play("F0@0", "F0@1")
    assert play("F0@2").count("No: ") == 0
    play("clear")
    assert play("F0@2").count("No: ") == 1
