"""PyTorch's pipeline CSV: a line a rank, a cell an op, `<stage><kind><micro-batch>`.

    0F0,0F1,,0B0,0B1         rank 0: stage 0; a blank cell is a slot in which the rank idles
    ,1F0,1B0,1F1,1B1         rank 1: stage 1

It is how `torch.distributed.pipelining`, and so a trainer that builds on it, reads and writes a schedule. Its kinds are
F, I, W and B (both gradients at once). It may have sends, receives and what sharded weights need besides the compute:
those follow from the order of the ops, so they are left out here. A pair that runs as one block is one cell:

    (0F3;7B1)OVERLAP_F_B     forward of micro-batch 3 on stage 0, backward of micro-batch 1 on stage 7
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from gpipe_edu.base.words import shown

from .doctor import Problem, ScheduleError
from .needs import Pair, is_pair
from .op import Op

_COMPUTE: Final = re.compile(r"(\d{1,9})(F|I|W|BW|B)(\d{1,9})", re.ASCII)
_AROUND: Final = re.compile(r"\d+(?:(?:_?(?:SEND|RECV)_[FB])+|UNSHARD|RESHARD|REDUCE_GRAD)\d*", re.ASCII)
_TOGETHER: Final = {
    "OVERLAP_F_B": _COMPUTE,
    "BATCH_P2P": _AROUND,
}
"""What stands in brackets before each of these words, separated by semicolons."""

_BRACKETS: Final = re.compile(r"\(([^()]*)\)\s*(\w+)")
_CELL_SHAPED: Final = re.compile(r"\d+[A-Z_]+\d+|\d+(?:UNSHARD|RESHARD|REDUCE_GRAD)|\d+[fiwb]\d+", re.ASCII)

_PYTORCHS: Final = {
    "F": "F",
    "B": "B",
    "C": "B",  # in PyTorch it is not the schedule that says whether a stage recomputes
    "I": "I",
    "W": "W",
}


_MOST_MEANT: Final = 100
"""Letters of a guess at what was meant."""

_NOTHING: Final = ", \t"
"""What a line may have without being a rank."""


class _Cell(NamedTuple):
    line: int
    cell: int
    text: str
    letter: str
    micro_batch: int
    stage: int


def is_pipeline_csv(text: str) -> bool:
    """Whether the first line with anything on it has a cell such as "0F0", with or without mistakes beside it."""
    first = next((line for _, line in _lines(text) if line.strip(_NOTHING)), "")
    return any(map(_CELL_SHAPED.fullmatch, re.split(r'[,;\s()"]+', first)))


def parse_csv(text: str) -> tuple[list[list[Op]], list[Pair]]:
    """The ops of each rank, in order, and the pairs that run as one block.

    What begins with a # is a comment. Blank lines before the first rank and after the last one are no ranks, nor are
    lines after it that have only commas, as spreadsheets write them.

    Older releases of PyTorch write B for the input gradient alone and BW for both: that is recognised by a BW, or by
    W's without an I, and said in a UserWarning.

    Raises ScheduleError that names line and cell for what is no cell, and for the order that PyTorch prints of its own
    1F1B, whose last rank is wrong.
    """
    lines = _lines(text)
    while lines and not lines[-1][1].strip(_NOTHING):
        lines.pop()
    while lines and not lines[0][1].strip():
        lines.pop(0)
    ranks = [list(_cells(line, number)) for number, line in lines]
    letters = _letters(ranks)
    rows = [[Op(letters[cell.letter], cell.micro_batch, cell.stage) for cell in rank] for rank in ranks]
    _refuse_misprint(rows, [number for number, _ in lines])
    return rows, [
        (one, two)
        for rank, row in zip(ranks, rows, strict=True)
        for (a, one), (b, two) in pairwise(zip(rank, row, strict=True))
        if (a.line, a.cell) == (b.line, b.cell) and is_pair(one, two)
    ]


def format_csv(rows: Sequence[Sequence[Op]], pairs: Collection[Pair]) -> str:
    """The inverse of `parse_csv`, without blank cells, for a schedule that can run; a C is written as B.

    Raises ValueError for an R, for which PyTorch has no letter.
    """
    text = ""
    for row, cells in zip(rows, as_cells(rows), strict=True):
        for index, pair in enumerate(pairwise(row)):
            if pair in pairs:
                cells[index : index + 2] = [f"({cells[index]};{cells[index + 1]})OVERLAP_F_B", ""]
        text += ",".join(filter(None, cells)) + "\n"
    return text


def as_cells(rows: Sequence[Sequence[Op]]) -> list[list[str]]:
    """Each op in PyTorch's letters, "0F3". Raises ValueError for an R."""
    for device, row in enumerate(rows):
        early = next((op for op in row if op.kind == "R"), None)
        if early is not None:
            raise ValueError(
                f"the schedule has {early} on device {device}, but PyTorch has no letter for a recompute of its own: "
                "its engine recomputes when the gradient is there, not before. Take C in its place, as "
                'gpipe(K, M, recompute="late") has it'
            )
    return [[f"{op.stage}{_PYTORCHS[op.kind]}{op.micro_batch}" for op in row] for row in rows]


