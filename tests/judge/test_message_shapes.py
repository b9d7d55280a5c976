"""What a message should have been stands under "expected", and what was sent and received under what came."""

from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.pool import Task
from gpipe_edu.process.packing import pack
from tests.solutions.bank import bank

TOLD = {
    ("ex10/processes", "room_for_the_largest"): ("(2, 6), sent and received", "sent (2, 6), received as (3, 6)"),
    ("ex10/processes", "last_in_first_out"): ("(2, 6), sent and received", "sent (2, 6), received as (1, 6)"),
    ("ex10/processes", "hands_the_same_gradient_on"): ("(3, 6), sent and received", "sent (), received as (3, 6)"),
    ("ex13/ring", "sends_half"): (
        "one piece of float64, sent and received",
        "sent 3 numbers of float64, received as 6 numbers of float64",
    ),
}


def test_no_shape_of_the_learners_is_what_was_expected(worker):
    for (key, name), told in TOLD.items():
        [entry] = [entry for entry in bank(key) if entry.name == name]
        finding = worker.report(Task(name, find_exercise(key), pack(entry.function), 0)).finding
        assert (finding.expected, finding.came) == told, name
