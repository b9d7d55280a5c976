"""Rank 0's watch, with the other ends of its connections in the test's own hands."""

import socket
from multiprocessing.connection import wait
from time import sleep

import pytest

from gpipe_edu.cluster import watch
from gpipe_edu.cluster.watch import Coordinator, Doing, Ending
from gpipe_edu.cluster.wire import Wire
from tests.processes import PATIENCE, until


def hello(rank):
    return {"here": f"host {rank}", "same": {}}


@pytest.fixture
def ended():
    """The verdicts by which rank 0 has ended."""
    return []


@pytest.fixture
def first(ended, monkeypatch):
    monkeypatch.setattr(watch, "GRACE", 30.0)
    monkeypatch.setattr(watch, "BEAT", 0.05)
    found = Coordinator(3, 30.0, True, hello(0), lambda: Doing("", False), ended.append)
    yield found
    monkeypatch.setattr(watch, "GRACE", 0.0)
    found.stop()


def connected(first, rank, token=None):
    wire = Wire(socket.create_connection(("127.0.0.1", first.port)), PATIENCE)
    wire.send("hello", token or first.token, rank, hello(rank))
    return wire


def next_of(wire, what):
    """The first message of this kind; None at the end of the connection."""
    while wait([wire], PATIENCE):
        messages = wire.receive()
        if messages is None:
            return None
        for name, *content in messages:
            if name == what:
                return content
    raise TimeoutError(what)


def test_all_hear_the_same_and_rank_0_leaves_last(first, ended):
    one, other = connected(first, 1), connected(first, 2)
    assert first.wait_for_all() is None
    first.enforced = True
    assert next_of(other, "all") == [[hello(0), hello(1), hello(2)]]
    one.close()
    [rank, why] = next_of(other, "end")
    assert rank == 1
    assert why.startswith("rank 1 (host 1) has ended without a word")
    sleep(0.5)
    assert not ended, "rank 2 is still there"
    other.close()
    until(lambda: ended)
    assert ended[0] == Ending(1, why)


def test_what_one_says_comes_before_that_it_is_gone(first):
    one, other = connected(first, 1), connected(first, 2)
    first.wait_for_all()
    one.send("failed", "rank 1 failed: too bad")
    one.close()
    assert next_of(other, "end") == [1, "rank 1 failed: too bad"]
    other.close()


def test_strangers_are_sent_away(first):
    stranger = connected(first, 1, token="guessed")
    assert next_of(stranger, "all") is None
    stranger.close()
    other = Wire(socket.create_connection(("127.0.0.1", first.port)), PATIENCE)
    with socket.create_connection(("127.0.0.1", first.port)) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert noise.recv(1) == b""
    other.close()
    one, two = connected(first, 1), connected(first, 2)
    assert first.wait_for_all() is None
    one.close()
    two.close()