ONE_STAGE_A_RANK: Final = "PipelineScheduleSingle"


def torchtitan_flags(rows: Sequence[Sequence[Op]], file: str) -> str:
    """The flags with which torchtitan 0.2 runs these rows from `file`; "" if its ranks hold other stages.

    The schedule that they also name says only how stages are dealt to ranks: one each, in a loop, or in a V.
    """
    K = len(rows)
    held = [sorted({op.stage for op in row}) for row in rows]
    V = max(map(len, held), default=0)
    if held == [[k] for k in range(K)]:
        dealt = ONE_STAGE_A_RANK
    elif held == [list(range(k, V * K, K)) for k in range(K)]:
        dealt = "PipelineScheduleMulti"
    elif held == [[k, 2 * K - 1 - k] for k in range(K)]:
        dealt = "ZBVZeroBubble"
    else:
        return ""
    return f"--parallelism.pipeline_parallel_degree {K} {torchtitan_schedule(dealt, file)}"


def torchtitan_schedule(dealt: str, file: str) -> str:
    """The flags that name the schedule; `dealt`: PyTorch's name of one with as many stages on the same ranks."""
    name = "--parallelism.pipeline_parallel_schedule"
    return f"{name} {dealt} {name}_csv {shlex.quote(file)}"


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines, each with its number, without comments."""
    found = [(number, line.partition("#")) for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1)]
    return [(number, before) for number, (before, sign, _) in found if before.strip(_NOTHING) or not sign]


def _cells(line: str, number: int) -> Iterator[_Cell]:
    """The compute of one line; a pair gives one op after the other."""
    for place, cell in enumerate(line.split(","), start=1):
        text = cell.strip().strip('"').strip()  # a spreadsheet may put text into quotation marks
        for word in _words(text) if text else []:
            if compute := _COMPUTE.fullmatch(word):
                yield _Cell(number, place, text, compute[2], int(compute[3]), int(compute[1]))
            elif not _AROUND.fullmatch(word):
                raise _unreadable(number, place, text)


def _words(cell: str) -> list[str]:
    """The parts of a cell: what is in its brackets, if they hold what they should, or else all of it."""
    pair = _BRACKETS.fullmatch(cell)
    inside = [word.strip() for word in pair[1].split(";")] if pair else []
    right = pair is not None and pair[2] in _TOGETHER and all(map(_TOGETHER[pair[2]].fullmatch, inside))
    return inside if right else [cell]


def _unreadable(line: int, cell: int, text: str) -> ScheduleError:
    message = (
        f'line {line}, cell {cell}: cannot read "{shown(text)}"; a cell of PyTorch\'s pipeline CSV is a stage, a '
        f"letter (F, I, W, or B for I and W at once) and a micro-batch, such as 0F3, a comma between two"
    )
    meant = re.sub(r"[\s;]+", ",", text.upper())
    if meant != text and len(meant) < _MOST_MEANT and all(_COMPUTE.fullmatch(word) for word in meant.split(",")):
        message += f'. Did you mean "{meant}"?'
    return ScheduleError([Problem("unreadable", message, None)])


def _letters(ranks: Sequence[Sequence[_Cell]]) -> dict[str, str]:
    """Our kind for each letter of the file."""
    used = {cell.letter: cell for rank in reversed(ranks) for cell in reversed(rank)}
    if "BW" in used and "I" in used:
        old, new = used["BW"], used["I"]
        message = (
            f"line {old.line}, cell {old.cell} is {old.text}, as PyTorch before 2.6 writes both gradients at once, "
            f"but line {new.line}, cell {new.cell} is {new.text}, a letter of later releases: write B for BW"
        )
        raise ScheduleError([Problem("unreadable", message, None)])
    if "BW" in used or ("W" in used and "I" not in used and "B" in used):
        warnings.warn(
            "The file has the letters of PyTorch before 2.6: its B is read as I, the input gradient, and BW as B, both "
            "gradients at once",
            stacklevel=4,  # the caller of Schedule.parse: each place that calls it is told once
        )
        return {"F": "F", "W": "W", "B": "I", "BW": "B"}
    return {letter: letter for letter in "FIWB"}


def _refuse_misprint(rows: Sequence[Sequence[Op]], numbers: Sequence[int]) -> None:
    """Raises ScheduleError where the last stage has the forwards 1 to M and the backwards 0 to M - 1."""
    last = max((op.stage for row in rows for op in row), default=0)
    for line, row in zip(numbers, rows, strict=True):
        forwards = [op.micro_batch for op in row if (op.kind, op.stage) == ("F", last)]
        backwards = [op.micro_batch for op in row if (op.kind, op.stage) == ("B", last)]
        if forwards and [m - 1 for m in forwards] == backwards == list(range(len(backwards))):
            message = (
                f"line {line} has {last}F1 to {last}F{forwards[-1]} and no {last}F0: so PyTorch 2.13 prints its own "
                f"Schedule1F1B, and the print is off by one on the last rank; its run uses other code, and begins with "
                f"{last}F0. Take 1 from each F of that line"
            )
            raise ScheduleError([Problem("missing", message, Op("F", 0, last))])
