"""What a ring's messages tell: their sizes, whether they arrived, and whether one could know what it sent."""

import numpy as np
import pytest

from gpipe_edu.judge.processes import Told

A, B, C = np.random.default_rng(0).normal(size=(3, 60))


def told(*messages):
    found = Told(2)
    for k in (0, 1):
        found((k, ("step",)))
    for k, way, array in messages:
        found((k, (way, array)))
    return found


def test_sizes_are_told_by_device_and_call():
    found = told((0, "sent", A))
    found((0, ("step",)))
    found((0, ("sent", A[:7])))
    found((0, ("sent", A[:5])))
    found((1, ("received", A)))
    assert found.sizes == [[[60], [7, 5]], [[]]]
    assert [list(map(len, found.sent(*of))) for of in ((0, 0), (0, 1), (1, 0))] == [[60], [7, 5], []]


def test_what_arrives_was_sent_by_the_left_neighbour():
    assert told((0, "sent", A), (1, "received", A), (1, "sent", B), (0, "received", B)).arrived()
    assert not told((0, "sent", A), (1, "received", B)).arrived()
    assert not told((1, "sent", A), (1, "received", A)).arrived()
    assert not told((0, "sent", A)).arrived()


def test_a_device_has_sums_of_its_own_and_of_what_came():
    found = told((0, "sent", A + 2 * B), (1, "received", A + 2 * B), (1, "sent", C - A - 2 * B))
    assert found.known(0, 0, [A, B]).sends_only_what_it_has()
    assert not found.known(0, 0, [A, C]).sends_only_what_it_has()
    assert not found.known(0, 0, [A[:7]]).sends_only_what_it_has()
    assert found.known(1, 0, [C]).sends_only_what_it_has()
    known = found.known(1, 0, [C])
    assert [known.has(C), known.has(A + 2 * B)] == [True, False]  # which has not come yet


def test_what_is_had_for_another_comes_with_it():
    found = told((0, "received", A), (0, "sent", C))
    assert found.known(0, 0, [B]).sends_only_what_it_has([(A + B, C)])
    assert not found.known(0, 0, []).sends_only_what_it_has([(A + B, C)])


def test_nothing_else_is_told():
    with pytest.raises(ValueError, match="no question"):
        told((0, "other", A))
