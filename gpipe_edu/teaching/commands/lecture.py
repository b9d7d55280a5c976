"""`lecture`: the slides for one lesson, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.teaching.lecture import outline


def run(
    number: Annotated[str, typer.Argument(metavar="LESSON", help="Its number, such as 03.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The HTML file to write.")],
) -> int:
    """Write the slides for a lesson: one file with live charts and votes, which needs no network."""
    with bad_arguments():
        found = outline.read(number)
        if not path.parent.is_dir():
            raise ValueError(f"the folder of {str(path)!r} does not exist; create it first")
        from gpipe_edu.teaching.lecture.slides import html  # it draws, so it is loaded late

        path.write_text(html(found), encoding="utf-8")
    print(f"{path}: {len(found.slides) + 1} slides. Open it in a browser; printed, it is a handout with the answers.")
    return 0
