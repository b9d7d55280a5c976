"""The site as its readers get it, built once; a browser that can reach this machine alone and hears every error."""

import os
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from tests.browser import chrome
from tests.processes import PATIENCE
from website import __main__, lab, pages, serve

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ["00_start_here", "03_scheduling", "schedule_puzzles", "exercise_01_splitting"]
"""What is run and looked at in everyday tests; all of it with --whole-site."""

ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture(scope="session")
def whole(pytestconfig):
    return pytestconfig.getoption("whole_site")


@pytest.fixture(scope="session")
def site(tmp_path_factory, whole):
    """The folder of the site: all of it, or the sample without the lab. GPIPE_EDU_SITE names one that is built.

    Several workers have one, which the first builds and the last takes away.
    """
    if os.environ.get("GPIPE_EDU_SITE"):
        yield Path(os.environ["GPIPE_EDU_SITE"])
        return
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    users, lock = out.with_suffix(".users"), FileLock(out.with_suffix(".lock"), timeout=PATIENCE)
    with lock:
        if not users.exists():
            shutil.rmtree(out, ignore_errors=True)  # of a build that failed
            if whole:
                __main__.build(out)
            else:
                pages.build(ROOT, out, SAMPLE, with_lab=False)
            users.touch()
        users.write_text(f"{users.read_text()}+")
    yield out
    with lock:
        users.write_text(users.read_text()[1:])
        if not users.read_text():
            shutil.rmtree(out, ignore_errors=True)
            users.unlink()


@pytest.fixture(scope="session")
def address(site):
    with handed_out(site) as found:
        yield found


@contextmanager
def handed_out(site):
    """Where a server hands a site out, under a sub-path."""
    server = serve.server(site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}{serve.PREFIX}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def with_lab(whole):
    """For a whole module: then the tests that are skipped want no site."""
    if not whole:
        pytest.skip("the lab takes minutes to build and to start: `make site-test` tests it")


@pytest.fixture
def lab_address(address):
    assert lab.BUILDER.exists()
    return f"{address}lab/lab/index.html"


@pytest.fixture(scope="module")
def new_context():
    """One Chromium for a module, which finds this machine alone. While it runs, no site can be built."""
    chrome.needed()
    with chrome.browser(ALONE) as opened:
        yield opened


@pytest.fixture(scope="module")
def profile(new_context):
    with chrome.profile(new_context) as found:
        yield found


@contextmanager
def profile_on_disk(folder):
    """A profile in a Chromium of its own, which keeps in `folder` what it has fetched, as a reader's does."""
    chrome.needed()
    with chrome.browser(ALONE, profile=folder / "profile") as opened, chrome.profile(opened) as found:
        yield found


@pytest.fixture
def open_page(profile):
    """`open_page(width, height, scheme)`: a page; `.problems` are the errors of its scripts and its console.

    At the end no request may have left this machine.
    """
    asked = []

    def hear(request):
        asked.append(request.url)

    profile.on("request", hear)
    with chrome.pages_of(profile) as open_one:

        def opened(*size):
            page = open_one(*size)
            page.on("console", lambda said: page.problems.append(said.text) if said.type == "error" else None)
            return page

        yield opened
    profile.remove_listener("request", hear)
    near = ("file:", "blob:", "data:", "chrome-extension:", "about:", "http://127.0.0.1:")
    assert [url for url in asked if not url.startswith(near)] == []


def pytest_terminal_summary(terminalreporter):
    for name, seconds in sorted(TIMES.items()):
        terminalreporter.write_line(f"{name}: {seconds}")


TIMES = {}
"""What took how long, for the end of the run."""
