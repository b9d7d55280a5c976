"""Saved traces and what is drawn of them are as in golden_traces.json, against which node's tests hold the page."""

from __future__ import annotations

import base64
import json

import pytest

from gpipe_edu.timeline.trace import read
from tests.view.golden_traces import CASES, FILE, REFUSED, SHARES, current, refusal, saved

STORED = json.loads(FILE.read_text(encoding="utf-8"))


def test_the_file_is_current():
    assert json.loads(json.dumps(current())) == STORED, "if that is meant: python -m tests.view.golden_traces"


@pytest.mark.parametrize("name", CASES)
def test_python_reads_what_the_page_is_tested_with(name):
    assert read(STORED["cases"][name]["text"].encode(), "a.json") == CASES[name]
    assert saved(CASES[name]) == STORED["cases"][name]["text"]


def test_refusals_are_as_stored_and_none_was_read():
    assert len(STORED["refused"]) == len(REFUSED)
    for data, words in STORED["refused"]:
        assert refusal(base64.b64decode(data)) == words
        assert words.startswith("a.json "), words


def test_there_are_halves_to_round():
    assert [f"{share:.1%}" for share in SHARES if share * 400 % 4 == 1][:3] == ["0.2%", "1.2%", "2.2%"]
