"""Messages arrive at their address in any order, and an abort wakes everyone."""

import pytest

from gpipe_edu.pytorch.interpreter import Aborted, Address, Exchange

from . import bench


def test_any_order():
    exchange = Exchange(2)
    addresses = [Address(kind, m, way) for kind in "FG" for m in range(2) for way in range(2)]
    for address in reversed(addresses):
        exchange.send(1, address, address)
    for address in addresses:
        assert bench.within(lambda a=address: exchange.receive(1, a)) == address


def test_each_worker_has_an_inbox_of_its_own():
    exchange = Exchange(2)
    exchange.send(0, Address("F", 0, 0), "zero")
    exchange.send(1, Address("F", 0, 0), "one")
    assert exchange.receive(1, Address("F", 0, 0)) == "one"
    assert exchange.receive(0, Address("F", 0, 0)) == "zero"


def test_abort_wakes_who_waits_and_who_comes_later():
    exchange = Exchange(3)
    exchange.send(0, Address("F", 1, 0), "other")
    exchange.abort()
    for worker in range(3):
        with pytest.raises(Aborted):
            bench.within(lambda w=worker: exchange.receive(w, Address("F", 0, 0)))


def test_a_message_is_handed_out_once():
    exchange = Exchange(1)
    exchange.send(0, Address("F", 0, 0), "first")
    exchange.send(0, Address("F", 0, 0), "second")
    assert [exchange.receive(0, Address("F", 0, 0)) for _ in range(2)] == ["first", "second"]
