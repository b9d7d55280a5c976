"""The numbers of a picture, checked against the timeline by arithmetic of their own."""

from itertools import pairwise

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.memory import memory_over_time
from gpipe_edu.view.layout import layout
from tests.each import each

RECIPES = {
    "gpipe": ge.gpipe(4, 8),
    "late": ge.gpipe(4, 4, recompute="late"),
    "early": ge.gpipe(4, 4, recompute="early"),
    "1f1b": ge.one_f_one_b(4, 8),
    "zero bubble": ge.zero_bubble(4, 8),
    "interleaved": ge.interleaved(4, 8, 2),
}
UNEVEN = ge.Costs(F=[1, 2, 1.5, 0.7], B=[2, 3, 5, 1.4], send=0.5)


def texts(picture, role):
    return [words.text for words in picture.words if words.role == role]


def scale_of(picture, timeline):
    return (picture.axis[1][0] - picture.axis[0][0]) / timeline.makespan


@each("name", RECIPES)
def test_boxes_stand_where_and_as_long_as_their_spans(name):
    timeline = ge.simulate(RECIPES[name])
    picture = layout(timeline)
    scale, left = scale_of(picture, timeline), picture.axis[0][0]
    spans = {span.op: span for span in timeline.spans}
    assert {box.op for box in picture.boxes} == set(spans)
    for box in picture.boxes:
        span = spans[box.op]
        assert box.device == span.device
        assert box.x == pytest.approx(left + span.start * scale)
        assert box.width == pytest.approx((span.end - span.start) * scale)
        assert sum(part.width for part in box.parts) == pytest.approx(box.width)


@each("name", RECIPES)
def test_boxes_and_bubbles_fill_every_lane_without_overlap(name):
    timeline = ge.simulate(RECIPES[name])
    picture = layout(timeline)
    for device in range(timeline.devices):
        pieces = sorted((p.x, p.x + p.width, p.y) for p in (*picture.boxes, *picture.idles) if p.device == device)
        assert pieces[0][0] == pytest.approx(picture.axis[0][0])
        assert pieces[-1][1] == pytest.approx(picture.axis[1][0])
        assert len({y for _, _, y in pieces}) == 1
        for (_, end, _), (start, _, _) in pairwise(pieces):
            assert start == pytest.approx(end)


def test_bubbles_add_up_to_the_bubble_fraction():
    timeline = ge.simulate(RECIPES["gpipe"])
    idle = sum(bubble.end - bubble.start for bubble in layout(timeline).idles)
    assert idle / (4 * 33) == pytest.approx(3 / 11)


def test_rounding_noise_between_ops_is_no_bubble():
    spans = [Span(0, ge.Op("F", 0, 0), 0, 0.1 + 0.2), Span(0, ge.Op("B", 0, 0), 0.3000000000000005, 1)]
    assert layout(Timeline(spans, 1)).idles == ()


def test_lanes_lie_under_each_other():
    picture = layout(ge.simulate(ge.gpipe(16, 4)))
    tops = {box.device: (box.y, box.y + box.height) for box in picture.boxes}
    for device in range(15):
        assert tops[device][1] < tops[device + 1][0]


@each("width", [320, 400, 600, 800, 1000, 1400])
@each("name", RECIPES)
def test_narrow_boxes_have_no_label_and_labels_fit(width, name):
    for box in layout(ge.simulate(RECIPES[name]), width=width).boxes:
        number = str(box.op.micro_batch) if width < 480 else box.op.label
        if box.parts[-1].width < 13:
            assert box.label in ("", number) if width < 480 else box.label == ""
        if box.label:
            assert box.label in (box.op.label, number)
            assert 9 <= box.font <= 14
            assert box.font * 0.5 * len(box.label) < box.parts[-1].width


