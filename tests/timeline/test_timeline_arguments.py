"""What is no timeline, or no device of one, is refused with what was given."""

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Op, Span, Timeline
from tests.refusals import refusals

F0 = Op("F", 0, 0)
ONE = [Span(0, F0, 0, 1)]
NAN = float("nan")
PLAN = ge.simulate(ge.gpipe(2, 2))
SOURCES = "{}.*planned, replayed, measured|planned, replayed, measured.*{}"


test_what_is_no_timeline = refusals(
    (ValueError, "at least one span", lambda: Timeline([], 1)),
    (ValueError, "device={}.*2 devices", lambda device: Timeline([Span(device, F0, 0, 1)], 2), [-1, 2, 7]),
    (ValueError, "start=2, end=1.*ends before it starts", lambda: Timeline([Span(0, F0, 2, 1)], 1)),
    (ValueError, "Span", lambda times: Timeline([Span(0, F0, *times)], 1), [(0, NAN), (NAN, 1)]),
    (ValueError, SOURCES, lambda source: Timeline(ONE, 1, source=source), ["Measured", "", None, "guessed"]),
    (ValueError, "unit", lambda unit: Timeline(ONE, 1, unit=unit), ["ms", None]),
    (TypeError, "devices is {}", lambda devices: Timeline(ONE, devices), ["1", 1.5]),
    (TypeError, "(?i)span", lambda spans: Timeline(spans, 1), [None, [(0, F0, 0, 1)]]),
)

test_a_device_that_does_not_exist = refusals(
    *((ValueError, "{}", ask, [-1, 2]) for ask in (PLAN.row, PLAN.busy, PLAN.idle))
)


@pytest.mark.parametrize("what", ["row", "busy", "idle"])
def test_a_numpy_integer_is_a_device(what):
    timeline = ge.simulate(ge.gpipe(2, 2))
    assert getattr(timeline, what)(np.int64(1)) == getattr(timeline, what)(1)


def test_the_critical_path_of_spans_against_their_needs_ends_too():
    upside_down = Timeline([Span(0, Op("B", 0, 0), 0, 1), Span(0, Op("F", 0, 0), 1, 2)], 1)
    assert len(upside_down.critical_path()) <= 2
