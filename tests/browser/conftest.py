"""A real Chromium for the tests in this folder; where there is none they are skipped, and say so."""

import shutil

import pytest

from . import chrome


@pytest.fixture
def open_page(tmp_path):
    """`open_page(width=..., scheme=...)`: a page of a browser with a fresh profile, closed at the end of the test."""
    pytest.importorskip("playwright", reason="the browser tests need playwright: pip install -r requirements-dev.txt")
    if chrome.path() is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium")
    with chrome.browser(tmp_path / "profile") as open_one:
        yield open_one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a module's servers look for notebooks."""
    place = tmp_path_factory.mktemp("course")
    yield place
    shutil.rmtree(place, ignore_errors=True)
