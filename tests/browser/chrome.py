"""Chromium, driven by playwright: fresh profiles, no first-run noise, and an ear for errors and requests."""

import contextlib
import functools
import shutil
from urllib.parse import urlsplit
from weakref import WeakSet

import pytest

from tests.amount import whole

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 600_000
"""Milliseconds until a wait for the page fails."""


def path():
    """Where Chromium is, None if it is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def needed():
    """Skip the tests that ask for this where there is no browser to drive."""
    pytest.importorskip("playwright", reason="the browser tests need playwright: pip install -r requirements-dev.txt")
    if path() is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium")


@contextlib.contextmanager
def browser(*flags, profile=None):
    """A Chromium: gives a function that opens a context, each a profile of its own, or all the one in that folder."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        how = {"executable_path": path(), "args": [*FLAGS, *flags]}
        if profile is not None:
            yield _patient(functools.partial(driver.chromium.launch_persistent_context, profile, **how))
        else:
            with driver.chromium.launch(**how) as started:
                yield _patient(started.new_context)


def _patient(new_context):
    """The same, and no page of the context waits for playwright's half a minute only."""

    def opened(**options):
        context = new_context(**options)
        context.set_default_timeout(PATIENCE)
        return context

    return opened


@contextlib.contextmanager
def pages(new_context):
    """A function that opens a page: (width, height, scheme, reduced_motion) -> page, with .problems and .requests.

    Each has a fresh profile, which is closed at the end.
    """
    with contextlib.ExitStack() as open_ones:

        def open_one(width=1280, height=900, scheme="light", reduced_motion=None):
            context = new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion=reduced_motion
            )
            open_ones.callback(context.close)
            return _heard(context.pages[0] if context.pages else context.new_page())

        yield open_one


@contextlib.contextmanager
def profile(new_context):
    """A context that stays, with a page of its own: what is opened beside it starts in a third of the time."""
    context = new_context()
    context.new_page()
    yield context
    context.close()


@contextlib.contextmanager
def pages_of(profile):
    """As `pages`, but one test after another has the same profile: at the end all that their pages keep is cleared."""
    opened = []

    def open_one(width=1280, height=900, scheme="light", reduced_motion=None):
        page = _heard(profile.new_page())
        opened.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion=reduced_motion)
        return page

    yield open_one
    profile.clear_cookies()
    places = [urlsplit(url) for page in opened for url in page.requests]
    caller = profile.new_cdp_session(profile.pages[0])
    for page in profile.pages[1:]:
        page.close()
    for origin in {f"{place.scheme}://{place.netloc}" for place in places}:
        caller.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    caller.detach()


SLUGGISH = """(() => {
  const timer = setTimeout.bind(window), frame = requestAnimationFrame.bind(window);
  const later = (f, t = 0) => timer(f, t + 120);
  window.setTimeout = (f, t, ...given) => later(() => f(...given), t);
  window.requestAnimationFrame = (f) => frame(() => later(() => frame(f)));
  const { set, ...heard } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
  const late = (socket, f) => f && ((event) => later(() => f.call(socket, event)));
  Object.defineProperty(WebSocket.prototype, "onmessage", { ...heard, set(f) { set.call(this, late(this, f)); } });
})()"""
"""With --whole, what a page waits for comes later by more than a key takes: a test that does not wait is found."""


OPENED = WeakSet()
"""All pages with an ear, for the report of a test that fails."""


def _heard(page):
    OPENED.add(page)
    if whole():
        page.add_init_script(SLUGGISH)
    page.problems, page.requests = [], []
    page.on("pageerror", lambda error: page.problems.append(f"{error}\n{error.stack}"))
    page.on("request", lambda request: page.requests.append(request.url))
    return page


CLOSE = """async () => {
  for (const open of [...jupyterapp.shell.widgets("main")]) {
    await open.context?.save();
    open.dispose();
  }
}"""
"""A notebook that is closed while it is being saved leaves "File Save Error" on the page, behind which no other becomes
the current one. A save waits for one that is on its way.
"""


def cells(page):
    """How many cells the open notebook has: a chart that lets keys through makes more or fewer."""
    return page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length")


def our_problems(page):
    """Errors raised in the widget's own module, which anywidget loads from a blob; a host's own errors are its own."""
    return [problem for problem in page.problems if "blob:" in problem]


class Host:
    """JupyterLab, "lab", or Notebook 7, "notebook", in a page that stays, and whose code is compiled once."""

    def __init__(self, app, folder, address, page):
        self.app, self.folder, self.address, self.page = app, folder / app, address, page
        self.folder.mkdir(exist_ok=True)

    def run_all(self, name, *cells, given_back=False):
        """Its page, after all cells of the notebook `name` ran; with `cells`, it is written first. Fails if a cell
        raises, or if cells are not given back unrun that should be. JupyterLab opens it anew where it has started.
        """
        from .servers import TOKEN, notebook

        page, path = self.page, f"{self.app}/{name}.ipynb"
        has_started = page.url.startswith(f"{self.address}/doc/")
        if has_started:
            page.evaluate(CLOSE)
        if cells:
            notebook(self.folder, name, *cells)
        if has_started:
            page.evaluate("(path) => jupyterapp.commands.execute('docmanager:open', { path })", path)
        else:
            way = "doc/tree" if self.app == "lab" else "notebooks"
            page.goto(f"{self.address}/{way}/{path}?token={TOKEN}" + ("&reset" if self.app == "lab" else ""))
        page.wait_for_function(
            "() => window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session?.kernel?.status === 'idle'"
        )
        ran = page.evaluate(
            """async () => {
                const panel = window.jupyterapp.shell.currentWidget;
                await panel.context.ready;
                await panel.sessionContext.ready;
                return await window.jupyterapp.commands.execute('notebook:run-all-cells');
            }"""
        )
        assert (ran is False) == given_back, "all cells ran" if given_back else "a cell raised"
        return page
