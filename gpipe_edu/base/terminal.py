"""What all commands share: bad arguments as one sentence, what an extra installs, a folder that is searched first."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Annotated, Final

import typer

PASSED_ON: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of a command that passes unknown options on to another program."""

Port = Annotated[int, typer.Option(min=0, max=65_535, help="Of the address that is printed.")]


@contextmanager
def bad_arguments() -> Iterator[None]:
    """Around work on what the user typed: its ValueError, TypeError and OSError are the user's to fix."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise typer.TyperException(str(error)) from error
    except OSError as error:
        # An error of the system names a file; ours is a sentence already.
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise typer.TyperException(said) from error


@contextmanager
def needing(extra: str, wanted: str) -> Iterator[None]:
    """Around the imports of what `wanted` needs and the package alone does not: `extra` installs it.

    Raises ValueError that names the module and the command.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        # `python` is another Python where an environment is used without having been activated.
        found = shutil.which("python")
        python = "python" if found and os.path.samefile(found, sys.executable) else sys.executable
        raise ValueError(f'{wanted} needs {error.name}: {python} -m pip install "gpipe_edu[{extra}]"') from error


def put_first(environment: MutableMapping[str, str], name: str, place: str) -> None:
    """Search the folder `place` before those already in the environment variable `name`."""
    environment[name] = os.pathsep.join(filter(None, [place, environment.get(name, "")]))
