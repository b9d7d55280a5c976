"""`Puzzle`, the widget in a notebook: passes the player's moves to a `Session`, and its answers to the page.

Moves come as messages, not as traits: of two traits set in quick succession the first may never arrive, and a move
must. The answer is one trait, so that a second view of the same puzzle, opened later, shows it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import anywidget
import traitlets

from gpipe_edu.puzzles import Board
from gpipe_edu.puzzles.levels import LARGEST, SANDBOX
from gpipe_edu.puzzles.real_run import engines
from gpipe_edu.puzzles.session import Session
from gpipe_edu.schedule import Schedule
from gpipe_edu.view.gantt.assets import asset, style, widget_module
from gpipe_edu.view.gantt.differences import differences
from gpipe_edu.view.gantt.spec import kind_names, specs, to_json
from gpipe_edu.view.layout import layout
from gpipe_edu.view.notebook import widget_bundle

from .picture import picture


class Puzzle(anywidget.AnyWidget):
    """The puzzle that `ge.puzzle` returns; it goes on where it was left, in another kernel, too."""

    _esm: ClassVar[str] = widget_module("puzzles/page/js/puzzle_host.js")
    _css: ClassVar[str] = style() + asset("puzzles/page/js/puzzle.css")

    offer = traitlets.Unicode().tag(sync=True)
    answer = traitlets.Unicode().tag(sync=True)
    theme = traitlets.Enum(["auto", "light", "dark"], "auto").tag(sync=True)

    def __init__(self, session: Session, notice: str = "", greeting: str = "", **options: Any) -> None:
        self._session = session
        offer = {
            "names": kind_names(),
            "engines": engines(),
            "sandbox": {"key": SANDBOX, "largest": LARGEST},
        }
        super().__init__(offer=to_json(offer), **options)
        self._tell({"accepted": not notice, "message": notice or greeting}, {"serial": 0, "do": ""})
        self.on_msg(self._obey)

    @property
    def board(self) -> Board:
        """The board as it is now; `board.level`, `board.rows` and `board.score` tell what is on it."""
        return self._session.board

    @property
    def schedule(self) -> Schedule:
        """What is on the board as a schedule, to be drawn, checked or run as any other."""
        return self.board.position.schedule

    def _obey(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        """Do what the page asks; it always gets an answer."""
        try:
            answer = self._session.do(str(content.get("do")), **content.get("with", {}))
        except Exception as error:  # an engine may raise anything, and a page cannot show a stack trace
            answer = {"accepted": False, "message": f"that failed, {type(error).__name__}: {error}", "code": "failed"}
        self._tell(answer, content)
        self._session.keep()

    def _tell(self, answer: dict[str, Any], content: Mapping[str, Any]) -> None:
        ran = self._session.ran if "run" in answer else None
        if ran is not None:
            both = (ran.planned, ran.measured)
            answer["run"] |= {"specs": specs(both), "words": differences(both)}
        answer |= {"serial": content.get("serial", 0), "did": content.get("do", "")}
        answer.setdefault("state", self._session.state())
        answer["board"] = picture(self.board)
        self.answer = to_json(answer)

    def __repr__(self) -> str:
        level, score = self.board.level, self.board.score
        placed = sum(map(len, self.board.rows))
        result = f"makespan={score.makespan:g}, {'solved' if score.solved else 'not solved'}"
        return f"Puzzle({level.key}, K={level.K}, M={level.M}, {placed} ops placed, {result})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        drawn = self.board.timeline
        return widget_bundle(
            super()._repr_mimebundle_(**kwargs), repr(self), layout(drawn) if drawn else None, self.theme
        )
