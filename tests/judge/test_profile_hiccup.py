"""Exercise 16 tells an answer to take the median if, and only if, one op that took long has misled it."""

import pytest

from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.pool import Task
from gpipe_edu.process.packing import pack
from tests.solutions.bank import bank


def told(worker, name, seeds):
    [entry] = [entry for entry in bank("ex16/profile") if entry.name == name]
    exercise, packed = find_exercise("ex16/profile"), pack(entry.function)
    return {worker.report(Task(name, exercise, packed, seed)).finding.slip for seed in range(seeds)}


def test_who_takes_medians_is_told_of_messages(worker):
    assert told(worker, "slow_link_beside_the_median_of_both", 12) == {"ops-for-messages"}


@pytest.mark.parametrize("name", ["mean_of_few_backwards", "first_backward_alone", "longest_single_op"])
def test_who_is_misled_by_one_op_is_told_so(name, worker):
    assert told(worker, name, 3) == {"one-hiccup"}
