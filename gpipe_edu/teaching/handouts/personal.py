"""Personal puzzles: because every solution of the course is public, a part of the mark depends on these.

Sizes, uneven costs, caps and the order in which the micro-batches come are drawn from a secret and the student's name.
A puzzle is kept only if its best makespan is proven and no textbook schedule reaches it. No two students share both a
size and an order, so a copied answer is worth nothing on another sheet; even renamed, it is one for other costs and
caps. The answer is a schedule as text, so no student's code runs.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from html import escape
from math import factorial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from gpipe_edu.process.lines import lines_of
from gpipe_edu.puzzles.levels import Level
from gpipe_edu.puzzles.par import prove
from gpipe_edu.puzzles.position import Position
from gpipe_edu.puzzles.score import NOISE, score
from gpipe_edu.schedule import Schedule, ScheduleError
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.timeline import Costs
from gpipe_edu.view.html import fill

FILE: Final = "personal.json"
"""In the folder of sheets: all students' puzzles, for marking. It holds the pars, so it is not handed out."""

_SECONDS: Final = 4.0
"""For a proof. If it takes longer, another puzzle is drawn."""

_SIZES: Final = tuple((K, M) for K in (2, 3, 4, 5) for M in (3, 4, 5, 6) if K * M <= 20)
"""Many, because an answer for one size does not fit another. With the orders, M! each, they make 1,920 frames."""

_LONGEST: Final = 5_000
"""Characters of an answer."""

Frame: TypeAlias = tuple[int, tuple[int, ...]]
"""K and the order of the micro-batches."""


class PersonalPuzzle(NamedTuple):
    """One puzzle: F and B of each stage, how many micro-batches each device may hold, and its proven best makespan."""

    K: int
    order: tuple[int, ...]
    """The micro-batches as they come: stage 0 runs their F one after the other in this order."""
    F: tuple[int, ...]
    B: tuple[int, ...]
    cap: tuple[int, ...]
    par: float

    @property
    def M(self) -> int:
        """The number of micro-batches."""
        return len(self.order)

    @property
    def frame(self) -> Frame:
        """What an answer must fit before its makespan counts."""
        return self.K, self.order

    @property
    def level(self) -> Level:
        """The same for the puzzle game's judge, which ignores the order: any other order is this one renamed."""
        return Level("personal", "Your own puzzle", "", self.K, self.M, costs=Costs(F=self.F, B=self.B), cap=self.cap)


def puzzles(secret: str, student: str, count: int, taken: Collection[Frame] = ()) -> list[PersonalPuzzle]:
    """The puzzles of a student: no two of the same size, and none in a frame that is `taken` by another student's.

    Raises ValueError if too few frames are free: a class has 1,920.
    """
    orders = Counter((K, len(order)) for K, order in taken)
    free = {(K, M) for K, M in _SIZES if orders[K, M] < factorial(M)}
    if len(free) < count:
        raise ValueError(
            f"{student} needs {count} puzzles of different sizes, and orders that nobody has are left for {len(free)}; "
            "put a part of the class into a folder of sheets, with a secret, of their own"
        )
    found: list[PersonalPuzzle] = []
    for number in range(count):
        sizes = {(one.K, one.M) for one in found}
        found.append(_puzzle(f"{secret}\n{student}\n{number}", sizes, taken))
    return found


def share_earned(puzzle: PersonalPuzzle, text: str) -> tuple[float, str]:
    """The share from 0 to 1 that an answer earns, par over makespan, and a sentence for its writer."""
    if not text.strip():
        return 0.0, "There is no answer."
    if len(text) > _LONGEST:
        return 0.0, "This is too long to be a schedule."
    try:
        position = Position(puzzle.level, Schedule.parse(text).rows)
    except (ScheduleError, ValueError, TypeError) as error:
        return 0.0, str(error)
    found = score(position)
    if not found.complete or not found.solved:
        return 0.0, found.reasons[0] if found.reasons else "The schedule is not whole."
    ran = tuple(op.micro_batch for op in position.rows[0] if op.kind == "F")
    if ran != puzzle.order:
        return 0.0, f"Your micro-batches come in the order {_join(puzzle.order)}; stage 0 runs F of {_join(ran)}."
    share = min(1.0, puzzle.par / found.makespan)
    if found.makespan <= puzzle.par + NOISE:
        return 1.0, f"Makespan {found.makespan:g}: nothing is quicker."
    return share, f"Makespan {found.makespan:g}; {puzzle.par:g} can be done."