def test_on_a_phone_every_op_of_eight_micro_batches_has_its_number():
    for schedule in (ge.gpipe(4, 8), ge.one_f_one_b(4, 8), ge.zero_bubble(4, 8)):
        for box in layout(ge.simulate(schedule), width=350, memory=True).boxes:
            assert box.label == str(box.op.micro_batch)
            assert box.font >= 9


def test_labels_begin_at_13_pixels():
    whole = Timeline([Span(0, ge.Op("F", 0, 0), 0, 700)], 1)

    def label(width):
        spans = [Span(0, ge.Op("F", 0, 0), 0, width), Span(0, ge.Op("B", 0, 0), width, 700)]
        timeline = Timeline(spans, 1)
        picture = layout(timeline, width=1000)
        assert picture.boxes[0].width == pytest.approx(width * scale_of(picture, timeline))
        return picture.boxes[0].label

    unit = scale_of(layout(whole, width=1000), whole)
    assert label(12.9 / unit) == ""
    assert label(13.1 / unit) == "F0"


def test_a_checkpointed_backward_is_a_recompute_as_long_as_its_forward_and_a_backward():
    timeline = ge.simulate(RECIPES["late"], UNEVEN)
    picture = layout(timeline)
    forward = {span.op.stage: span.end - span.start for span in timeline.spans if span.op.kind == "F"}
    boxes = [box for box in picture.boxes if box.op.kind == "C"]
    assert len(boxes) == 16
    for box in boxes:
        recompute, backward = box.parts
        assert (recompute.kind, backward.kind) == ("R", "B")
        assert recompute.width == pytest.approx(forward[box.op.stage] * scale_of(picture, timeline))
        assert backward.x == pytest.approx(recompute.x + recompute.width)


def test_figures_beside_the_chart():
    # 4 devices, 28 units: 4 * 4 * (1 + 2) useful of 112, 4 * 4 of recompute, the rest idle.
    line = " ".join(texts(layout(ge.simulate(RECIPES["late"])), "figures"))
    assert "makespan 28" in line
    assert "bubble 42.9% (idle / total)" in line
    assert "useful work 42.9%" in line
    assert "recompute 14.3%" in line


def test_peaks_stand_beside_their_lanes():
    timeline = ge.simulate(RECIPES["1f1b"])
    picture = layout(timeline)
    middle = {box.device: box.y + box.height / 2 for box in picture.boxes}
    for device, peak in enumerate((4, 3, 2, 1)):
        assert any(
            words.text == str(peak) and words.y == middle[device] and words.x > picture.axis[1][0]
            for words in picture.words
        )


@each("source", ["planned", "replayed", "measured", "drawn"])
def test_the_title_says_where_the_times_come_from_and_their_unit(source):
    spans = [Span(0, ge.Op("F", 0, 0), 7, 7.001), Span(0, ge.Op("B", 0, 0), 7.001, 7.0036)]
    picture = layout(Timeline(spans, 1, name="x", source=source, unit="s"), title="mine")
    assert texts(picture, "heading") == [f"mine · {source}, time in ms · 1 device, 1 micro-batch"]
    assert "makespan 3.6 ms" in " ".join(texts(picture, "figures"))
    assert picture.boxes[0].x == picture.axis[0][0]


def test_ticks_are_round_and_stand_at_their_times():
    timeline = ge.simulate(RECIPES["gpipe"])
    picture = layout(timeline)
    assert texts(picture, "tick") == ["0", "5", "10", "15", "20", "25", "30", "time"]
    for number, x in enumerate(picture.ticks):
        assert x == pytest.approx(picture.axis[0][0] + 5 * number * scale_of(picture, timeline))


def test_lanes_name_their_stages_only_where_the_number_does_not():
    assert texts(layout(ge.simulate(RECIPES["gpipe"])), "lane")[:2] == ["device 0", "8"]
    assert "stages 0, 4" in texts(layout(ge.simulate(RECIPES["interleaved"])), "note")
    assert not any("stage" in text for text in texts(layout(ge.simulate(RECIPES["gpipe"])), "note"))
    assert "10: stages 10, 26" in texts(layout(ge.simulate(ge.interleaved(16, 16, 2))), "lane")


