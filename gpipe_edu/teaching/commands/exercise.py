"""`exercise new` and `exercise check`: for those who write exercises."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Annotated

import typer

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import plural
from gpipe_edu.process import orphans
from gpipe_edu.teaching.authoring import check as checking
from gpipe_edu.teaching.authoring.material import relative
from gpipe_edu.teaching.authoring.new import new as write_new


def new(
    key: Annotated[str, typer.Argument(metavar="EXERCISE", help="A new key, such as ex17/way-back.")],
) -> int:
    """Write a small exercise that works, to be made into another one: folder, master and bank."""
    with bad_arguments():
        written = write_new(key)
    for path in written:
        print(f"{relative(path)}: written")
    print(
        "It is a small exercise that works. Next:\n"
        "  gpipe-edu build                        builds its notebook, now and after each change\n"
        f"  {f'gpipe-edu exercise check {key}':<38} says what is left to do"
    )
    return 0


def check(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="EXERCISE", help="Such as ex17/way-back. Default: all.")
    ] = None,
) -> int:
    """Say what is not right with exercises, and how to mend it. Exit code 1 if anything is."""
    begun = monotonic()
    orphans.adopt()
    try:
        with bad_arguments():
            found = checking.check(keys or (), _tell, _count)
    finally:
        orphans.end()
    looked_at = f"{plural(found.exercises, 'exercise')}, {plural(found.answers, 'answer')}"
    verdict = plural(len(found.problems), "problem") if found.problems else "all well"
    print(f"{looked_at}: {verdict} ({monotonic() - begun:.0f} s)")
    return int(bool(found.problems))


def _tell(words: str) -> None:
    print(words, flush=True)


def _count(judged: int, of: int) -> None:
    """All banks take minutes, so show the progress to a waiting person."""
    if sys.stderr.isatty():
        print(f"\r{judged} of {of} judged", end="" if judged < of else "\n", file=sys.stderr, flush=True)