def read(path: Path) -> dict[str, list[PersonalPuzzle]]:
    """The puzzles that have been handed out, {} if none have. Raises ValueError for a file that is damaged."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: [_from(entry) for entry in entries] for name, entries in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path} is damaged. Without it nobody's sheet can be marked: take it from a copy") from None


def as_json(sheets: dict[str, list[PersonalPuzzle]]) -> str:
    """The text that `read` reads."""
    return json.dumps({name: [one._asdict() for one in found] for name, found in sheets.items()}, indent=1) + "\n"


def answers(text: str) -> list[str]:
    """The answers in a student's file: blocks of rows, with blank lines between them."""
    blocks: list[list[str]] = [[]]
    for line in lines_of(text):
        line = line.partition("#")[0].rstrip()
        if line:
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    return ["\n".join(block) for block in blocks if block]


def sheet(student: str, asked: Sequence[PersonalPuzzle]) -> str:
    """A page for one student, to print or to mail."""
    parts = []
    for number, one in enumerate(asked, 1):
        rows = "".join(
            f"<tr><td>{k}</td><td>{one.F[k]}</td><td>{one.B[k]}</td><td>{one.cap[k]}</td></tr>" for k in range(one.K)
        )
        parts.append(
            f"<h2>Puzzle {number}: {one.K} devices, {one.M} micro-batches</h2><table><tr><th>device</th><th>F</th>"
            f"<th>B</th><th>holds at most</th></tr>{rows}</table><p>The micro-batches come in the order "
            f"<strong>{_join(one.order)}</strong>.</p><p>To try an answer:</p><pre>{escape(_try(one))}</pre>"
        )
    return fill(__file__, student=escape(student), puzzles="\n".join(parts))


def _join(micro_batches: Iterable[int]) -> str:
    return " ".join(map(str, micro_batches))


def _try(one: PersonalPuzzle) -> str:
    return (
        "import gpipe_edu as ge\n\n"
        f'mine = ge.Schedule.parse("""\n{chr(10).join("..." for _ in range(one.K))}\n""")\n'
        f"plan = ge.simulate(mine, ge.Costs(F={list(one.F)}, B={list(one.B)}))\n"
        f"print(plan.makespan, plan.peak_in_flight, '<=', {one.cap})\nplan"
    )


def _puzzle(seed: str, sizes: Collection[tuple[int, int]], taken: Collection[Frame]) -> PersonalPuzzle:
    rng = random.Random(hashlib.sha256(seed.encode()).digest())
    while True:
        drawn = _draw(rng)
        if (drawn.K, drawn.M) in sizes or drawn.frame in taken:
            continue
        proof = prove(drawn.level, _SECONDS)
        if proof.proved and proof.makespan is not None and proof.makespan < min(_textbook(drawn)) - NOISE:
            return drawn._replace(par=proof.makespan)


def _draw(rng: random.Random) -> PersonalPuzzle:
    K, M = rng.choice(_SIZES)
    F = tuple(rng.randint(1, 4) for _ in range(K))
    B = tuple(rng.randint(1, 6) for _ in range(K))
    cap = tuple(max(1, min(M, K - k + rng.choice((-1, 0, 0, 1)))) for k in range(K))
    order = tuple(rng.sample(range(M), M))
    return PersonalPuzzle(K, order, F, B, cap, 0.0)


def _textbook(one: PersonalPuzzle) -> list[float]:
    """The makespans of the named schedules that stay within the caps; naive always does."""
    found = []
    for name in ("naive", "gpipe", "1f1b"):
        result = score(Position(one.level, RECIPES[name](one.K, one.M).rows))
        if result.solved:
            found.append(result.makespan)
    return found


def _from(entry: dict[str, Any]) -> PersonalPuzzle:
    return PersonalPuzzle(
        entry["K"],
        tuple(entry["order"]),
        tuple(entry["F"]),
        tuple(entry["B"]),
        tuple(entry["cap"]),
        float(entry["par"]),
    )
