"""Helpers for building sentences: numbers, plurals, articles, lists, others' texts, this program's name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from math import isfinite
from pathlib import Path


def plural(count: float, noun: str, many: str = "") -> str:
    """ "1 call", "2 calls", "1 batch", "3 batches"; `many` is the plural of an irregular noun."""
    shown = f"{count:g}"  # the text decides: a sum of thirds is 1, but for rounding
    return f"{shown} {noun if shown == '1' else many or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """The plural of a regular noun: "device" -> "devices", "micro-batch" -> "micro-batches"."""
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def with_article(noun: str) -> str:
    """ "a list", "an array"."""
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def join_words(items: Iterable[object], most: int = 12, last: str = ", ") -> str:
    """ "1, 2, 3"; of more than `most` only the first, then "..."; `last` is the last separator, " and " for example."""
    texts = list(map(str, items))
    if len(texts) > most:
        return ", ".join([*texts[:most], "..."])
    return last.join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def shorten(text: str, most: int) -> str:
    """The text, cut to `most` characters with "..." at the end if it is longer."""
    return text if len(text) <= most else text[: most - 3] + "..."


def shown(text: str, most: int = 40) -> str:
    """A text of somebody else's, for a sentence: shortened, and with what a terminal would obey written out."""
    return shorten("".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text[: most + 1]), most)


def off_by(share: float, otherwise: str = "no numbers") -> str:
    """ "off by 12.3%"; `otherwise` for what has no such share, such as what has no numbers."""
    return f"off by {percent(share)}" if isfinite(share) else otherwise


def percent(share: float) -> str:
    """A share as a percentage, "12.3%"; below 0.1 % as a power of ten, "3e-07"."""
    return f"{share:.1%}" if share >= 0.001 else f"{share:.0e}"


def tell_apart(one: float, other: float, digits: int = 6) -> tuple[str, str]:
    """Both numbers as text, with `digits` digits, or as many more as it takes to see that they differ."""
    texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
    return texts if texts[0] != texts[1] or one == other else tell_apart(one, other, digits + 1)


def program() -> str:
    """What to type before a command's name: the program as it was started; uvx and pipx know only `gpipe-edu`."""
    return "gpipe-edu" if Path(sys.argv[0]).stem == "gpipe-edu" else "python -m gpipe_edu"
