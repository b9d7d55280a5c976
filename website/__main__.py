"""`python -m website build`, `python -m website serve`: what `make site` and `make site-serve` call."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import in_page, lab, pages, serve, slim

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Build the site or serve it."""
    parser = argparse.ArgumentParser(prog="python -m website", description=__doc__)
    parser.add_argument("what", choices=["build", "serve"])
    parser.add_argument("--out", type=Path, default=ROOT / "_site", help="the folder of the site (default: _site)")
    parser.add_argument("--without-lab", action="store_true", help="pages alone: nothing is fetched")
    parser.add_argument("--only", nargs="*", default=[], help="these notebooks, such as 00_start_here")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    if given.what == "serve":
        found = serve.server(given.out, given.port)
        print(f"http://127.0.0.1:{found.server_port}{serve.PREFIX}", flush=True)
        found.serve_forever()
        return
    build(given.out, given.only, not given.without_lab)
    print(f"the site is in {given.out}")


def build(out: Path, only: Sequence[str] = (), with_lab: bool = True) -> None:
    """The whole site in a new folder `out`; `only`: as for `pages.build`."""
    shutil.rmtree(out, ignore_errors=True)
    pages.build(ROOT, out, only, with_lab)
    if with_lab:
        with tempfile.TemporaryDirectory() as work:
            lab.build(ROOT, out / "lab", Path(work))
        slim.write(out / in_page.PYODIDE)


if __name__ == "__main__":
    main()
