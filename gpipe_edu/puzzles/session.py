"""The puzzle for a page or a terminal: plain words and numbers in, plain words and numbers out.

They know no rules. They send what the player did, `do("place", device=0, op="F0@0")`, show the answer, and draw the
board from `board`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gpipe_edu.schedule import Op, Schedule, ScheduleError
from gpipe_edu.schedule.pipeline_csv import torchtitan_flags

from .board import Board, Verdict
from .hints import hint
from .levels import LEVELS, PROOFS, Level, find_level, sandbox
from .par import lower_bound, prove
from .real_run import EngineRun, run
from .saved import SolvedLevels, keep, last, load_unfinished
from .share import read, share

BACK: Final = "Your unfinished board is back; Clear empties it"
"""The message for a board that was kept."""


class Session:
    """One sitting: a board and what has been solved. `board` and `ran`, the last run, are there to be drawn.

    Begins with the level `key`, by default the one that was left unfinished last, or else the first that is not
    solved. Boards stand as they were left. Raises ValueError for a level that does not exist.
    """

    def __init__(self, key: str = "", progress: SolvedLevels | None = None) -> None:
        self.progress = SolvedLevels() if progress is None else progress
        self.board = self._begin(find_level(key)) if key else resume_board(self.progress)
        self.ran: EngineRun | None = None
        self._commands: dict[str, Callable[..., Verdict | dict[str, Any]]] = {
            "place": lambda device, op, at=None: self.board.place(device, _op(op), at),
            "remove": lambda device, at=-1: self.board.remove(device, at),
            "move": lambda device, at, to_device, to: self.board.move(device, at, to_device, to),
            "type": lambda text: self.board.type(text),
            "undo": lambda: self.board.undo(),
            "redo": lambda: self.board.redo(),
            "clear": lambda: self.board.clear(),
            "back": lambda moves: self.board.back(moves),
            "run_on": lambda: self.board.run_on(),
            "stamp": lambda: self.board.stamp(),
            "finish": lambda: self.board.finish(),
            "mode": lambda mode: self.board.set_mode(mode),
            "hint": self._hint,
            "level": self._level,
            "next": lambda: self._level(self.progress.next_level()),
            "sandbox": lambda **sizes: self._go(Board(sandbox(**sizes))),
            "share": lambda: {"share": share(self.board.level, self.board.rows)},
            "csv": self._csv,
            "open": lambda text: self._go(open_shared(*read(text))),
            "prove": self._prove,
            "run": self._run,
        }

    def do(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Run a command; returns {"accepted", "message", "code", "state", ...}, with a message also for bad arguments.

        Commands: place, remove, move, type, undo, redo, clear, back, run_on (forced moves), stamp (the first
        micro-batch's pattern for all), finish, mode, hint, level, next (the first level that is not solved), sandbox,
        share, csv (PyTorch's pipeline CSV of a whole board), open, prove, run.
        """
        try:
            if command not in self._commands:
                raise ValueError(f"command is {command!r}; it must be one of {', '.join(self._commands)}")
            answer = self._commands[command](**arguments)
        except (ValueError, TypeError) as error:
            answer = Verdict(False, str(error), "unreadable")
        more = answer if isinstance(answer, dict) else {}
        verdict = answer if isinstance(answer, Verdict) else Verdict(True, "")
        if command == "clear":
            self.board.hints = 0
        self.progress.record(self.board)
        return {
            "accepted": verdict.accepted,
            "message": verdict.message,
            "code": verdict.code,
            **more,
            "state": self.state(),
        }

    def state(self) -> dict[str, Any]:
        """What a player is told about level, board and progress, ready for JSON."""
        board, level, score = self.board, self.board.level, self.board.score
        return {
            "level": _level_data(level),
            "mode": "free" if board.free else "guided",
            "rows": _rows(board.rows),
            "ready": _rows(board.ready),
            "problems": [{"message": problem.message, "op": str(problem.op or "")} for problem in board.problems],
            "complete": score.complete,
            "solved": score.solved,
            "verdict": score.describe(board.hints),
            "hints": board.hints,
            "levels": [
                {
                    "key": known.key,
                    "title": known.title,
                    "best": self.progress.records[known.key].makespan if known.key in self.progress.records else None,
                    "hinted": self.progress.records[known.key].hints if known.key in self.progress.records else 0,
                }
                for known in LEVELS
            ],
            "progress": self.progress.where,
            "notice": self.progress.notice,
        }

    def keep(self) -> str:
        """Save the board, if it is not finished, for the next session. It takes a moment, so it is not part of `do`.

        Returns a sentence if something was wrong with the file, now or before, else "".
        """
        self.progress.notice = keep(self.board, self.progress.path) or self.progress.notice
        return self.progress.notice

    def _level(self, key: str) -> Verdict:
        verdict = self._go(self._begin(find_level(key)))
        return Verdict(True, f"{verdict.message}. {BACK}") if any(self.board.rows) else verdict

    def _begin(self, level: Level) -> Board:
        return load_unfinished(level, self.progress.path)

    def _go(self, board: Board) -> Verdict:
        self.board = board
        return Verdict(True, board.level.title)

    def _hint(self, size: int = 3) -> dict[str, Any]:
        found = hint(self.board, size)
        self.board.hints += found.device is not None or bool(found.back)
        return {"hint": {"text": found.text, "device": found.device, "op": str(found.op or ""), "back": found.back}}

    def _csv(self) -> dict[str, Any]:
        if not self.board.position.complete:
            raise ValueError(f"nothing to write yet: {self.board.score.reasons[0]}")
        schedule, file = self.board.position.schedule, f"{self.board.level.key}.csv"
        text = schedule.to_csv()
        return {"csv": {"file": file, "text": text, "flags": torchtitan_flags(schedule.rows, file)}}

    def _prove(self, seconds: float = 10) -> dict[str, Any]:
        return {"proof": {"text": str(prove(self.board.level, seconds)), "bound": lower_bound(self.board.level)}}

    def _run(self, engine: str = "numpy") -> dict[str, Any]:
        if not self.board.position.complete:
            raise ValueError(f"nothing to run yet: {self.board.score.reasons[0]}")
        result = self.ran = run(self.board.level, self.board.position.schedule, engine)
        return {"run": {"text": str(result), "engine": engine, "equal": result.equal}}


