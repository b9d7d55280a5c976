"""Messages arrive whole and in order, however the pipe cuts them; what is cut short is no message."""

import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpipe_edu.process import frames
from tests.processes import until


class Trickle(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    def read(self, size=-1):
        return super().read(min(size, 3))


def sent(*messages):
    pipe = io.BytesIO()
    for message in messages:
        frames.write(pipe, message)
    return pipe.getvalue()


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_what_is_written_is_read(messages):
    pipe = Trickle(sent(*messages))
    assert [frames.read(pipe) for _ in messages] == messages
    with pytest.raises(EOFError):
        frames.read(pipe)


def test_of_a_message_that_is_too_long_nothing_is_read():
    pipe = io.BytesIO(sent(b"four", b"fives"))
    assert frames.read(pipe, 4) == b"four"
    with pytest.raises(frames.TooLong):
        frames.read(pipe, 4)
    assert pipe.read() == b"fives"


@given(st.binary(min_size=1, max_size=20), st.data())
def test_a_message_that_is_cut_short_is_none(message, data):
    whole = sent(message)
    with pytest.raises(EOFError):
        frames.read(io.BytesIO(whole[: data.draw(st.integers(0, len(whole) - 1))]))


def test_a_length_that_is_garbage_makes_no_room():
    with pytest.raises(EOFError):
        frames.read(io.BytesIO(b"\xff" * 100))


def test_more_than_a_pipe_holds_gets_through():
    message = os.urandom(3_000_000)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as source, os.fdopen(writing, "wb") as target:
        writer = threading.Thread(target=frames.write, args=(target, message))
        writer.start()
        assert frames.read(source) == message
        writer.join()


def test_writing_to_nobody_is_an_error():
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError), os.fdopen(writing, "wb", buffering=0) as target:
        frames.write(target, b"anybody?")


def test_a_sender_waits_for_no_reader_and_keeps_the_order():
    reading, writing = os.pipe()
    messages = [os.urandom(1_000_000), b"", b"short"]
    sender = frames.Sender(os.fdopen(writing, "wb"))
    for message in messages:
        sender.send(message)
    sender.close()
    with os.fdopen(reading, "rb") as source:
        assert [frames.read(source) for _ in messages] == messages
        with pytest.raises(EOFError):
            frames.read(source)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sender_outlives_its_reader_in_silence():
    reading, writing = os.pipe()
    os.close(reading)
    pipe = os.fdopen(writing, "wb")
    sender = frames.Sender(pipe)
    for _ in range(2):
        sender.send(b"anybody?")
    until(lambda: pipe.closed)
