"""The self-contained page: nothing leaves it, and everything it needs is in it."""

import base64
import gzip
import json
import re
import zlib
from itertools import product

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.view.gantt.page import GRID
from gpipe_edu.view.gantt.settings import RECOMPUTE_WHEN, schedules

pytest.importorskip("anywidget")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="ge-data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def explorer():
    return ge.gantt(ge.gpipe(5, 8)).to_html()


def test_no_address_is_in_it_and_the_browser_is_told_to_ask_nobody(explorer):
    assert not re.search(r"https?://", explorer)
    assert not re.search(r"""(?:src|href)\s*=|@import|url\((?!#)""", explorer.replace("url(#", "url(#"))
    assert "default-src 'none'" in explorer
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon)\b", explorer)


def test_an_explorer_has_a_chart_for_every_point_of_its_grid(explorer):
    data = data_of(explorer)
    grid = data["explorer"]["grid"]
    assert grid == {"K": sorted({*GRID["K"], 5}), "M": list(GRID["M"])}
    frames = json.loads(zlib.decompress(base64.b64decode(data["frames"])))
    columns = frames["columns"]
    for schedule, recompute, K, M in product(schedules(), RECOMPUTE_WHEN, grid["K"], grid["M"]):
        key = f"{schedule}|{recompute}|{K}|{M}"
        if form_of(schedule).splits and recompute == "late":
            assert "no checkpointed backward" in frames["errors"][key]
            assert key not in frames["charts"]
            continue
        at = frames["charts"].index(key)
        assert (columns["K"][at], columns["M"][at]) == (K, M)
        assert columns["critical"][at]
    assert {len(column) for column in columns.values()} == {len(frames["charts"])}
    here = frames["charts"].index("gpipe|none|5|8")
    (shown,) = data["payload"]["specs"]
    told = [[op - far if far else -1 for op, far in enumerate(both)] for both in columns["needs"][here]]
    assert {**{field: column[here] for field, column in columns.items() if field != "pairs"}, "needs": told} == shown
    late = columns["stats"][frames["charts"].index("gpipe|late|4|8")]
    assert late["makespan"] == ge.formulas.makespan_late(4, 8)


def test_a_page_is_small_enough_to_mail_and_for_the_front_of_a_site(explorer):
    assert len(explorer) < 1_500_000
    front = ge.gantt(ge.gpipe(4, 8)).to_html()
    assert len(gzip.compress(front.encode())) < 350_000  # the front page may have 500 kB in all


def test_a_comparison_needs_no_grid():
    data = data_of(ge.gantt(ge.gpipe(2, 2), ge.naive(2, 2), theme="dark").to_html())
    assert data["frames"] is None
    assert data["explorer"] is None
    assert data["options"]["theme"] == "dark"
    assert [spec["name"] for spec in data["payload"]["specs"]] == ["gpipe", "naive"]


def test_a_name_cannot_break_out_of_the_page(monkeypatch):
    monkeypatch.setattr("gpipe_edu.view.gantt.page.GRID", {"K": (2,), "M": (2,)})
    evil = "</script><script>alert(1)</script><!--"
    page = ge.gantt(ge.Schedule.parse("F0 B0 F1 B1\nF0 B0 F1 B1 # x", name=evil).check()).to_html()
    assert "<script>alert" not in page
    wrapped = ge.gantt(ge.simulate(ge.Schedule(ge.gpipe(2, 2).rows, name=evil))).to_html()
    assert "<script>alert" not in wrapped
    assert data_of(wrapped)["payload"]["specs"][0]["name"] == evil


def test_the_same_chart_is_the_same_page():
    assert ge.gantt(ge.simulate(ge.gpipe(2, 2))).to_html() == ge.gantt(ge.simulate(ge.gpipe(2, 2))).to_html()
