"""The process that a learner's function runs in: it unpacks the function, then answers one question after another."""

from __future__ import annotations

import importlib
import mmap
import random
import secrets
import sys
import warnings
from functools import partial
from typing import Any, Final

from numpy.random import seed as seed_numpy  # now: its files may be out of reach inside an enclosure

from gpipe_edu.process import packing, plain, stack_on_timeout
from gpipe_edu.process.asking import MARK, asking
from gpipe_edu.process.enclosure import ENCLOSURES
from gpipe_edu.process.parent import Parent, look_also_in
from gpipe_edu.process.resource_limits import limit_memory

from .error_text import describe_error
from .hiding import Hidden, forget_judges

_SPARE: Final = 2**25
"""Bytes kept to report an error with when all memory is taken. They are mapped, and not written to: to fill them for
each question was most of what a quick answer cost."""


def main() -> None:
    """Hear a start message and a function, then one question per message, until the other side hangs up."""
    parent = Parent()
    start = plain.decode(parent.hear())
    look_also_in(start["path"])
    warnings.formatwarning = format_text_only
    exercise: Any = importlib.import_module(start["module"])
    limit_memory()
    Hidden(getattr(exercise, "HIDDEN", {})).hide()  # as long as this process lives
    held = None
    if start["enclosure"]:
        held = tuple(ENCLOSURES[start["enclosure"]].enter(start["folder"], start["cpu"], start["outside"]))
        forget_judges()
    _seed(0 if start["enclosure"] else None)
    parent.listen()
    _answer(parent, held, None)  # from now on the time that passes is the learner's
    body = parent.hear()
    stack = stack_on_timeout.Prepared(start["seconds"])
    try:
        with stack:
            function = getattr(exercise, "unpack", packing.unpack)(body)
    except BaseException as error:
        _answer(parent, None, describe_error(error, start["sources"], start["missing"]))
        return
    _answer(parent, None, None)
    while True:
        given = plain.decode(parent.hear())
        spare = mmap.mmap(-1, _SPARE)
        try:
            with stack, asking(partial(_ask, parent)):
                value, trouble = exercise.perform(function, **given), None
        except BaseException as error:  # sys.exit and a keyboard interrupt too
            spare.close()
            value, trouble = None, describe_error(error, start["sources"], start["missing"])
        _answer(parent, value, trouble)


def _ask(parent: Parent, question: Any) -> Any:
    parent.say(MARK + plain.encode(question))
    return plain.decode(parent.hear())


def _seed(seed: int | None) -> None:
    """A class's random numbers are the same in every run, so that an answer which draws some gets the same report, too.

    A learner's differ each time (None), even in a forked process.
    """
    seed = secrets.randbelow(2**32) if seed is None else seed
    random.seed(seed)
    seed_numpy(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


def format_text_only(message: Warning | str, *_: Any, **__: Any) -> str:
    """A warning without the file and the line that it came from: they don't belong in a learner's report."""
    return f"{message}\n"


def _answer(parent: Parent, value: Any, trouble: tuple[Any, ...] | None) -> None:
    sys.stdout.flush()
    try:
        data = plain.encode((value, trouble))
    except MemoryError:  # the answer itself fits, but not a second time
        data = plain.encode((None, ("MemoryError", "the answer is too large to be handed over", [], ["MemoryError"])))
    parent.say(data)
