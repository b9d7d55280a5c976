"""In place of Python in a page: CPython with the page's own host.py, which a test's page asks through its browser."""

import json
import subprocess
import sys
from contextlib import contextmanager

from tests.browser import chrome
from tests.processes import PATIENCE
from tests.website.conftest import ROOT

SERVES = """
import json, sys
out, sys.stdout = sys.stdout, sys.stderr
from website.live import host
host.start(lambda event: print(json.dumps({"event": event}), file=out, flush=True))
for request in sys.stdin:
    print(json.dumps({"answer": host.call(request)}), file=out, flush=True)
"""

WORKER = """
window.up = new Promise((done) => (window.startPython = done));
window.Worker = class {
  postMessage(message) {
    this.queue = (this.queue ?? window.up).then(async () => {
      if (this.ended) return;
      if (message.start) return this.onmessage({ data: { ready: 0.1 } });
      for (const { event, answer } of await window.askPython(message.request)) {
        this.onmessage({ data: event ? { event } : { number: message.number, answer } });
      }
    });
  }
  terminate() {
    this.ended = true;
  }
};
"""
"""A worker for a page: it answers when `startPython()` has been called."""

HOLD = """() => {
  const ask = window.askPython;
  const held = new Promise((done) => (window.letPython = done));
  window.askPython = async (request) => { await held; return ask(request); };
}"""
"""From now on Python hears nothing, until `letPython()`."""


class Host:
    """`ask(call, **arguments)` is what a page asks; `events`, what was said before the last answer."""

    def __init__(self, home):
        self.events, self._home = [], home
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
            env={"GPIPE_EDU_HOME": str(home), "PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
        )

    def answer(self, request):
        """What goes to the page: {"event": JSON} for each event, and {"answer": JSON}."""
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        said = [json.loads(self.process.stdout.readline())]
        while "answer" not in said[-1]:
            said.append(json.loads(self.process.stdout.readline()))
        return said

    def ask(self, call, **given):
        *events, last = self.answer(json.dumps({"call": call, "with": given}))
        self.events = [json.loads(each["event"]) for each in events]
        return json.loads(last["answer"])

    def forget(self):
        """As if nobody had done anything yet."""
        (self._home / "progress.json").unlink(missing_ok=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


@contextmanager
def pages_of_a_reader(new_context, address, answer):
    """`open_page(name, mark, up)`: one page after another of one reader. up: else `startPython()` later."""
    with chrome.pages(new_context) as open_one:
        first = open_one()
        first.context.add_init_script(WORKER)
        first.context.expose_function("askPython", answer)

        def opened(name, mark="", up=True):
            page = first.context.new_page()
            page.goto(f"{address}{name}{mark}")
            if up:
                page.evaluate("startPython()")
            return page

        yield opened
