"""Why an answer that is a schedule is wrong, found without any code of the package: what a check has to say.

For each exercise there are rules in order: the first that is broken is the reason. A check may say more than that, by
naming a belief; then what it says must be true of all the rows. Claims are written from the sentences that learners
read, not from the checks.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests import oracle
from tests.oracle import Rows

Claim = Callable[[Rows, int, int], bool]
"""Whether a sentence is true of rows, for K devices and M micro-batches."""

_OP = re.compile(r"([FBRCIW])(\d+)@(\d+)")


class Reasons(NamedTuple):
    """What can be wrong with the rows of one exercise that can run, in order, and what may be said instead."""

    rules: Sequence[tuple[str, Claim]]
    beliefs: Mapping[str, Claim]


def first_broken(reasons: Reasons, rows: Rows, K: int, M: int) -> str:
    """The first broken rule, "" for right rows: of size, of what can run, then those of the exercise."""
    ops = [op for row in rows for op in row]
    if len(rows) != K:
        return "rows"
    if all(rows) and {m for _, m, _ in ops} != set(range(M)):
        return "other-M"
    if any(k >= K for _, _, k in ops):
        return "other-K"
    code = oracle.expected_code(rows)
    if code:
        return code
    return next((slip for slip, broken in reasons.rules if broken(rows, K, M)), "")


def is_right(reasons: Reasons, slip: str, because: str, rows: Rows, K: int, M: int) -> bool:
    """Whether a finding names the first broken rule, and an op that breaks it; or a belief that is true."""
    truth = first_broken(reasons, rows, K, M)
    if slip in reasons.beliefs:
        return bool(truth) and reasons.beliefs[slip](rows, K, M)
    if slip != truth:
        return False
    named = ops_in(because)
    return truth != oracle.expected_code(rows) or not named or named[0] in oracle.culprits(rows)


def ops_in(sentence: str) -> list[oracle.PlainOp]:
    """The ops that a sentence names."""
    return [(kind, int(m), int(k)) for kind, m, k in _OP.findall(sentence)]


def kinds(rows: Rows) -> list[str]:
    """The letters of each row."""
    return ["".join(kind for kind, _, _ in row) for row in rows]


def makespan(rows: Rows, F: float = 1, B: float = 2, R: float = 1) -> float:
    """By brute force."""
    duration = {"F": F, "B": B, "R": R, "C": R + B}
    return max(end for _, end in oracle.times(rows, lambda op: duration[op[0]]).values())


def order(row: list[oracle.PlainOp], kind: str) -> list[int]:
    """The micro-batches of one kind of op, as they come."""
    return [m for letter, m, _ in row if letter == kind]


def _sorted(rows: Rows, kind: str) -> Rows:
    """The same rows with the ops of one kind in the order of the micro-batches."""
    found = []
    for row in rows:
        numbers = iter(sorted(order(row, kind)))
        found.append([(k, next(numbers), s) if k == kind else (k, m, s) for k, m, s in row])
    return found


def _at_home(rows: Rows) -> bool:
    return all(k == device for device, row in enumerate(rows) for _, _, k in row)


def _all(letters: str) -> Claim:
    return lambda rows, K, M: all(set(row) == set(letters) for row in kinds(rows))


def _upside_down(rows: Rows, K: int, M: int) -> bool:
    return not _at_home(rows)


def turns(rows: Rows) -> list[int]:
    """The devices on which a backward stands before a forward."""
    return [device for device, row in enumerate(kinds(rows)) if "BF" in row.replace("R", "")]


def _ahead(rows: Rows) -> list[int]:
    """How many forwards each row starts with."""
    return [len(row) - len(row.lstrip("F")) for row in kinds(rows)]


def _over(rows: Rows, K: int, M: int) -> list[int]:
    """The devices that hold more than 1F1B allows."""
    peaks = [max(row[:end].count("F") - row[:end].count("B") for end in range(len(row) + 1)) for row in kinds(rows)]
    return [k for k, peak in enumerate(peaks) if peak > min(M, K - k)]


def _is_stack(row: list[oracle.PlainOp]) -> bool:
    """Each backward takes the newest micro-batch there is, and once there were several."""
    held: list[int] = []
    several = False
    for kind, m, _ in row:
        if kind == "F":
            held.append(m)
        elif held.pop() != m:
            return False
        else:
            several |= bool(held)
    return several


def _slow_by(kind: str) -> Claim:
    """Slow, and less so with the ops of this kind in one order on all devices."""

    def claim(rows: Rows, K: int, M: int) -> bool:
        return 3 * (M + K - 1) < makespan(rows) > makespan(_sorted(rows, kind))

    return claim


def _without_last_backwards(rows: Rows, K: int, M: int) -> bool:
    drained = [list(range(M - min(M, K - 1 - k))) for k in range(K)]
    return K > 1 and [sorted(order(row, "B")) for row in rows] == drained and drained[0] != list(range(M))


def cells(rows: Rows, letters: str) -> set[tuple[int, int]]:
    return {(m, k) for row in rows for kind, m, k in row if kind in letters}


def _spared(rows: Rows) -> set[tuple[int, int]]:
    return cells(rows, "F") & cells(rows, "B") - cells(rows, "RC")


def _spares_too_many(rows: Rows, K: int, M: int) -> bool:
    """More than the last micro-batch on the last device is not recomputed."""
    return _spared(rows) not in (set(), {(M - 1, K - 1)})


def board(K: int, M: int) -> set[tuple[int, int]]:
    return {(m, k) for m in range(M) for k in range(K)}


SIZE: Mapping[str, Claim] = {
    "from-one": lambda rows, K, M: {m for row in rows for _, m, _ in row} == set(range(1, M + 1)),
    "by-micro-batch": lambda rows, K, M: len(rows) == M != K and all(len({m for _, m, _ in r}) == 1 for r in rows),
    "exchanged": lambda rows, K, M: len(rows) == M != K and _at_home(rows) and cells(rows, "F") == board(M, K),
    "stage-zero": lambda rows, K, M: K > 1 and {k for row in rows for _, _, k in row} == {0},
    "swapped": lambda rows, K, M: all(m == device for device, row in enumerate(rows) for _, m, _ in row),
}
"""What a check may say in all exercises that ask for rows."""


def _early_pace(rows: Rows, K: int, M: int) -> bool:
    return any(
        makespan(rows, F, B, R) > M * (F + R + B) + (K - 1) * (F + B)
        for F, R, B in ((1, 1, 2), (2, 2, 1), (1, 3, 2), (3, 1, 1))
    )


F_THEN_B = Reasons(
    rules=[
        ("upside-down", _upside_down),
        ("other-kinds", lambda rows, K, M: not _all("FB")(rows, K, M)),
        ("mixed-order", lambda rows, K, M: bool(turns(rows))),
        ("forward-orders", _slow_by("F")),
        ("backward-orders", _slow_by("B")),
    ],
    beliefs={
        **SIZE,
        "mirrored": lambda rows, K, M: all(
            k == (device if kind == "F" else K - 1 - device) for device, row in enumerate(rows) for kind, _, k in row
        ),
        "stops-at-one": lambda rows, K, M: board(K, M) - cells(rows, "B") == {(0, k) for k in range(K)},
        "last-at-once": lambda rows, K, M: turns(rows) == [K - 1],
        "naive": lambda rows, K, M: K > 1 and kinds(rows) == ["FB" * M] * K,
        "forward-orders": _slow_by("F"),
        "backward-orders": _slow_by("B"),
    },
)

ONE_F_ONE_B = Reasons(
    rules=[
        ("upside-down", _upside_down),
        ("other-kinds", lambda rows, K, M: not _all("FB")(rows, K, M)),
        ("holds-too-much", lambda rows, K, M: bool(_over(rows, K, M))),
        ("out-of-turn", lambda rows, K, M: any(order(row, kind) != list(range(M)) for row in rows for kind in "FB")),
        (
            "too-slow",
            lambda rows, K, M: any(makespan(rows, F, B) > (M + K - 1) * (F + B) for F, B in ((1, 2), (1, 1), (2, 1))),
        ),
        (
            "not-alternating",
            lambda rows, K, M: any(
                row != "F" * min(M, K - 1 - k) + "FB" * (M - min(M, K - 1 - k)) + "B" * min(M, K - 1 - k)
                for k, row in enumerate(kinds(rows))
            ),
        ),
    ],
    beliefs={
        **SIZE,
        "reversed": lambda rows, K, M: (
            oracle.expected_code(rows) == "deadlock" and _ahead(rows) == [min(M, k + 1) for k in range(K)]
        ),
        "beyond-M": lambda rows, K, M: any(m >= M for row in rows for _, m, _ in row),
        "no-drain": _without_last_backwards,
        "f-then-b": lambda rows, K, M: bool(_over(rows, K, M)) and not turns(rows),
        "blocks": lambda rows, K, M: any(re.search("BBF|BFF", kinds(rows)[k]) for k in _over(rows, K, M)),
        "round-trip": lambda rows, K, M: K > 1 and _ahead(rows) == [min(M, 2 * (K - k) - 1) for k in range(K)],
        "one-more": lambda rows, K, M: _ahead(rows) == [min(M, K - k + 1) for k in range(K)],
        "same-warm-up": lambda rows, K, M: K > 1 and len(set(_ahead(rows))) == 1,
        "newest-first": lambda rows, K, M: any(map(_is_stack, rows)),
        "no-warm-up": lambda rows, K, M: K > 1 and kinds(rows) == ["FB" * M] * K,
        "one-less": lambda rows, K, M: _ahead(rows) == [min(M, max(1, K - k - 1)) for k in range(K)],
    },
)

EARLY = Reasons(
    rules=[
        ("late", lambda rows, K, M: any(k < K - 1 for _, k in cells(rows, "C"))),
        ("some-spared", _spares_too_many),
        ("upside-down", _upside_down),
        ("mixed-order", lambda rows, K, M: any(re.search("[BC]R*F", row) for row in kinds(rows))),
        ("two-at-once", lambda rows, K, M: any(len(held) > 1 for row in rows for held in oracle.interiors(row))),
        ("too-slow", _early_pace),
        ("late-on-last", lambda rows, K, M: bool(cells(rows, "C"))),
    ],
    beliefs={
        **SIZE,
        "no-recompute": lambda rows, K, M: not cells(rows, "RC"),
        "last-stage-spared": lambda rows, K, M: (
            K > 1 < M and cells(rows, "F") - cells(rows, "RC") == {(m, K - 1) for m in range(M)}
        ),
        "except-last": lambda rows, K, M: (
            M > 1 < K and cells(rows, "F") - cells(rows, "RC") == {(M - 1, k) for k in range(K)}
        ),
        "some-spared": _spares_too_many,
        "at-once": lambda rows, K, M: all(row == "FR" * M + "B" * M for row in kinds(rows)),
        "all-first": lambda rows, K, M: M > 1 and all(row == "F" * M + "R" * M + "B" * M for row in kinds(rows)),
        "too-slow": lambda rows, K, M: (
            _early_pace(rows, K, M) and any(len({tuple(order(row, kind)) for row in rows}) > 1 for kind in "FB")
        ),
    },
)
