"""`puzzle`: the puzzle in a terminal, a line per move, for whoever has no browser, and for tests.

This file only reads words and prints sentences: every answer comes from `gpipe_edu.puzzles`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from rich.console import Console

from gpipe_edu.puzzles import LEVELS, Board, Level, Progress, Verdict, find_level, hint, lower_bound, prove, read, share
from gpipe_edu.puzzles.hints import SIZES
from gpipe_edu.puzzles.level import PROOFS
from gpipe_edu.puzzles.levels import SANDBOX, sandbox
from gpipe_edu.puzzles.run import engines
from gpipe_edu.puzzles.run import run as train
from gpipe_edu.puzzles.session import resumed, shared
from gpipe_edu.puzzles.unfinished import keep, unfinished
from gpipe_edu.view.text import render_text

from .common import bad_arguments

HELP: Final = """\
F0@1             place an op: the forward of micro-batch 0 on stage 1; or several: F0@0 F1@0
1: F0 B0         place ops on device 1
F0 B0 / F0 B0    replace all rows, with a / between devices
take 1           take the last op of device 1 away; take 1 3: the one at place 3, counted from 0
undo, redo       one change back, one forward again;  clear: an empty board
ready            what could be placed now
hint             where to look; once more: what; once more: which op.  hint 3: the op at once
free, guided     let anything stand and list what is wrong; or refuse it
check            is it solved, and if not, why
show, task       the board; the level
prove            search for the best makespan there is
run              train with a whole board on every engine that is here
share            the board as a string;  share STRING: open one
levels, next     all levels; the next one;  level KEY: that one
help, quit       this list; leave (solved levels and unfinished boards are remembered)"""


class Game:
    """One sitting: a board, what has been solved, and a console to print to."""

    def __init__(self, board: Board, progress: Progress, console: Console) -> None:
        self.progress, self.console = progress, console
        self.over, self.hints = False, 0
        self.commands: dict[str, Callable[[str], None]] = {
            "take": self.take,
            "undo": lambda rest: self.answer(self.board.undo()),
            "redo": lambda rest: self.answer(self.board.redo()),
            "clear": lambda rest: self.answer(self.board.clear()),
            "ready": lambda rest: self.ready(),
            "hint": self.hint,
            "free": lambda rest: self.answer(self.board.set_mode("free"), moved=False),
            "guided": lambda rest: self.answer(self.board.set_mode("guided"), moved=False),
            "check": lambda rest: self.check(),
            "show": lambda rest: self.show(),
            "task": lambda rest: self.task(),
            "prove": lambda rest: self.prove(),
            "run": lambda rest: self.run(),
            "share": self.share,
            "levels": lambda rest: self.levels(),
            "level": self.level,
            "next": lambda rest: self.level(self.progress.next_level()),
            "help": lambda rest: self.say(HELP),
            "?": lambda rest: self.say(HELP),
            "quit": lambda rest: self.quit(),
            "exit": lambda rest: self.quit(),
        }
        self.notices()
        self.open(board)

    def line(self, line: str) -> None:
        """Do what one line says."""
        word, _, rest = line.strip().partition(" ")
        if word.lower() != "hint":
            self.hints = 0
        command = self.commands.get(word.lower())
        if command is not None:
            command(rest.strip())
        elif word:
            self.answer(self.board.type(line.replace("/", "\n")))
        self.progress.notice = keep(self.board, self.progress.path) or self.progress.notice
        self.notices()

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence."""
        self.console.print(text, style=style, markup=False)

    def open(self, board: Board) -> None:
        """Go on with another board."""
        self.board = board
        self.task()
        self.show()

    def task(self) -> None:
        """The level: what it teaches, what is to be done."""
        level = self.board.level
        self.say(f"\nLevel {_number(level)} of {len(LEVELS)}: {level.title}", "bold")
        self.say(level.lesson)
        self.say(level.task())
        if level.par is not None:
            self.say(f"Par is {level.par:g}: {level.par_why} Proof: {PROOFS[level.proof]}.")

    def show(self) -> None:
        """The board as a chart, and in its written form where a chart cannot show all of it."""
        position, level = self.board.position, self.board.level
        if position.timeline is not None:
            self.console.print(render_text(position.timeline, width=self.console.width, color=True))
        if position.timeline is None or len(position.timeline.spans) < sum(map(len, position.rows)):
            for device, row in enumerate(position.rows):
                self.say(f"device {device}: {' '.join(map(str, row)) or 'empty'}")
        if level.cap is not None:
            held = ", ".join(f"{peak:g} of {most:g}" for peak, most in zip(position.peaks, level.cap, strict=True))
            self.say(f"memory at its peak: {held}")

    def answer(self, verdict: Verdict, moved: bool = True) -> None:
        """Print a verdict, and if a move was made, the board."""
        if not verdict.accepted:
            self.say(f"No: {verdict.message}.", "bold red")
        elif not moved:
            self.say(verdict.message)
        if not verdict.accepted or not moved:
            return
        self.show()
        if self.board.free:
            for problem in self.board.problems:
                self.say(f"Wrong: {problem.message}.", "bold red")
        if self.board.position.complete:
            self.check()
        elif not self.board.problems and not any(self.board.ready()):
            self.say("No op can be placed any more: a device is full of what cannot be finished. Take some back.")

    def take(self, rest: str) -> None:
        """`take DEVICE [PLACE]`."""
        words = rest.split()
        if not 1 <= len(words) <= 2 or not all(word.lstrip("-").isdecimal() for word in words):
            self.say('No: write "take 1" for the last op of device 1, or "take 1 0" for its first.', "bold red")
            return
        self.answer(self.board.remove(*map(int, words)))

    def ready(self) -> None:
        """What could be placed, device by device."""
        for device, ops in enumerate(self.board.ready()):
            self.say(f"device {device}: {' '.join(map(str, ops)) or 'nothing'}")

    def hint(self, rest: str) -> None:
        """The next size of hint, or the one asked for."""
        if rest and rest not in map(str, SIZES):
            self.say(f"No: the sizes of hints are {', '.join(map(str, SIZES))}.", "bold red")
            return
        self.hints = int(rest) if rest else min(self.hints + 1, SIZES[-1])
        self.say(hint(self.board, self.hints).text)

    def check(self) -> None:
        """Judge the board, and note it if it is solved."""
        before = self.progress.next_level()
        score = self.progress.record(self.board)
        self.say(f"{str(score)[0].upper()}{str(score)[1:]}.", "bold green" if score.solved else "bold")
        after = self.progress.next_level()
        if after != before:
            self.say(f"Unlocked: {find_level(after).title}. Type next to go there, or run to train with this one.")
        self.notices()

    def prove(self) -> None:
        """Search for the best makespan."""
        level = self.board.level
        self.say(f"No schedule is done before {lower_bound(level):g}: the busiest device, its wait and the way back.")
        proof = prove(level)
        self.say(f"Search: {proof}.")
        if proof.proved and proof.makespan is None:
            self.say("The cap leaves no room for any schedule.")

    def run(self) -> None:
        """Train with the board on every engine."""
        board = self.board
        if not board.position.complete:
            self.say(f"No: {board.score.reasons[0]}.", "bold red")
            return
        for engine in engines():
            result = train(board.level, board.position.schedule, engine)
            for timeline in (result.planned, result.measured):
                self.console.print(render_text(timeline, width=self.console.width, color=True))
            self.say(str(result), "bold green" if result.equal else "bold red")

    def share(self, text: str) -> None:
        """Print the board's string, or open another's."""
        try:
            if not text:
                self.console.print(share(self.board.level, self.board.rows), markup=False, soft_wrap=True)
                return
            level, rows = read(text)
        except ValueError as error:
            self.say(f"No: {error}.", "bold red")
            return
        if refusal := self.progress.refusal(level.key):
            self.say(f"No: {refusal}.", "bold red")
            return
        self.open(shared(level, rows))

    def level(self, key: str) -> None:
        """Open another level."""
        try:
            level = find_level(key)
        except ValueError as error:
            self.say(f"No: {error}.", "bold red")
            return
        if refusal := self.progress.refusal(level.key):
            self.say(f"No: {refusal}.", "bold red")
        else:
            self.open(unfinished(level, self.progress.path))

    def levels(self) -> None:
        """All levels, and where progress is kept."""
        for number, level in enumerate(LEVELS, start=1):
            record = self.progress.records.get(level.key)
            state = "locked" if not self.progress.unlocked(level.key) else "open"
            if record is not None:
                state = f"solved with {record.makespan:g}" + (f", par {level.par:g}" if level.par is not None else "")
            self.say(f"{number:>2} {level.key:18} {level.title:28} {state}")
        self.say(self.progress.where)

    def notices(self) -> None:
        """Say what was wrong with the progress file, once."""
        if self.progress.notice:
            self.say(f"Note: {self.progress.notice}.", "bold yellow")
            self.progress.notice = ""

    def quit(self) -> None:
        """Leave."""
        self.over = True


