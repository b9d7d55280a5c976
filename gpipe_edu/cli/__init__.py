"""The command line: `gpipe-edu lab`, or `python -m gpipe_edu lab`, and whatever else its `--help` lists.

Each product mounts its own commands; here are `train` and `schedule`, which run any schedule, and `open`, for what
others have measured. A command is a function whose parameters are its options and whose docstring is its help; what it
returns is the exit code. Bad arguments lead to one sentence on stderr and exit code 2, without a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import typer

from gpipe_edu.base.atomic_write import escape_on_terminals
from gpipe_edu.base.words import program
from gpipe_edu.course import commands as learning
from gpipe_edu.puzzles import command as puzzle
from gpipe_edu.sizing import commands as planning
from gpipe_edu.teaching import commands as teaching

from . import open as opening
from . import schedule, train

_MEANT: Final = {
    "--gpus": "--devices",
    "--gpu": "--machine",
    "--hidden": "--width",
    "--hidden-size": "--width",
    "--num-layers": "--layers",
    "--seq-len": "--context",
    "--seq-length": "--context",
    "--sequence-length": "--context",
    "--vocab-size": "--vocabulary",
    "--batch-size": "--batch",
    "--global-batch-size": "--batch",
    "--tflops": "--speed",
    "--stages": "--partitions",
}
"""What other tools call an option of ours; spelling alone would lead from --gpus to --flags."""

_HELP: Final = "Learn pipeline parallelism: the course in JupyterLab, its exercises, schedules, and the planner."

app = typer.Typer(help=_HELP, no_args_is_help=True, add_completion=False)

for mounted in (learning, puzzle, planning, teaching):
    mounted.mount(app)
app.command("train")(train.run)
app.command("schedule")(schedule.run)
app.command("open")(opening.run)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 for a schedule that cannot run, 2 for bad arguments, 130 after Ctrl-C."""
    escape_on_terminals()
    try:
        code: Any = app(arguments, prog_name=program(), standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message():  # without arguments the help has been printed already
            print(f"error: {_with_our_name(error)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # nobody reads any more, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _with_our_name(error: typer.TyperException) -> str:
    """The error's message; for an option that this command has under another name, it gives that name."""
    words, asked = error.format_message(), getattr(error, "option_name", None)
    context: Any = getattr(error, "ctx", None)
    ours = _MEANT.get(asked) if asked else None
    if ours is None or not any(ours in option.opts for option in context.command.params):
        return words
    return f"No such option: {asked}; here it is {ours}"
