"""The puzzle on a page: build a schedule by hand, judged by the schedule doctor, then run it for real."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpipe_edu.puzzles import SolvedLevels
from gpipe_edu.puzzles.session import BACK, Session

if TYPE_CHECKING:
    from .widget import Puzzle

__all__ = ["puzzle"]


def puzzle(
    level: str | int = "",
    *,
    share: str = "",
    progress: str | Path | None = None,
    theme: str = "auto",
) -> Puzzle:
    """The puzzle: twelve levels, any of which can be opened, from the first dependency to a sandbox of your own.

    level: where to begin, a key such as "1f1b" or a number from 1; by default where you left off, or the first level
    that is not solved. share: a string that another player sent, to open their board. progress: the file that
    remembers what is solved, by default the learner's own. theme: "auto" follows the notebook, or "light" or "dark".

    A share string that can't be opened gets a sentence on the page, which then opens as if there were none. Raises
    ValueError for a level that does not exist or a bad option.
    """
    level = str(level)
    if theme not in ("auto", "light", "dark"):
        raise ValueError(f'theme is {theme!r}; it must be "auto", "light" or "dark"')
    if level and share:
        raise ValueError("level and share are both given; a share string names its level, so give only one of them")
    session = Session(level, SolvedLevels(progress))
    notice, greeting = "", BACK if any(session.board.rows) else ""
    if share:
        answer = session.do("open", text=share)
        notice, greeting = "" if answer["accepted"] else answer["message"], ""
    try:
        from .widget import Puzzle
    except ImportError as error:
        raise ImportError(
            "ge.puzzle needs anywidget: pip install anywidget; without a browser play it with: "
            "python -m gpipe_edu puzzle"
        ) from error
    return Puzzle(session, notice, greeting, theme=theme)
