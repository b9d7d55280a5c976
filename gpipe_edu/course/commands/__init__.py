"""What is typed in a terminal to learn: `set_up.py` has `lab`, `copy` and `environment`, `exercises.py` the rest."""

from __future__ import annotations

import typer

from gpipe_edu.base.terminal import PASSED_ON

from . import exercises, set_up


def mount(app: typer.Typer) -> None:
    """Give each command its name. `build`, for those who change the course, is not listed."""
    app.command("lab", context_settings=PASSED_ON)(set_up.run)
    app.command("copy")(set_up.copy)
    app.command("progress")(exercises.progress)
    app.command("check")(exercises.check)
    app.command("watch")(exercises.watch)
    app.command("hint")(exercises.hint)
    app.command("solution")(exercises.solution)
    app.command("script")(exercises.script)
    app.command("reset")(exercises.reset)
    app.command("environment")(set_up.environment)
    app.command("build", hidden=True)(exercises.build)
