"""What is no timeline, or no device of one, is refused with what was given."""

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Op, Span, Timeline

ONE = [Span(0, Op("F", 0, 0), 0, 1)]


def test_a_timeline_needs_a_span():
    with pytest.raises(ValueError, match="at least one span"):
        Timeline([], 1)


@pytest.mark.parametrize("device", [-1, 2, 7])
def test_a_span_of_a_device_that_does_not_exist_is_shown(device):
    with pytest.raises(ValueError, match=rf"device={device}.*2 devices"):
        Timeline([Span(device, Op("F", 0, 0), 0, 1)], 2)


def test_a_span_that_ends_before_it_starts_is_shown():
    with pytest.raises(ValueError, match=r"start=2, end=1.*ends before it starts"):
        Timeline([Span(0, Op("F", 0, 0), 2, 1)], 1)


@pytest.mark.parametrize(("start", "end"), [(0, float("nan")), (float("nan"), 1)])
def test_a_time_that_is_no_time_is_refused(start, end):
    with pytest.raises(ValueError, match="Span"):
        Timeline([Span(0, Op("F", 0, 0), start, end)], 1)


@pytest.mark.parametrize("source", ["Measured", "", None, "guessed"])
def test_an_unknown_source_is_refused_with_the_known_ones(source):
    with pytest.raises(ValueError, match="planned, replayed, measured") as error:
        Timeline(ONE, 1, source=source)
    assert repr(source) in str(error.value)


@pytest.mark.parametrize("unit", ["ms", None])
def test_an_unknown_unit_is_refused_when_the_timeline_is_made_not_when_it_is_saved(unit):
    with pytest.raises(ValueError, match="unit"):
        Timeline(ONE, 1, unit=unit)


@pytest.mark.parametrize("devices", ["1", 1.5])
def test_a_number_of_devices_that_is_none_is_a_type_error_that_shows_it(devices):
    with pytest.raises(TypeError) as error:
        Timeline(ONE, devices)
    assert f"devices is {devices!r}" in str(error.value)


@pytest.mark.parametrize("spans", [None, [(0, Op("F", 0, 0), 0, 1)]])
def test_what_are_no_spans_is_a_type_error_that_asks_for_spans(spans):
    with pytest.raises(TypeError, match=r"(?i)span"):
        Timeline(spans, 1)


@pytest.mark.parametrize("device", [-1, 2])
@pytest.mark.parametrize("what", ["row", "busy", "idle"])
def test_a_device_that_does_not_exist_is_a_value_error_that_names_those_that_do(what, device):
    with pytest.raises(ValueError, match=f"{device}"):
        getattr(ge.simulate(ge.gpipe(2, 2)), what)(device)


@pytest.mark.parametrize("what", ["row", "busy", "idle"])
def test_a_numpy_integer_is_a_device(what):
    timeline = ge.simulate(ge.gpipe(2, 2))
    assert getattr(timeline, what)(np.int64(1)) == getattr(timeline, what)(1)


@pytest.mark.timeout(2)
def test_the_critical_path_of_spans_against_their_needs_ends_too():
    upside_down = Timeline([Span(0, Op("B", 0, 0), 0, 1), Span(0, Op("F", 0, 0), 1, 2)], 1)
    assert len(upside_down.critical_path()) <= 2