def resume_board(progress: SolvedLevels) -> Board:
    """The board that was left unfinished last, else that of the first level that is not solved."""
    key = last(progress.path)
    try:
        if key:
            return load_unfinished(find_level(key), progress.path)
    except ValueError:
        pass  # the file was edited and names a level that does not exist
    return load_unfinished(find_level(progress.next_level()), progress.path)


def open_shared(level: Level, rows: tuple[tuple[Op, ...], ...]) -> Board:
    """A board with the rows of a share string, in free mode if they break a rule."""
    board = Board(level)
    if not board.load(rows).accepted:
        board.set_mode("free")
        board.load(rows)
    return board


def _op(text: Any) -> Op:
    """ "F0@1" as an op. Raises ValueError for other text."""
    try:
        ((op,),) = Schedule.parse(text).rows
    except ScheduleError:
        raise
    except ValueError:
        raise ValueError(f"op is {text!r}; it must be one op, such as F0@1") from None
    return op


def _rows(rows: Any) -> list[list[str]]:
    return [[str(op) for op in row] for row in rows]


def _level_data(level: Level) -> dict[str, Any]:
    return {
        "key": level.key,
        "title": level.title,
        "lesson": level.lesson,
        "task": level.task(),
        "kinds": level.kinds,
        "cap": level.cap,
        "goal": level.goal,
        "par": level.par,
        "par_why": level.par_why,
        "proof": PROOFS[level.proof],
    }
