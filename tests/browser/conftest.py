"""A real Chromium for the tests in this folder; where there is none they are skipped, and say so.

It runs, as does a Jupyter server, while a worker is in this folder, and no longer: as long as playwright runs, nothing
else can run a loop of asyncio.
"""

import functools
import shutil
from contextlib import suppress

import pytest

from . import chrome, servers


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What fails on a busy machine alone is understood from what its pages showed."""
    report = yield
    if report.when == "call" and report.failed:
        for page in (page for page in chrome.OPENED if not page.is_closed()):
            with suppress(Exception):  # whatever ails the page, the test's own failure is what is reported
                shown = page.inner_text("body", timeout=10_000)[:3000]
                report.sections.append((f"the page {page.url}", "\n".join([shown, *page.problems])))
    return report


@pytest.fixture(scope="package")
def new_context():
    chrome.needed()
    with chrome.browser() as opened:
        yield opened


@pytest.fixture(scope="package")
def profile(new_context):
    with chrome.profile(new_context) as found:
        yield found


@pytest.fixture
def open_page(profile):
    """`open_page(width=..., scheme=...)`: a page that finds nothing kept, closed at the end of the test."""
    with chrome.pages_of(profile) as open_one:
        yield open_one


@pytest.fixture(scope="package")
def jupyter(new_context, tmp_path_factory):
    """A folder, and the address of its server: of JupyterLab, Notebook 7 and Voila, as far as they are installed."""
    folder = tmp_path_factory.mktemp("course")
    with servers.jupyter(folder) as address:
        yield folder, address
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def hosts(jupyter, new_context):
    """By their names, and by how many tests had failed when they began: what such a test has left ends no other."""
    with chrome.pages(new_context) as open_one:
        yield functools.cache(lambda app, _failed: chrome.Host(app, *jupyter, open_one()))


@pytest.fixture
def lab(hosts, request):
    return began(hosts("lab", request.session.testsfailed))


@pytest.fixture
def notebook(hosts, request):
    pytest.importorskip("notebook", reason="this test needs Notebook 7: pip install -r requirements-dev.txt")
    return began(hosts("notebook", request.session.testsfailed))


def began(host):
    host.page.problems.clear()
    return host
