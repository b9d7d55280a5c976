"""Tests share a profile, and yet none finds what another's pages have kept."""

import pytest

from . import chrome

pytestmark = pytest.mark.slow


def test_what_a_page_keeps_is_gone_with_its_test(profile, tmp_path):
    (tmp_path / "page.html").write_text("<!DOCTYPE html>", encoding="utf-8")
    found = []
    for _ in range(2):
        with chrome.pages_of(profile) as open_one:
            page = open_one(390, 700, "dark")
            page.goto((tmp_path / "page.html").as_uri())
            found.append(page.evaluate("localStorage.length"))
            page.evaluate("localStorage.setItem('kept', 'here')")
            assert page.evaluate("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]") == [390, True]
    assert found == [0, 0]
    assert len(profile.pages) == 1
