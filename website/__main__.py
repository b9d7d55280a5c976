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
    """The whole site in the folder `out`, where an earlier one stands until this one is whole; `only`: as for
    `pages.build`. What has run meanwhile need not run again (`run_notebooks`)."""
    with tempfile.TemporaryDirectory(prefix=f"{out.name}-", dir=out.parent) as place:  # where a rename will do
        new = Path(place, "site")
        pages.build(ROOT, new, only, with_lab)
        if with_lab:
            work = Path(place, "work")
            work.mkdir()
            lab.build(ROOT, new / "lab", work)
            slim.write(new / in_page.PYODIDE)
        shutil.rmtree(out, ignore_errors=True)
        new.rename(out)


if __name__ == "__main__":
    main()
