"""What takes too much of one item is told of that item, and the others are worked through."""

import mmap
import os
import time

import psutil
import pytest

from gpipe_edu.process import distrusted_files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="without forks there are no limits")]


def of_each(function, *items):
    return [
        str(found) if isinstance(found, distrusted_files.TooMuch) else found
        for found in distrusted_files.each(function, items)
    ]


def test_each_has_its_result_in_order_from_a_process_of_its_own():
    found = of_each(lambda item: (item, os.getpid()), *range(5))
    assert [item for item, _ in found] == list(range(5))
    assert len({pid for _, pid in found} | {os.getpid()}) == 6


def test_one_that_computes_without_end_takes_no_other_s_time(monkeypatch):
    def compute(item):
        while item == "endless":
            pass
        return item

    monkeypatch.setattr(distrusted_files, "CPU", 1)
    assert of_each(compute, "a", "endless", "b") == ["a", "takes more than 1 seconds of computing", "b"]


def test_one_that_waits_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(distrusted_files, "WALL", 0.5)
    found = of_each(lambda item: time.sleep(600) if item else "there", 1, 0)
    assert found == ["takes more than 0 seconds", "there"]


def test_one_that_takes_all_memory_gets_none():
    """Python says so; what does not, such as a library in C, ends its process."""
    with pytest.raises(MemoryError):
        of_each(lambda item: len(bytearray(3 * 2**30)), "large")
    assert of_each(lambda item: os._exit(1) if item else "there", 1, 0) == ["takes more than 2 GB of memory", "there"]


def test_what_the_process_that_asks_holds_takes_nothing_from_an_item():
    """As that of a notebook in which a large model was built."""
    with mmap.mmap(-1, 3 * 2**30, flags=mmap.MAP_PRIVATE):  # which costs nothing while it is not written to
        assert of_each(lambda item: len(bytearray(item)), 2**20) == [2**20]
        with pytest.raises(MemoryError):
            of_each(lambda item: len(bytearray(item)), 3 * 2**30)


def test_an_error_is_raised_as_it_is_and_nothing_is_left():
    def fail(item):
        raise KeyError(item)

    before = psutil.Process().children()
    with pytest.raises(KeyError, match="'ada'"):
        of_each(fail, "ada", "bob")
    assert psutil.Process().children() == before


def test_a_result_that_can_not_travel_is_an_error():
    with pytest.raises(RuntimeError, match="lambda"):
        of_each(lambda item: lambda: item, 1)


def test_one_who_asks_no_further_leaves_nothing_running():
    before = psutil.Process().children()
    results = distrusted_files.each(lambda item: item, range(1000))
    assert next(results) == 0
    results.close()
    assert psutil.Process().children() == before