def test_the_flush_ends_the_step():
    timeline = ge.simulate(RECIPES["gpipe"])
    picture = layout(timeline)
    (bar,) = picture.bars
    assert 0 <= bar.x - picture.axis[1][0] <= 2
    assert bar.top <= min(box.y for box in picture.boxes)
    assert bar.bottom >= max(box.y + box.height for box in picture.boxes)
    assert "update" in texts(picture, "note")


def test_forwards_alone_end_in_no_update():
    picture = layout(Timeline([Span(k, ge.Op("F", 0, k), k, k + 1) for k in range(2)], 2))
    assert picture.bars == ()
    assert "update" not in texts(picture, "note")


def test_memory_strips_follow_the_memory_of_the_timeline():
    timeline = ge.simulate(RECIPES["1f1b"])
    picture = layout(timeline, memory=True)
    scale, left = scale_of(picture, timeline), picture.axis[0][0]
    tallest = max(strip.base - y for strip in picture.strips for _, y in strip.points)
    for strip, level in zip(picture.strips, memory_over_time(timeline), strict=True):
        corners = {(round(x, 6), round((strip.base - y) / tallest * 4, 6)) for x, y in strip.points}
        assert {(round(left + time * scale, 6), held) for time, held in level} <= corners
    assert layout(timeline).strips == ()


def test_the_critical_path_runs_through_its_ops():
    timeline = ge.simulate(RECIPES["early"], UNEVEN)
    picture = layout(timeline, critical_path=True)
    boxes = {box.op: box for box in picture.boxes}
    (route,) = picture.routes
    ends = [x for span in timeline.critical_path() for x in (boxes[span.op].x, boxes[span.op].x + boxes[span.op].width)]
    assert [x for x, _ in route] == pytest.approx(ends)
    assert layout(timeline).routes == ()


def test_several_timelines_share_one_axis():
    timelines = [ge.simulate(ge.naive(2, 2)), ge.simulate(ge.gpipe(2, 2))]
    picture = layout(*timelines)
    scale = scale_of(picture, timelines[0])
    first, second = picture.boxes[:8], picture.boxes[8:]
    assert [box.width for box in picture.boxes] == pytest.approx(
        [(box.end - box.start) * scale for box in picture.boxes]
    )
    assert max(box.y + box.height for box in first) < min(box.y for box in second)
    assert max(box.x + box.width for box in second) == pytest.approx(picture.axis[0][0] + 9 * scale)
    assert len(picture.bars) == 2


@each("width", [320, 480, 1000])
def test_no_text_leaves_the_picture(width):
    for schedule in (*RECIPES.values(), ge.interleaved(16, 16, 2)):
        picture = layout(ge.simulate(schedule), width=width, memory=True, critical_path=True)
        for words in picture.words:
            length = 0.5 * words.font * len(words.text)
            start = words.x - {"start": 0, "middle": length / 2, "end": length}[words.anchor]
            assert start >= 0, words
            assert start + length <= width, words
            assert 0 < words.y < picture.height


def test_ops_that_take_no_time_do_not_break_the_picture():
    picture = layout(ge.simulate(ge.gpipe(2, 2), ge.Costs(F=0, B=0)), memory=True, critical_path=True)
    assert {box.width for box in picture.boxes} == {0}


def test_what_cannot_be_drawn_is_refused():
    planned = ge.simulate(RECIPES["gpipe"])
    with pytest.raises(ValueError, match="width is 100; a chart needs at least 320 pixels"):
        layout(planned, width=100)
    with pytest.raises(ValueError, match="at least one"):
        layout()
    with pytest.raises(ValueError, match="cost units and s, which do not share a time axis"):
        layout(planned, Timeline(planned.spans, 4, source="measured", unit="s"))