def run(key: str, text: str, sandbox_sizes: Mapping[str, Any]) -> int:
    """Read lines and do what they say until the player leaves or the input ends; returns the exit code."""
    progress = Progress()
    with bad_arguments():
        board = _choose(key, text, sandbox_sizes, progress)
    game = Game(board, progress, Console(highlight=False))
    with suppress(ImportError):
        import readline  # noqa: F401 (input() then remembers lines, where the system has it)
    game.say("Type help for what can be typed, hint for a hint.")
    while not game.over:
        try:
            line = input("> ")
        except EOFError:
            print()  # the next prompt of the terminal begins a line of its own
            break
        game.line(line)
    return 0


def _choose(key: str, text: str, sandbox_sizes: Mapping[str, Any], progress: Progress) -> Board:
    """The board to begin with: a share string's, a level's, the one left last, or of the first unsolved level."""
    if text:
        board = shared(*read(text))
    else:
        board = unfinished(find_level(key), progress.path) if key else resumed(progress)
    if sandbox_sizes:
        if text or board.level.key != SANDBOX:
            raise ValueError(f"sizes can be chosen only in the last level: puzzle {SANDBOX} --partitions 3 ...")
        board = Board(sandbox(**sandbox_sizes))
    if refusal := progress.refusal(board.level.key):
        raise ValueError(refusal)
    return board


def _number(level: Level) -> int:
    return [known.key for known in LEVELS].index(level.key) + 1
