"""Exercise 09, under a cap."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gpipe_edu import Op, Schedule, gpipe, one_f_one_b
from gpipe_edu.schedule.recompute import with_recompute
from tests.solutions.bank import Bank

BANK = Bank("ex09/cap")
MIDDLE = "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5"
LAST = "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"


@BANK.wrong("plain-1f1b")
def one_f_one_b_as_it_is():
    return one_f_one_b(3, 6)


@BANK.wrong("plain-gpipe")
def gpipe_as_it_is():
    return str(gpipe(3, 6))


@BANK.wrong("everything")
def early_recompute_everywhere():
    return with_recompute(one_f_one_b(3, 6), "always").rows


def as_text():
    return ROWS  # noqa: F821


def typed(slip, name, first, others=f"{MIDDLE}\n{LAST}"):
    """Adds a schedule as text: the row of device 0, and those of the others, which are best as in 1F1B."""
    BANK.changed(slip, name, "ROWS  # noqa: F821", repr(f"{first}\n{others}"), of=as_text)


typed("upside-down", "last_device_first", LAST, f"{MIDDLE}\nF0 F1 F2 R1 B0 F3 R2 B1 F4 R3 B2 F5 R4 B3 R5 B4 B5")
typed("waits", "waits_for_room", MIDDLE)
typed("all-on-device-0", "the_one_to_beat", "F0 F1 F2 R0 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 R4 B4 R5 B5")
typed("late", "recomputes_late", "F0 F1 F2 B0 F3 C1 F4 C2 F5 C3 C4 C5")
typed("over-the-cap", "recomputes_too_few", "F0 F1 F2 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 B4 B5")
typed("unneeded", "recomputes_one_too_many", "F0 F1 F2 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 R4 B4 R5 B5")
typed("too-slow", "goes_back_too_often", "F0 F1 F2 R0 B0 R1 B1 F3 R2 B2 F4 B3 F5 B4 B5")
typed(
    "deadlock",
    "goes_back_too_soon",
    "F0 B0 F1 F2 B1 F3 B2 F4 B3 F5 B4 B5",
    f"{MIDDLE}\nF0 F1 B0 B1 F2 B2 F3 B3 F4 B4 F5 B5",
)
typed("not-a-word", "commas_between_ops", "F0, F1, B0", "F0, B0")
typed(
    "holds-too-much",
    "one_more_in_the_warm_up",
    "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
    f"F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5\n{LAST}",
)


@BANK.wrong("other-size")
def only_four_micro_batches():
    return one_f_one_b(2, 6)


@BANK.wrong("other-kinds")
def splits_the_backward():
    return [[Op(kind, m, k) for m in range(6) for kind in "FIW"] for k in range(3)]


@BANK.right
def twenty_six():
    return Schedule.parse(f"F0 F1 F2 R1 B0 F3 R2 B1 F4 R3 B2 F5 R4 B3 R5 B4 B5\n{MIDDLE}\n{LAST}")


@BANK.right
def the_best_as_rows():
    text = f"F0 F1 F2 F3 R1 B0 R2 B1 F4 B2 F5 R3 B3 R5 B4 B5\n{MIDDLE}\n{LAST}"
    return [[Op(w[0], int(w[1:]), k) for w in line.split()] for k, line in enumerate(text.splitlines())]


@BANK.right
def text_with_comments_and_blank_lines():
    return f"""
    # device 0 recomputes all but the last
    F0 F1 F2 R1 B0 F3 R2 B1 F4 R3 B2 F5 R4 B3 R5 B4 B5  # 26 units

    {MIDDLE}
    {LAST}
    """


@BANK.wrong("not-rows")
def the_makespan():
    return 26


@dataclass
class Device:
    """One of three, in 1F1B; `again` are the micro-batches that it recomputes, each just before it needs room."""

    number: int
    again: tuple = ()

    def row(self):
        ops, ahead = [], min(6, 2 - self.number)
        for m in range(6 + ahead):
            ops += [Op("F", m, self.number)] if m < 6 else []
            done = m - ahead
            if done >= 0:
                ops += [Op("R", done + 1, self.number)] if done + 1 in self.again else []
                ops.append(Op("B", done, self.number))
        return ops


@BANK.right
def devices_that_know_what_to_recompute():
    return [device.row() for device in (Device(0, again=(1, 2, 3, 4, 5)), Device(1), Device(2))]


class Kind(Enum):
    FORWARD = "F"
    RECOMPUTE = "R"
    BACKWARD = "B"


class Word(NamedTuple):
    kind: Kind
    micro_batch: int

    @classmethod
    def read(cls, text):
        return cls(Kind(text[0]), int(text[1:]))


@BANK.right
def words_read_one_by_one():
    first = "F0 F1 F2 F3 R1 B0 R2 B1 F4 B2 F5 R3 B3 R5 B4 B5"
    rows = [[Word.read(text) for text in line.split()] for line in (first, MIDDLE, LAST)]
    return [[Op(word.kind.value, word.micro_batch, k) for word in row] for k, row in enumerate(rows)]
