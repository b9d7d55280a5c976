"""No term of the glossary is used before it is explained: in the order of the thread, its first use links to it.

A side room may use what the lessons that it needs have explained, and what those need. What a lesson is called, what it
promises in its first cell, and a map of what is to come are no uses.
"""

import re
from functools import cache

import pytest

from gpipe_edu.course.lessons import LESSONS, THREAD
from tests.test_docs_glossary import TERMS, anchor

from .test_standard import LESSONS as PATHS
from .test_standard import cells

NUMBERS = [one.number for one in LESSONS]
ROOMS = [number for number in NUMBERS if number not in THREAD]
WORDS_OF_EVERY_DAY = {"balance", "rank", "r", "measured", "planned", "checkpoint", "throughput"}
"""Terms that are also plain words, or too short to be found."""
A_MAP = {"course-map", "thread"}
"""Cells that tell what is to come."""


def path_of(number):
    return next(path for path in PATHS if path.stem.startswith(number))


def pattern(term):
    """The term as a word, also in the plural; names keep their capitals."""
    words = r"[\s-]".join(map(re.escape, term.split()))
    return re.compile(rf"(?<![\w-]){words}(?:e?s)?(?![\w-])", 0 if term != term.lower() else re.IGNORECASE)


PATTERNS = {term: pattern(term) for term in TERMS if term not in WORDS_OF_EVERY_DAY}


@cache
def used_and_explained(number):
    """The terms of a lesson that it uses before it links to them, and all that it links to."""
    used, explained = {}, set()
    for cell in cells(path_of(number), "markdown")[1:]:  # the first one promises
        explained |= set(re.findall(r"glossary\.md#([\w-]+)", cell.source))
        if cell.id in A_MAP:
            continue
        text = re.sub(r"\[[^\]]*\]\([^)]*ipynb\)|```.*?```|`[^`]*`", " ", cell.source, flags=re.DOTALL)
        text = re.sub(r'\]\([^)\s]*(?: "[^"]*")?\)', "]", text)
        for term, found in PATTERNS.items():
            if anchor(term) not in explained and found.search(text):
                used.setdefault(term, cell.id)
    return used, explained


def needed(number):
    """The lessons that one has behind oneself: of the thread those in front, of a side room those that it needs."""
    if number in THREAD:
        return set(THREAD[: THREAD.index(number)])
    first = cells(path_of(number), "markdown")[0].source
    asked = re.search(r"\*\*You need\*\*.*", first)[0]
    lessons = set(re.findall(r"\]\((\d\d)_", asked))
    ranges = re.findall(r"\]\((\d\d)_[^)]*\) to \[[^\]]*\]\((\d\d)_", asked)
    lessons |= {number for low, high in ranges for number in NUMBERS if low <= number <= high}
    return lessons.union(*(needed(one) for one in lessons)) | {"00"}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_uses_no_term_that_nothing_before_it_explains(number):
    used, _ = used_and_explained(number)
    known = set().union(*(used_and_explained(one)[1] for one in needed(number)))
    assert {term: cell for term, cell in used.items() if anchor(term) not in known} == {}


@pytest.mark.parametrize("number", THREAD)
def test_a_lesson_of_the_thread_needs_no_side_room(number):
    first = cells(path_of(number), "markdown")[0].source
    asked = set(re.findall(r"\]\((\d\d)_", re.search(r"\*\*You need\*\*.*", first)[0]))
    assert asked <= needed(number)
