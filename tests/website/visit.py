"""What a visit to the site costs its reader: seconds, seconds of the processor, bytes as they travel."""

import os
import time
from pathlib import Path

READY = """(name) => {
  const context = window.jupyterapp?.shell?.currentWidget?.context;
  return context?.path === name && context.sessionContext.session?.kernel?.status === "idle";
}"""

OWN = """async (source) => {
  const panel = jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  panel.content.activeCellIndex = panel.content.widgets.findIndex((cell) => cell.model.type === 'code');
  panel.content.activeCell.model.sharedModel.setSource(source);
  await jupyterapp.commands.execute('notebook:run-cell');
}"""

SPLIT = """def split(batch, M):
    if M < 1:
        raise ValueError(M)
    if isinstance(batch, tuple):
        return list(zip(*(split(each, M) for each in batch)))
    return np.array_split(batch, M)
"""
"""A right answer to exercise 01."""


class Visit:
    """Counts from when it is made, what the page asks for as well."""

    def __init__(self, page):
        self._received = []
        page.context.on("response", lambda answer: self._received.append(answer))
        self._began, self._spent = time.monotonic(), processor_seconds()

    def seconds(self):
        return time.monotonic() - self._began

    def processor(self):
        return processor_seconds() - self._spent

    def megabytes(self):
        """With gzip, as they have come from the server; what the browser had is not counted."""
        fresh = [one for one in self._received if one.status == 200 and not one.from_service_worker]
        return sum(max(0, one.request.sizes()["responseBodySize"]) for one in fresh) / 1e6

    def __str__(self):
        return f"{self.seconds():.1f} s, of the processor {self.processor():.1f} s"


def open_notebook(page, address, name):
    """Open a notebook of the lab and wait for its kernel."""
    page.goto(f"{address}?path={name}")
    page.wait_for_function(READY, arg=name, polling=200)


def move_the_explorer(page, address):
    """Open the front page and change the schedule of its live chart, which is there again when this returns."""
    page.goto(address)
    chart = page.frame_locator("iframe.live").first
    chart.locator('[data-name="schedule"]').select_option("1f1b")
    chart.locator(".ge-title", has_text="1f1b").wait_for()


def run_a_schedule_of_ones_own(page):
    """In an open notebook of the lab: type a schedule into the first cell, run it and see its picture."""
    source = 'import gpipe_edu as ge\nge.Schedule.parse("F0 F1 B0 B1\\nF0 B0 F1 B1")'
    page.evaluate(OWN, source)
    page.wait_for_selector(".jp-OutputArea img", state="attached")


def processor_seconds():
    """What this process and all that it has started have used, the browser first of all; 0 where that is not known."""
    spent, parent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parent[pid], spent[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {pid for pid in parent if parent[pid] in ours} - ours:
        ours |= more
    return sum(spent.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")
