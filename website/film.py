"""`python -m website.film`: the README's moving picture, filmed in Chromium: the explorer, played, light and dark.

Run it again when charts look different; the file is an animated WebP, a fifth of the size of a GIF.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

import gpipe_edu as ge

PICTURES: Final = Path(__file__).resolve().parent / "pictures"
OUT: Final[tuple[tuple[Literal["light", "dark"], str], ...]] = (
    ("light", "explorer.webp"),
    ("dark", "explorer-dark.webp"),
)
SIZE: Final[ViewportSize] = {"width": 900, "height": 476}  # down to the axis
BLINK: Final = 90
LOOK: Final = 1600
"""Milliseconds that a picture stays: in a movement, and at its end."""


def film(page: Page) -> Iterator[tuple[bytes, int]]:
    """The pictures of one showing, each with how long it stays."""
    yield from _play(page, 14)
    for schedule in ("1f1b", "zero_bubble"):
        page.select_option('[data-name="schedule"]', schedule)
        yield from _play(page, 14)


def _play(page: Page, steps: int) -> Iterator[tuple[bytes, int]]:
    """Scrub from the start of the step to its end."""
    scrub = page.locator(".ge-scrub")
    end = float(scrub.get_attribute("max") or 0)
    for number in range(steps + 1):
        scrub.evaluate(
            "(box, value) => { box.value = value; box.dispatchEvent(new Event('input', { bubbles: true })); }",
            end * number / steps,
        )
        page.wait_for_timeout(60)
        yield page.screenshot(), LOOK if number in (0, steps) else BLINK


def save(pictures: Iterator[tuple[bytes, int]], path: Path) -> None:
    """As one file that begins again at its end."""
    found = [(Image.open(io.BytesIO(data)).convert("RGB"), stays) for data, stays in pictures]
    (first, _), *others = found
    options: dict[str, Any] = {"duration": [stays for _, stays in found], "loop": 0, "quality": 60, "method": 6}
    first.save(path, save_all=True, append_images=[picture for picture, _ in others], **options)


def main() -> None:
    """Film it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        html = Path(folder) / "explorer.html"
        ge.gantt(ge.gpipe(4, 8)).to_html(html)
        with driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"]) as browser:
            for scheme, name in OUT:
                page = browser.new_page(viewport=SIZE, color_scheme=scheme)
                page.goto(html.as_uri())
                page.wait_for_selector(".ge-base rect", state="attached")
                save(film(page), PICTURES / name)
                print(f"{name}: {(PICTURES / name).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
