"""The SVG file: well-formed, self-contained, and with everything where the timeline says."""

import re
from xml.etree import ElementTree

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import KINDS
from gpipe_edu.view.palette import PAINTS
from gpipe_edu.view.svg import render
from tests.processes import printed

NS = "{http://www.w3.org/2000/svg}"


def parse(text):
    return ElementTree.fromstring(text)


def of_class(root, name):
    return [node for node in root.iter() if name in node.get("class", "").split()]


def ids(text):
    return set(re.findall(r'id="([^"]+)"', text))


@pytest.mark.parametrize("recompute", [None, "late", "early"])
def test_every_op_has_a_box_of_its_length_at_its_time(recompute):
    timeline = ge.simulate(ge.gpipe(4, 4, recompute=recompute), ge.Costs(F=[1, 2, 1, 1], send=0.25))
    root = parse(render(timeline))
    (axis,) = of_class(root, "axis")
    left, right = (float(point.split(",")[0]) for point in axis.get("points").split())
    scale = (right - left) / timeline.makespan
    groups = {node.find(f"{NS}title").text.rpartition(", ")[0]: node for node in of_class(root, "op")}
    assert len(groups) == len(timeline.spans)
    for span in timeline.spans:
        kind, micro_batch, stage = span.op
        place = f"micro-batch {micro_batch}, stage {stage}, device {span.device}"
        node = groups[f"{kind}{micro_batch}: {KINDS[kind]} of {place}"]
        rects = [rect for rect in node.iter(f"{NS}rect") if rect.get("class") != "frame"]
        assert len(rects) == (2 if span.op.kind == "C" else 1)
        assert float(rects[0].get("x")) == pytest.approx(left + span.start * scale, abs=0.01)
        assert sum(float(rect.get("width")) for rect in rects) == pytest.approx(
            (span.end - span.start) * scale, abs=0.02
        )


def test_labels_bubbles_flush_and_paper_are_there():
    text = render(ge.simulate(ge.gpipe(4, 8)))
    root = parse(text)
    assert sorted(node.text for node in of_class(root, "label")) == sorted(
        f"{kind}{m}" for kind in "FB" for m in range(8) for _ in range(4)
    )
    (bubble,) = of_class(root, "bubble")
    assert bubble.get("d").count("M") == 1 + 3 + 3 + 2  # device 0 starts and ends busy, device 3 turns at once
    assert bubble.get("fill").startswith("url(#hatch-")
    assert 'patternTransform="rotate(45)"' in text
    assert len(of_class(root, "flush")) == 1
    (paper,) = of_class(root, "paper")
    assert (paper.get("fill"), paper.get("width")) == ("#FFFFFF", "100%")
    assert "update" in [node.text for node in of_class(root, "note")]


def test_a_recompute_has_dots_and_a_dashed_outline():
    root = parse(render(ge.simulate(ge.gpipe(4, 4, recompute="early"))))
    rects = [rect for node in of_class(root, "R") for rect in node.iter(f"{NS}rect")]
    assert len(rects) == 16
    assert all(rect.get("fill").startswith("url(#dots-R-") and rect.get("stroke-dasharray") for rect in rects)


def test_large_charts_have_one_path_per_kind():
    timeline = ge.simulate(ge.gpipe(16, 64))
    root = parse(render(timeline))
    paths = of_class(root, "ops")
    assert {path.get("class"): path.get("d").count("M") for path in paths} == {"ops F": 1024, "ops B": 1024}
    assert {path.get("fill") for path in paths} == {PAINTS["F"].fill, PAINTS["B"].fill}
    assert len(list(root.iter(f"{NS}rect"))) < 20


def test_one_op_less_than_the_limit_is_drawn_one_by_one():
    assert len(of_class(parse(render(ge.simulate(ge.gpipe(1, 149)))), "op")) == 298
    assert len(of_class(parse(render(ge.simulate(ge.gpipe(1, 150)))), "op")) == 0


def test_a_pair_that_runs_as_one_block_has_a_frame():
    schedule = ge.dual_pipe_v(2, 4)
    text = render(ge.simulate(schedule))
    assert text.count('class="pair"') == len(schedule.pairs) + 1  # one in the legend
    assert "two run as one" in text
    assert 'class="pair"' not in render(ge.simulate(schedule.apart()))


def test_it_is_an_image_with_a_name_for_screen_readers():
    root = parse(render(ge.simulate(ge.gpipe(4, 8)), title="<b> & co"))
    assert root.get("role") == "img"
    assert root.find(f"{NS}title").text.startswith("<b> & co · planned")
    assert "makespan 33" in root.find(f"{NS}desc").text
    assert set(root.get("aria-labelledby").split()) == {root[0].get("id"), root[1].get("id")}


@pytest.mark.parametrize("schedule", [ge.gpipe(4, 4, recompute="early"), ge.gpipe(16, 64, recompute="late")])
def test_nothing_comes_from_outside(schedule):
    text = render(ge.simulate(schedule), memory=True, critical_path=True)
    assert re.findall(r"\w+://[^\s\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"href|<script|<style|@import|<image|<foreignObject", text)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= ids(text)


def test_pictures_on_one_page_share_no_ids_and_are_always_the_same_text():
    timelines = [ge.simulate(ge.gpipe(4, 8)), ge.simulate(ge.one_f_one_b(4, 8))]
    one, two = map(render, timelines)
    assert ids(one)
    assert not ids(one) & ids(two)
    assert not ids(one) & ids(render(timelines[0], width=900))
    assert render(ge.simulate(ge.gpipe(4, 8))) == one
    assert timelines[0].to_svg() == one


def test_it_needs_no_matplotlib():
    code = "import sys; sys.modules['matplotlib'] = None; import gpipe_edu as ge, gpipe_edu.view.svg\n"
    code += "print(ge.simulate(ge.gpipe(2, 2)).to_svg()[:4])"
    assert printed(code) == "<svg\n"
