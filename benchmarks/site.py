"""The site in a real browser: from opening it to a chart that moves, and to a schedule of one's own that has run.

Why: people who only want to see what this is about leave after seconds, so seconds and bytes are counted, each time
with a browser that has never been there, and once more with the same one.

    make site && python -m benchmarks.site          # needs Chromium; about five minutes

Seconds of the processor are those of the browser, the file server and this script together.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from collections import defaultdict
from pathlib import Path

from benchmarks.measuring import between, machine
from tests.browser import chrome
from tests.website.visit import Visit, move_the_explorer, open_notebook, run_a_schedule_of_ones_own
from website import serve

ROUNDS = 5
LESSON = "notebooks/00_start_here.ipynb"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, nargs="?", default=Path("_site"), help="the folder that `make site` made")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    server = serve.server(given.site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    try:
        for _ in range(given.rounds):
            for what, numbers in one_round(f"http://127.0.0.1:{server.server_port}{serve.PREFIX}"):
                found[what].append(numbers)
    finally:
        server.shutdown()
        server.server_close()
    print(f"{machine()}, Chromium, server on the same machine; medians of {given.rounds}, least and most in brackets")
    print(f"{'':<42} {'seconds':>20} {'of the processor':>20} {'MB':>6}")
    for what, rows in found.items():
        seconds, processor, megabytes = zip(*rows, strict=True)
        print(f"{what:<42} {between(seconds):>20} {between(processor):>20} {statistics.median(megabytes):>6.1f}")


def one_round(address: str) -> list[tuple[str, tuple[float, float, float]]]:
    """What happened, and (seconds, seconds of the processor, MB) from opening to then."""
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        chrome.browser(profile=Path(folder)) as new_context,
        chrome.pages(new_context) as open_page,
    ):
        page = open_page(1366, 768)
        for name in ("first", "second"):
            visit = Visit(page)
            move_the_explorer(page, address)
            rows.append((f"page, {name} visit: chart moves", _numbers(visit)))
        for name in ("first", "second"):
            visit = Visit(page)
            open_notebook(page, f"{address}lab/lab/index.html", LESSON)
            rows.append((f"lab, {name} visit: kernel ready", _numbers(visit)))
            run_a_schedule_of_ones_own(page)
            rows.append((f"lab, {name} visit: own schedule drawn", _numbers(visit)))
    return rows


def _numbers(visit: Visit) -> tuple[float, float, float]:
    return visit.seconds(), visit.processor(), visit.megabytes()


if __name__ == "__main__":
    main()
