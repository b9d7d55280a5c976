"""What is typed in a terminal to teach, and to write exercises."""

from __future__ import annotations

import typer

from gpipe_edu.base.terminal import PASSED_ON
from gpipe_edu.teaching.authoring import command

from . import grade, handouts, in_class, platforms


def mount(app: typer.Typer) -> None:
    """Give each command its name. `exercise`, for those who change the course, is not listed."""
    app.command("classroom", context_settings=PASSED_ON)(in_class.classroom)
    app.command("grade")(grade.run)
    app.command("nbgrader")(platforms.nbgrader)
    app.command("gradescope")(platforms.gradescope)
    app.command("lecture")(in_class.lecture)
    app.command("personal")(handouts.run)
    app.command("kit")(handouts.write_kit)
    app.command("quiz")(handouts.write_quiz)
    authors = typer.Typer(help="For those who write exercises.", no_args_is_help=True)
    app.add_typer(authors, name="exercise", hidden=True)
    authors.command("new")(command.new)
    authors.command("check")(command.check)
