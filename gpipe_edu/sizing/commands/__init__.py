"""The planner in a terminal."""

from __future__ import annotations

import typer

from . import calibrate, plan


def mount(app: typer.Typer) -> None:
    """Give each command its name."""
    app.command("plan")(plan.run)
    app.command("calibrate")(calibrate.run)
