"""Pictures and widgets of a notebook are measured in a browser: what one looks at at once has to fit a laptop's screen.

It is done after nbval has run the cells and while their kernel still lives, so nothing runs a second time.
"""

import contextlib
import functools
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..browser import chrome, kernel
from ..processes import PATIENCE, ROOT

WIDTH, VISIBLE = 930, 647
"""What a laptop of 1366 x 768 leaves a notebook in JupyterLab, in pixels."""
HIGHER: dict[tuple[str, str], str] = {}
"""(notebook, cell) -> why this one may be higher."""

WIDGET = "application/vnd.jupyter.widget-view+json"
STATES = """
import json, pathlib, sys
sys.path.append(ROOT)  # a lesson's kernel knows the package, and not its tests
from ipywidgets.widgets.widget import _instances
from tests.browser.kernel import plain
pathlib.Path(PATH).write_text(json.dumps({
    key: {"css": widget._css, "esm": widget._esm, "state": plain(widget)}
    for key, widget in _instances.items() if hasattr(widget, "_esm")
}))
"""
ASIDE = ThreadPoolExecutor(1)
"""Where Chromium is driven from: the tests' own thread could run no other loop of asyncio while it is open."""
OPEN = contextlib.ExitStack()

NAME = "name-of-this-output"
SETTLED = """async () => {
  for (const image of document.images) await image.decode();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def after_their_cells(items):
    """The items with one more behind each notebook's cells that measures what these have shown."""
    for number, item in enumerate(items):
        yield item
        following = items[number + 1] if number + 1 < len(items) else None
        if hasattr(item, "cell_num") and getattr(following, "parent", None) is not item.parent:
            ran = [cell for cell in items if cell.parent is item.parent]
            yield Heights.from_parent(item.parent, name="heights", ran=ran)


class Heights(pytest.Item):
    """One notebook's pictures and widgets; nbval's cells have their outputs, the kernel has the widgets."""

    def __init__(self, *, ran, **of_any_item):
        super().__init__(**of_any_item)
        self.ran = ran

    def runtest(self):
        if chrome.path() is None:
            pytest.skip("heights are measured in Chromium: apt-get install chromium")
        outputs = [
            (item.cell.id, output.data) for item in self.ran for output in item.test_outputs or [] if "data" in output
        ]
        with tempfile.TemporaryDirectory() as folder:
            widgets = states(self.parent.kernel, Path(folder, "states.json"))
            found = ASIDE.submit(heights, outputs, widgets, Path(folder)).result()
        high = {cell: f"{high} px" for cell, high in found.items() if high > VISIBLE}
        listed = {cell for notebook, cell in HIGHER if notebook == self.path.stem}
        assert set(high) == listed, (
            f"{self.path.name} shows pictures higher than the {VISIBLE} px of a laptop: {high}; listed are {listed}"
        )

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}: heights"


@functools.cache
def profile():
    """One Chromium for all notebooks; `end` ends it."""
    return OPEN.enter_context(chrome.profile(OPEN.enter_context(chrome.browser())))


def end():
    ASIDE.submit(OPEN.close).result()


def states(running, path):
    """By model, what a page needs in order to show each widget of a running kernel."""
    source = STATES.replace("PATH", repr(str(path))).replace("ROOT", repr(ROOT))
    asked = running.execute_cell_input(source, allow_stdin=False)
    running.await_reply(asked, timeout=PATIENCE)
    return json.loads(path.read_text())


def heights(outputs, widgets, folder):
    """The height of the highest picture or widget of each cell that has one. outputs: (cell, MIME bundle)."""
    shown = [(cell, html) for cell, data in outputs if (html := as_html(data, widgets))]
    path = folder / "outputs.html"
    path.write_text(
        kernel.DOCUMENT + "".join(html.replace(NAME, f"output-{number}") for number, (_, html) in enumerate(shown)),
        encoding="utf-8",
    )
    with chrome.pages_of(profile()) as open_one:
        page = open_one(width=WIDTH, height=768)
        page.expose_function("kernel", lambda request: {"told": {}, "messages": []})
        page.goto(path.as_uri())
        page.add_style_tag(content="img { display: block; max-width: 100% }")
        page.wait_for_function("() => [...document.querySelectorAll('main')].every(output => output.children.length)")
        page.evaluate(SETTLED)
        high = page.eval_on_selector_all("main", "all => all.map(x => Math.ceil(x.getBoundingClientRect().height))")
        assert page.problems == []
    found = {}
    for (cell, _), height in zip(shown, high, strict=True):
        found[cell] = max(height, found.get(cell, 0))
    return found


def as_html(data, widgets):
    """What JupyterLab shows of a MIME bundle, in an element `NAME`; "" for text, which scrolls by itself."""
    if WIDGET in data:
        return kernel.hosted(**widgets[data[WIDGET]["model_id"]], name=NAME)
    if "text/html" in data:
        return f'<main id="{NAME}">{data["text/html"]}</main>'
    if "image/png" in data:
        return f'<main id="{NAME}"><img src="data:image/png;base64,{data["image/png"]}"></main>'
    return ""
