"""What a pipeline calls its ops in a profile, and what we take from such a name.

    PP:1F3                      the runtime of torch.distributed.pipelining: stage 1, forward, micro-batch 3
    PP:(2F2;1B0)OVERLAP_F_B     two ops that run as one, as in DualPipeV
    PP:1SEND_F3, PP:2RECV_F3    messages, of the output of 1F3
    one by one PP:1F3           our GPipe's, where ops did not run beside one another, so that no bubble shows
    Forward 3, Backward 3       its ScheduleGPipe and ScheduleForwardOnly, which do not say the stage

Its Schedule1F1B names nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from gpipe_edu.schedule import Op
from gpipe_edu.schedule.op import KINDS

_OP: Final = re.compile(rf"(\d+)([{''.join(KINDS)}])(\d+)", re.ASCII)
_PAIR: Final = re.compile(r"\(([^()]*)\)OVERLAP_F_B")
_TRANSFER: Final = re.compile(r"(\d{1,9})(SEND|RECV)_([FB])(\d{1,9})", re.ASCII)
_OF_GPIPE: Final = re.compile(r"(Forward|Backward) (\d+)", re.ASCII)
_BEGINS: Final = ("PP:", "Forward ", "Backward ")
_LONGEST: Final = 4300
"""Characters of a name of ops; Python reads no number of more digits."""


ONE_BY_ONE: Final = "one by one "
"""What the name of an op begins with if it ran in one thread with the ops of all other devices."""


class Named(NamedTuple):
    """An op as a profile names it. stage: None where the name leaves it to the rank."""

    kind: str
    micro_batch: int
    stage: int | None


class Transfer(NamedTuple):
    """One end of a message. kind: "F" or "B", whose output it is. stage: that of the rank that sends, or receives."""

    sends: bool
    kind: str
    micro_batch: int
    stage: int

    @property
    def other(self) -> Transfer:
        """Its other end."""
        on = 1 if (self.kind == "F") == self.sends else -1
        return self._replace(sends=not self.sends, stage=self.stage + on)


def mark_of(op: Op, one_by_one: bool = False) -> str:
    """What our engine calls an op in a profile."""
    return f"{ONE_BY_ONE * one_by_one}PP:{op.stage}{op.kind}{op.micro_batch}"


def ops_of(name: str) -> tuple[Named, ...]:
    """The ops that run under this name, in order: none, one, or those of a pair."""
    return _ops_of(name) if name.startswith(_BEGINS) and len(name) <= _LONGEST else ()


@lru_cache(maxsize=1 << 14)
def _ops_of(name: str) -> tuple[Named, ...]:
    if match := _OF_GPIPE.fullmatch(name):
        return (Named(match[1][0], int(match[2]), None),)
    pair = _PAIR.fullmatch(name, 3)
    found = [_OP.fullmatch(text.strip()) for text in (pair[1].split(";") if pair else [name[3:]])]
    return tuple(Named(match[2], int(match[3]), int(match[1])) for match in found if match)


def transfer_of(name: str) -> Transfer | None:
    """The end of a message that runs under this name."""
    match = _TRANSFER.fullmatch(name, 3) if name.startswith("PP:") else None
    return Transfer(match[2] == "SEND", match[3], int(match[4]), int(match[1])) if match else None
