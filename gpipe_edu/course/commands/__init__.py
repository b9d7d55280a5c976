"""What is typed in a terminal to learn: the course in JupyterLab, checks, hints, progress."""

from __future__ import annotations

from typing import Final

import typer

from . import check, environment, exercises, lab

_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of a command that passes unknown options on to another program."""


def mount(app: typer.Typer) -> None:
    """Give each command its name. `build`, for those who change the course, is not listed."""
    app.command("lab", context_settings=_PASSED_ON)(lab.run)
    app.command("copy")(lab.copy)
    app.command("progress")(exercises.progress)
    app.command("check")(check.check)
    app.command("watch")(check.watch)
    app.command("hint")(check.hint)
    app.command("solution")(check.solution)
    app.command("script")(exercises.script)
    app.command("reset")(exercises.reset)
    app.command("environment")(environment.run)
    app.command("build", hidden=True)(exercises.build)
