"""Where the machine is deleted after the session, learners are told before the first answer, and how to keep theirs."""

from __future__ import annotations

from typing import Final

from gpipe_edu.base import store

from . import frontend, output

_TO_KEEP: Final = {
    "Colab": "mount your Drive (Files > Mount Drive) before you begin; answers are then kept in it, in `gpipe_edu/`",
    "Kaggle": "set Settings > Persistence to files and run `%env GPIPE_EDU_HOME=/kaggle/working/gpipe_edu` before you "
    "begin",
}


def warning() -> str:
    """What a learner has to know, as Markdown; "" where answers are kept."""
    if not store.is_deleted_soon():
        return ""
    host = store.hosted_by()
    return (
        f"**Your answers and progress last as long as this session:** {host} deletes the machine behind it. To keep "
        f"them, {_TO_KEEP[host]}."
    )


def warn_of_deletion() -> None:
    """Show the warning, in a notebook."""
    if frontend.current() and (said := warning()):
        output.show(said)
