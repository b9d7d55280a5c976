"""The interactive chart in a real JupyterLab and Chromium: from a key press to the repaint.

Why: a chart that lags behind the hand is not explored. A key on a control goes to the kernel, which checks, simulates
and answers, and the page draws; a key on the time scrubber never leaves the page.

    python -m benchmarks.widget            # needs Chromium and requirements-dev.txt; about two minutes

The clock runs in the page: from the key's event to the first message after the animation frame that follows the change
of the chart. A browser delivers messages after it has painted the frame. Frames are not held back for the 60 Hz of a
display, which would add its own 0 to 17 ms.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import machine, spread
from tests.browser import chrome, servers

PRESSES = 30
UNLIMITED = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
SIZES = ((4, 8), (16, 64), (64, 256))
TARGETS = {
    ("control", 4, 8): 50,
    ("control", 16, 64): 60,
    ("scrub", 4, 8): 15,
    ("scrub", 16, 64): 15,
    ("scrub", 64, 256): 50,
}

WATCH = """
([control, shown]) => {
    const [from, to] = [document.querySelector(control), document.querySelector(shown)];
    window.found = [];
    let began = null;
    from.addEventListener('keydown', () => { began = performance.now(); }, true);
    new MutationObserver(() => {
        const start = began;
        began = null;
        if (start === null) return;
        requestAnimationFrame(() => {
            const {port1, port2} = new MessageChannel();
            port1.onmessage = () => window.found.push(performance.now() - start);
            port2.postMessage(null);
        });
    }).observe(to, {childList: true, subtree: true, attributes: true, characterData: true});
    from.focus();
}
"""
WAYS = {
    "control": ('.ge-controls input[type="range"][data-name="M"]', ".ge-base"),
    "scrub": (".ge-scrub", ".ge-cursor"),
}


def measure(page: Any, way: str) -> list[float]:
    """Milliseconds of each key press."""
    page.evaluate(WATCH, list(WAYS[way]))
    for press in range(PRESSES):
        page.keyboard.press("ArrowLeft" if press % 2 == 0 else "ArrowRight")
        page.wait_for_function("count => window.found.length > count", arg=press, polling=20)
    found: list[float] = page.evaluate("() => window.found")
    return found


def opening(page: Any, address: str, name: str) -> float:
    """Milliseconds from running the cell to the picture."""
    chrome.run_all(page, address, name)
    page.wait_for_selector(".ge-base *", state="attached")
    began = time.perf_counter()
    page.evaluate(
        """async () => {
            document.querySelectorAll('.ge-base').forEach(part => part.remove());
            await window.jupyterapp.commands.execute('notebook:run-all-cells');
        }"""
    )
    page.wait_for_selector(".ge-base *", state="attached")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        for K, M in SIZES:
            servers.notebook(folder, f"{K}x{M}", f"import gpipe_edu as ge\nge.gantt(ge.gpipe({K}, {M}))")
        print(f"{machine()}, JupyterLab in Chromium; ms: median (IQR) of {PRESSES} key presses")
        print(f"{'':<10} {'K':>4} {'M':>4} {'ms':>20} {'target':>8}")
        with (
            servers.jupyter(folder) as address,
            chrome.browser(*UNLIMITED) as new_context,
            chrome.pages(new_context) as open_page,
        ):
            page = open_page()
            for K, M in SIZES:
                opened = opening(page, address, f"{K}x{M}")
                print(f"{'opens':<10} {K:>4} {M:>4} {opened:>20.0f} {3000 if K == 64 else '':>8}", flush=True)
                for way in WAYS:
                    found = measure(page, way)
                    print(f"{way:<10} {K:>4} {M:>4} {spread(found):>20} {TARGETS.get((way, K, M), ''):>8}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
