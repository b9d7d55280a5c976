"""Pages of the site with Python in them, from opening each to what a reader came for, over a line of a given speed.

Why: Python's 11 MB are fetched while somebody waits, so a first result is bytes before it is computing. Each page is
opened by a browser that has never been there, then once more by the same one. The server drips: a browser's own
throttling leaves out its workers, where Python is.

    make site && python -m benchmarks.pages              # as fast as this machine; a minute a round
    python -m benchmarks.pages --megabits 20             # a line of 20 Mbit/s, with 20 ms for each request
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import between, machine
from tests.browser import chrome
from tests.website.visit import SPLIT
from website import serve

PATIENCE = 240_000
"""Milliseconds."""

DELAY = 0.02
"""Seconds before each answer of a slow line."""

FORGET = """async () => {
  localStorage.clear();
  for (const { name } of await indexedDB.databases()) indexedDB.deleteDatabase(name);
}"""
"""Forgets what was typed and solved; what was fetched stays."""

Step = tuple[str, float]


class Line:
    """What lies between server and browser. rate: bytes a second, for all answers together; 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self.rate, self.sent = rate, 0
        self._free, self._lock = 0.0, threading.Lock()

    def send(self, write: Callable[[bytes], Any], content: bytes) -> None:
        """Write it, over a slow line piece by piece, each when its turn has come."""
        self.sent += len(content)
        if not self.rate:
            write(content)
            return
        for begin in range(0, len(content), 16_384):
            piece = content[begin : begin + 16_384]
            with self._lock:
                self._free = max(self._free, time.monotonic()) + len(piece) / self.rate
                turn = self._free
            time.sleep(max(0.0, turn - time.monotonic()))
            write(piece)


def behind(line: Line) -> type[serve.Handler]:
    """The handler that answers for the site's server behind the line."""

    class Slowly:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, content: bytes) -> None:
            line.send(self._file.write, content)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    class Handler(serve.Handler):
        def setup(self) -> None:
            super().setup()
            self.wfile = Slowly(self.wfile)  # type: ignore[assignment]

        def do_GET(self) -> None:
            time.sleep(DELAY if line.rate else 0)
            super().do_GET()

    return Handler


def puzzle(page: Any, address: str, _: Line) -> Iterator[Step]:
    """The board, and its first move."""
    began = time.monotonic()
    page.goto(f"{address}puzzle.html", wait_until="commit")
    page.wait_for_selector('[data-op="F0@0"]')
    yield "puzzle: board seen", time.monotonic() - began
    page.click('[data-op="F0@0"]')
    yield "puzzle: first move taken", time.monotonic() - began
    page.wait_for_function("document.querySelector('.gp-said').innerText.includes('F0@0 placed')", polling=20)
    yield "puzzle: first move answered", time.monotonic() - began


def box(page: Any, address: str, _: Line) -> Iterator[Step]:
    """A schedule that hangs is typed, then one that runs."""
    began = time.monotonic()
    page.goto(f"{address}explorer.html", wait_until="commit")
    page.fill("#rows", "F0 B0\nB0 F0")
    page.wait_for_selector("#says.stuck")
    yield "box: typed schedule judged", time.monotonic() - began
    began = time.monotonic()
    page.fill("#rows", "F0 B0\nF0 B0")
    page.wait_for_selector("#says:not(.stuck)")
    yield "box: next keystroke judged", time.monotonic() - began


def cells(page: Any, address: str, line: Line) -> Iterator[Step]:
    """A cell of one's own, an endless one, Stop, and the next."""
    before, began = line.sent, time.monotonic()
    page.goto(f"{address}notebooks/00_start_here.html", wait_until="commit")
    cell = page.locator("section.cell").first
    cell.locator("[data-do=edit]").click()

    def run(code: str) -> None:
        cell.locator(".cm-content").fill(code)
        cell.locator("[data-do=run]").click()

    run("1 + 1")
    cell.locator(".outputs .value:text-is('2')").wait_for()
    yield "lesson: first own cell's result", time.monotonic() - began
    yield "lesson: MB until then", (line.sent - before) / 1e6
    run("while True: pass")
    cell.locator(".stands:text-is('runs ...')").wait_for()
    page.wait_for_timeout(500)
    page.click("#running button")
    began = time.monotonic()
    run("2 + 3")
    cell.locator(".outputs .value:text-is('5')").wait_for()
    yield "lesson: from Stop to the next result", time.monotonic() - began


def exercise(page: Any, address: str, _: Line) -> Iterator[Step]:
    """ex01's verdict, once its first cell has run."""
    page.goto(f"{address}exercises/exercise_01_splitting.html", wait_until="commit")
    first = page.locator("section.cell").first
    first.locator("[data-do=run]").click()
    first.locator(".stands:text-is('ran')").wait_for()
    page.evaluate("for (const button of document.querySelectorAll('button.unfold')) button.click()")
    answer = page.locator('section.cell[data-exercise="ex01/splitting"]')
    answer.locator("[data-do=edit]").click()
    answer.locator(".cm-content").fill(SPLIT)
    began = time.monotonic()
    answer.locator("[data-do=check]").click()
    answer.locator(".solved").wait_for()
    yield "exercise 01: verdict, after its first cell", time.monotonic() - began


def two_visits(
    new_context: Any, steps: Callable[[Any, str, Line], Iterator[Step]], address: str, line: Line
) -> Iterator[tuple[str, int, float]]:
    """What was measured, in which visit (0 or 1), and how much."""
    with new_context() as context:
        context.new_page()  # one that stays: a profile's first takes a second of its own
        for visit in (0, 1):
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            for name, number in steps(page, address, line):
                yield name, visit, number
            page.evaluate(FORGET)
            page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, nargs="?", default=Path("_site"), help="the folder that `make site` made")
    parser.add_argument("--megabits", type=float, default=0, help="of the line, a second; 0 for no limit (default)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    line = Line(given.megabits * 1e6 / 8)
    serving = serve.server(given.site, kind=behind(line))
    address = f"http://127.0.0.1:{serving.server_port}{serve.PREFIX}"
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    found: dict[str, list[list[float]]] = defaultdict(lambda: [[], []])
    try:
        with chrome.browser() as new_context:
            for _ in range(given.rounds):
                for steps in (puzzle, box, cells, exercise):
                    for name, visit, number in two_visits(new_context, steps, address, line):
                        found[name][visit].append(number)
    finally:
        serving.shutdown()
        serving.server_close()
    rate = f"{given.megabits:g} Mbit/s" if given.megabits else "no limit"
    print(f"{machine()}, Chromium, line: {rate}; seconds, medians of {given.rounds}, least and most in brackets")
    print(f"{'':<44} {'first visit':>20} {'second visit':>20}")
    for name, visits in found.items():
        print(f"{name:<44} {between(visits[0], 2):>20} {between(visits[1], 2):>20}")


if __name__ == "__main__":
    main()
