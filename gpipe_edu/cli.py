"""The command line: `gpipe-edu lab`, or `python -m gpipe_edu lab`, and what else its `--help` lists.

`build` and `exercise`, for those who change the course, exist but are not listed. Each command is a function in
`gpipe_edu.command`, whose parameters are its options and whose docstring is its help; what it returns is the exit code.
This file only gives each command its name and reports errors: bad arguments are one sentence on stderr and exit code 2,
without a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import typer

from gpipe_edu.command import (
    calibrate,
    check,
    classroom,
    environment,
    exercise,
    exercises,
    grade,
    lab,
    lecture,
    personal,
    plan,
    platforms,
    puzzle,
    schedule,
    train,
)
from gpipe_edu.course.asking import program
from gpipe_edu.writing import escape_on_terminals

_PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of a command that passes unknown options on to another program."""

_HELP: Final = "Learn pipeline parallelism: the course in JupyterLab, its exercises, schedules, and the planner."

app = typer.Typer(help=_HELP, no_args_is_help=True, add_completion=False)

app.command("lab", context_settings=_PASSED_ON)(lab.run)
app.command("copy")(lab.copy)
app.command("classroom", context_settings=_PASSED_ON)(classroom.run)
app.command("train")(train.run)
app.command("schedule")(schedule.run)
app.command("plan")(plan.run)
app.command("calibrate")(calibrate.run)
app.command("puzzle")(puzzle.run)
app.command("build", hidden=True)(exercises.build)
authors = typer.Typer(help="For those who write exercises.", no_args_is_help=True)
app.add_typer(authors, name="exercise", hidden=True)
authors.command("new")(exercise.new)
authors.command("check")(exercise.check)
app.command("progress")(exercises.progress)
app.command("check")(check.check)
app.command("watch")(check.watch)
app.command("hint")(check.hint)
app.command("solution")(check.solution)
app.command("script")(exercises.script)
app.command("reset")(exercises.reset)
app.command("grade")(grade.run)
app.command("nbgrader")(platforms.nbgrader)
app.command("gradescope")(platforms.gradescope)
app.command("lecture")(lecture.run)
app.command("personal")(personal.run)
app.command("kit")(personal.write_kit)
app.command("quiz")(personal.write_quiz)
app.command("environment")(environment.run)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 for a schedule that cannot run, 2 for bad arguments."""
    escape_on_terminals()
    try:
        code: Any = app(arguments, prog_name=program(), standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message():  # without arguments the help has been printed already
            print(f"error: {error.format_message()}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # nobody reads any more, as behind `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
