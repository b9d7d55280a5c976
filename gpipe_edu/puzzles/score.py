"""Whether a level is solved: the only judge, for boards, share strings and stored progress.

A board is judged only by what is on it, so a level can be solved only by its schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpipe_edu.base.words import plural

from .position import Position
from .recognise import recognise

NOISE: Final = 1e-9
"""Times closer than this are equal."""


@dataclass(frozen=True)
class Score:
    """The verdict on a board, and its figures.

    solved: it is a whole schedule that can run, within the cap, done by the goal; reasons: sentences, why not. The
    figures are those of the ops that can run so far: makespan, bubble_fraction (idle / total), peaks per device in the
    level's unit. over_par: makespan - par of a solved board, None where there is no par. names: what this schedule is
    called, if it has a name.
    """

    solved: bool
    reasons: tuple[str, ...]
    complete: bool
    makespan: float
    bubble_fraction: float
    peaks: tuple[float, ...]
    over_par: float | None
    names: tuple[str, ...]

    def __str__(self) -> str:
        return self.describe()

    def describe(self, hints: int = 0) -> str:
        """The score as a sentence, with the number of hints taken."""
        if not self.solved:
            return "not solved: " + "; ".join(self.reasons)
        text = f"solved with makespan {self.makespan:g}"
        if self.over_par is not None:
            text += ", at par" if self.over_par <= NOISE else f", {self.over_par:g} over par"
        if hints:
            text += f", with {plural(hints, 'hint')}"
        if self.names:
            text += f". You built {self.names[0]}"
        if len(self.names) > 1:
            text += f", which is the same here as {', '.join(self.names[1:])}"
        return text


def score(position: Position) -> Score:
    """The score of a board."""
    level, timeline = position.level, position.timeline
    reasons = [problem.message for problem in position.problems or position.waiting]
    if position.missing and not position.problems:
        shown = ", ".join(f"{op} on device {level.home(op.stage)}" for op in position.missing[:3])
        more = len(position.missing) - 3
        reasons.append(f"still to be placed: {shown}" + (f" and {more} more" if more > 0 else ""))
    makespan = timeline.end if timeline else 0.0
    complete = position.complete
    if complete and level.goal is not None and makespan > level.goal + NOISE:
        reasons.append(f"it is done at {makespan:g}, the goal is {level.goal:g}")
    solved = complete and not reasons
    return Score(
        solved=solved,
        reasons=tuple(reasons),
        complete=complete,
        makespan=makespan,
        bubble_fraction=timeline.bubble_fraction if timeline else 0.0,
        peaks=position.peaks,
        over_par=makespan - level.par if solved and level.par is not None else None,
        names=recognise(position.schedule) if complete else (),
    )
