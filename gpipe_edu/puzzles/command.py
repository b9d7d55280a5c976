"""`puzzle`: the puzzle in a terminal, a line per move, for those without a browser, and for tests.

This file only reads words and prints sentences: it asks the same `Session` as the page, and draws its board.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import plural
from gpipe_edu.puzzles import LEVELS, find_level
from gpipe_edu.puzzles.hints import SIZES
from gpipe_edu.puzzles.levels import SANDBOX
from gpipe_edu.puzzles.par import SECONDS
from gpipe_edu.puzzles.real_run import engines
from gpipe_edu.puzzles.session import Session
from gpipe_edu.timeline import Timeline
from gpipe_edu.view.stuck import chains
from gpipe_edu.view.text import render_text

HELP: Final = """\
F0@1             place an op: the forward of micro-batch 0 on stage 1; or several: F0@0 F1@0
1: F0 B0         place ops on device 1
F0 B0 / F0 B0    replace all rows, with a / between devices
take 1           take the last op of device 1 away; take 1 3: the one at place 3, counted from 0
undo, redo       one change back, one forward again;  back 3: three back;  clear: an empty board
ready            what could be placed now
hint             where to look; once more: what; once more: which op.  hint 3: the op at once
on               place what leaves nothing to decide, until there is a choice or a device would wait
stamp            the pattern of micro-batch 0, as you built it, for all micro-batches
finish           have the rest placed for you; each op counts as a hint
free, guided     let anything stand and list what is wrong; or refuse it
check            is it solved, and if not, why
show, task       the board; the level
prove            search for the best makespan there is
run              train with a whole board on every engine that is here
share            the board as a string;  share STRING: open one
csv FILE         write a whole board as PyTorch's pipeline CSV
levels, next     all levels; the next one;  level KEY: that one
help, quit       this list; leave (solved levels and unfinished boards are remembered)"""

TOLD: Final = ("back", "run_on", "stamp", "finish")
"""Commands whose effect is reported in words; the effect of others is seen on the board."""


class Game:
    """One sitting at a terminal: a session, what it said last, and a console to print to."""

    def __init__(self, session: Session, console: Console) -> None:
        self.session, self.console = session, console
        self.state = session.state()
        self.over, self.hints, self.notice = False, 0, ""

    def begin(self) -> None:
        """Say what has to be said before the first line is read."""
        self.note(self.state["notice"])
        self.task()
        self.show()
        self.say("Type help for what can be typed, hint for a hint.")

    def line(self, line: str) -> None:
        """Do what one line says, and keep the board."""
        word, _, rest = line.strip().partition(" ")
        if word.lower() != "hint":
            self.hints = 0
        try:
            self.obey(word.lower(), rest.strip(), line)
        except ValueError as refusal:
            self.say(f"No: {refusal}.", "bold red")
        self.note(self.session.keep())

    def obey(self, word: str, rest: str, line: str) -> None:
        """The command `word`; a line that begins with none is ops to place. Raises ValueError for a refusal."""
        match word:
            case "undo" | "redo" | "clear" | "stamp" | "finish":
                self.move(word)
            case "on":
                self.move("run_on")
            case "back":
                self.move("back", moves=int(rest) if rest.isdecimal() else 1)
            case "free" | "guided":
                self.say(self.ask("mode", mode=word)["message"])
            case "level":
                self.open("level", key=rest)
            case "next":
                self.open("next")
            case "ready":
                self.rows(self.state["ready"], "nothing")
            case "take" | "hint" | "share" | "csv":
                getattr(self, word)(rest)
            case "check" | "show" | "task" | "prove" | "run" | "levels":
                getattr(self, word)()
            case "help" | "?":
                self.say(HELP)
            case "quit" | "exit":
                self.over = True
            case "":
                pass
            case _:
                self.move("type", text=line.replace("/", "\n"))

    def ask(self, command: str, **details: Any) -> dict[str, Any]:
        """The session's answer. Raises ValueError with its reason if it refuses."""
        answer = self.session.do(command, **details)
        self.state = answer["state"]
        if not answer["accepted"]:
            raise ValueError(answer["message"])
        return answer

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence."""
        self.console.print(text, style=style, markup=False)

    def note(self, notice: str) -> None:
        """Say what is wrong with the progress file, once."""
        if notice and notice != self.notice:
            self.say(f"Note: {notice}.", "bold yellow")
        self.notice = notice

    def open(self, command: str, **details: Any) -> None:
        """Go on with another board."""
        self.ask(command, **details)
        self.task()
        self.show()

    def task(self) -> None:
        """The level: what it teaches, what is to be done."""
        level = self.state["level"]
        number = [known["key"] for known in self.state["levels"]].index(level["key"]) + 1
        self.say(f"\nLevel {number} of {len(LEVELS)}: {level['title']}", "bold")
        self.say(level["lesson"])
        self.say(level["task"])
        if level["par"] is not None:
            self.say(f"Par is {level['par']:g}: {level['par_why']} Proof: {level['proof']}.")

    def show(self) -> None:
        """The board as a chart, and in its written form where a chart cannot show all of it."""
        position, cap = self.session.board.position, self.state["level"]["cap"]
        if position.timeline is not None:
            self.chart(position.timeline)
        if position.timeline is None or len(position.timeline.spans) < sum(map(len, position.rows)):
            self.rows(self.state["rows"], "empty")
        if cap is not None:
            held = ", ".join(f"{peak:g} of {most:g}" for peak, most in zip(position.peaks, cap, strict=True))
            self.say(f"memory at its peak: {held}")

    def chart(self, timeline: Timeline) -> None:
        """A timeline, as wide as the terminal."""
        self.console.print(render_text(timeline, width=self.console.width, color=True))

    def rows(self, rows: list[list[str]], nothing: str) -> None:
        """Ops, device by device."""
        for device, ops in enumerate(rows):
            self.say(f"device {device}: {' '.join(ops) or nothing}")

    def move(self, command: str, **details: Any) -> None:
        """Change the board, show it, and say what is wrong with it or whether it is solved."""
        message = self.ask(command, **details)["message"]
        self.show()
        if command in TOLD:
            self.say(f"{message}.")
        state = self.state
        for problem in state["problems"] if state["mode"] == "free" else ():
            self.say(f"Wrong: {problem['message']}.", "bold red")
        for line in chains(self.session.board.position.circle, width=self.console.width):
            self.say(line)
        if state["complete"]:
            self.check()
        elif not state["problems"] and not any(state["ready"]):
            self.say("No op can be placed any more: a device is full of what cannot be finished. Take some back.")

    def take(self, rest: str) -> None:
        """`take DEVICE [PLACE]`."""
        words = rest.split()
        if not 1 <= len(words) <= 2 or not all(word.lstrip("-").isdecimal() for word in words):
            raise ValueError('write "take 1" for the last op of device 1, or "take 1 0" for its first')
        self.move("remove", **dict(zip(("device", "at"), map(int, words), strict=False)))

    def hint(self, rest: str) -> None:
        """The next size of hint, or the one asked for."""
        if rest and rest not in map(str, SIZES):
            raise ValueError(f"the sizes of hints are {', '.join(map(str, SIZES))}")
        self.hints = int(rest) if rest else min(self.hints + 1, SIZES[-1])
        self.say(self.ask("hint", size=self.hints)["hint"]["text"])

    def check(self) -> None:
        """Say whether the board is solved, and how to go on if it is."""
        verdict = self.state["verdict"]
        self.say(f"{verdict[0].upper()}{verdict[1:]}.", "bold green" if self.state["solved"] else "bold")
        if self.state["solved"]:
            alike = self.session.board.level.costs.micro_batches is None
            self.say(f"Type next to go on{', or run to train with this schedule' if alike else ''}.")

    def prove(self) -> None:
        """Search for the best makespan."""
        self.say(f"Searching; this may take up to {SECONDS:g} seconds ...")
        proof = self.ask("prove", seconds=SECONDS)["proof"]
        self.say(f"No schedule is done before {proof['bound']:g}: the busiest device, its wait and the way back.")
        self.say(f"Search: {proof['text']}.")

    def run(self) -> None:
        """Train with the board on every engine."""
        for engine in engines():
            self.ask("run", engine=engine)
            if result := self.session.ran:
                self.chart(result.planned)
                self.chart(result.measured)
                self.say(str(result), "bold green" if result.equal else "bold red")

    def share(self, text: str) -> None:
        """Print the board's string, or open another's."""
        if text:
            self.open("open", text=text)
        else:
            self.console.print(self.ask("share")["share"], markup=False, soft_wrap=True)

    def csv(self, file: str) -> None:
        """Write a whole board to a file that trainers take."""
        made = self.ask("csv")["csv"]
        path = Path(file or made["file"])
        try:
            path.write_text(made["text"], encoding="utf-8")
        except OSError as error:
            raise ValueError(f"{str(path)!r} cannot be written ({error.strerror}); name another file") from error
        self.say(f"wrote {path}")

    def levels(self) -> None:
        """All levels, and where progress is kept."""
        keys, titles = (max(len(getattr(level, name)) for level in LEVELS) for name in ("key", "title"))
        for number, (level, known) in enumerate(zip(LEVELS, self.state["levels"], strict=True), start=1):
            state = "not solved"
            if known["best"] is not None:
                state = f"solved with {known['best']:g}" + (f", par {level.par:g}" if level.par is not None else "")
                state += f", {plural(known['hinted'], 'hint')}" if known["hinted"] else ""
            self.say(f"{number:>2} {level.key:{keys}} {level.title:{titles}} {state}")
        self.say(self.state["progress"])


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("puzzle")(run)


def run(
    level: Annotated[str, typer.Argument(help="A level's name or number. Default: the first that is not solved.")] = "",
    share: Annotated[str, typer.Option(help="Open the board of a share string.")] = "",
    partitions: Annotated[int | None, typer.Option(help="K of the sandbox, the last level.")] = None,
    micro_batches: Annotated[int | None, typer.Option(help="M of the sandbox.")] = None,
    stages: Annotated[int | None, typer.Option(help="Stages on each device of the sandbox.")] = None,
    backward: Annotated[
        float | None, typer.Option(help="Time of a backward in the sandbox; a forward takes 1.")
    ] = None,
    send: Annotated[float | None, typer.Option(help="Time from one device to the next in the sandbox.")] = None,
    cap: Annotated[float | None, typer.Option(help="Micro-batches that a device of the sandbox may hold.")] = None,
) -> int:
    """Build schedules by hand, level by level: a move per line, refused with the reason if it breaks a rule."""
    sizes = {"K": partitions, "M": micro_batches, "V": stages, "B": backward, "send": send, "cap": cap}
    with bad_arguments():
        game = _game(level, share, {name: value for name, value in sizes.items() if value is not None})
    game.begin()
    with suppress(ImportError):
        import readline  # noqa: F401 (input() then remembers lines, where the system has it)
    while not game.over:
        try:
            line = input("> ")
        except EOFError:
            print()  # the next prompt of the terminal begins a line of its own
            break
        game.line(line)
    return 0


def _game(key: str, share: str, sandbox_sizes: Mapping[str, Any]) -> Game:
    """A game with the board of a share string, a sandbox of one's own, a level, or where the player left off."""
    game = Game(Session("" if share or sandbox_sizes else key), Console(highlight=False))
    level = find_level(key).key if key else game.state["level"]["key"]
    if sandbox_sizes and (share or level != SANDBOX):
        raise ValueError(f"sizes can be chosen only in the last level: puzzle {SANDBOX} --partitions 3 ...")
    if share:
        game.ask("open", text=share)
    elif sandbox_sizes:
        game.ask("sandbox", **sandbox_sizes)
    return game
