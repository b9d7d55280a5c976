"""What is typed in a terminal to learn: the course in JupyterLab, checks, hints, progress."""

from __future__ import annotations

import typer

from gpipe_edu.base.terminal import PASSED_ON

from . import check, lab


def mount(app: typer.Typer) -> None:
    """Give each command its name. `build`, for those who change the course, is not listed."""
    app.command("lab", context_settings=PASSED_ON)(lab.run)
    app.command("copy")(lab.copy)
    app.command("progress")(check.progress)
    app.command("check")(check.check)
    app.command("watch")(check.watch)
    app.command("hint")(check.hint)
    app.command("solution")(check.solution)
    app.command("script")(check.script)
    app.command("reset")(check.reset)
    app.command("environment")(lab.environment)
    app.command("build", hidden=True)(check.build)
