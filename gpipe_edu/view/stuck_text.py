"""A schedule that cannot run, in a terminal: what has run, what never will, and the arrows of the broken rule.

device 0  F0 || [B0?] [F1?] B1?
device 1  F0 || [F1?] B1? [B0?]
B0@0 --needs--> B0@1 ..stands behind..> F1@1 --needs--> F1@0 ..stands behind..> B0@0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Final

from gpipe_edu.schedule import Op
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

from .stuck import RULES

_BLANK: Final = "\N{NO-BREAK SPACE}"
"""A space at which lines don't wrap: they wrap only between two arrows."""


def render_stuck(still: StuckSchedule, width: int = 100) -> str:
    """The lines, at most `width` columns each where no op or word is longer."""
    lines = [f"{still.name or 'schedule'} · cannot run"]
    for part in still.problem.message.split("\n"):
        lines += wrap(part.strip(), width)
    return "\n".join([*lines, stuck_lanes(still, width)])


def stuck_lanes(still: StuckSchedule, width: int = 100) -> str:
    """The lines without the sentence."""
    lines: list[str] = []
    for device in range(still.devices):
        name = f"device {device}  "
        lines += wrap(name + " ".join(_ops(still, device)), width, subsequent_indent=" " * len(name))
    needs = RULES.get(still.problem.code, "needs")
    lines += chains([(start.op, end.op, turn) for start, end, turn in still.arrows], needs, width)
    lines += wrap("|| here the device stops; ? never runs; [ ] breaks the rule", width)
    return "\n".join(lines)


def _ops(still: StuckSchedule, device: int) -> Iterator[str]:
    """The ops of a device in order, with a bar before the first that never runs."""
    stopped, row, ran = False, still.row(device), set(still.ran)
    several = len({span.op.stage for span in row}) > 1
    for span in row:
        runs = span in ran
        if not runs and not stopped:
            stopped = True
            yield "||"
        name = (str(span.op) if several else span.op.label) + ("" if runs else "?")
        yield f"[{name}]" if span in still.wrong else name


def chains(links: Iterable[tuple[Op, Op, bool]], needs: str = "needs", width: int = 100) -> list[str]:
    """Arrows that lead on from one another as lines; each is (op, other op, whether it only stands behind that one)."""
    needs, behind = (arrow.replace(" ", _BLANK) for arrow in (f"--{needs}-->", "..stands behind..>"))
    found: list[str] = []
    last: Op | None = None
    for start, end, turn in links:
        if start != last:
            found.append(str(start))
        found[-1] += f" {behind if turn else needs}{_BLANK}{end}"
        last = end
    broken = [line for chain in found for line in wrap(chain, width, break_long_words=False, break_on_hyphens=False)]
    return [line.replace(_BLANK, " ") for line in broken]
