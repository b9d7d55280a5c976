"""The course where there is no `lab`: a copy alone, and what files for containers say that there is."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import typer

from gpipe_edu.cli import app
from gpipe_edu.course.commands import set_up
from tests import processes

ROOT = Path(processes.ROOT)
COMMANDS = typer.main.get_command(app).commands


def test_a_copy_is_made_and_brought_up_to_date_and_what_was_changed_is_left_alone(tmp_path, capsys):
    folder = tmp_path / "course"
    first = folder / "notebooks" / "00_start_here.ipynb"
    assert set_up.copy(folder) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"The course was copied into {folder}/: work there, it is yours.",
        f"Begin with {first}.",
    ]
    assert first.read_bytes() == (ROOT / "notebooks" / first.name).read_bytes()
    first.write_text("mine")
    assert set_up.copy(folder) == 0
    assert capsys.readouterr().out == f"Begin with {first}.\n"
    assert first.read_text() == "mine"


def called(text):
    """The commands of ours that a file calls, with their options."""
    return re.findall(r"(?:gpipe-edu|-m gpipe_edu) (\w+)((?: --\w+)*)", text)


@pytest.mark.parametrize("name", [".devcontainer/devcontainer.json", ".binder/Dockerfile", "docs/editors_and_hubs.md"])
def test_what_files_for_other_places_call_is_there(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert called(text)
    for command, options in called(text):
        known = {option for one in COMMANDS[command].params for option in one.opts}
        assert set(options.split()) <= known
    for target in re.findall(r"make (\S+)", text):
        assert f"\n{target.replace('.venv', '$(VENV)')}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for named in re.findall(r"gpipe_edu\[([\w,]+)\]", text):
        assert set(named.split(",")) <= set(extras)


def test_the_development_container_uses_the_environment_that_make_makes():
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    python = found["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python == "${workspaceFolder}/.venv/bin/python"
    assert "\nVENV := .venv\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_image_for_a_hub_has_jupyter_s_settings_of_the_course():
    text = (ROOT / ".binder" / "Dockerfile").read_text(encoding="utf-8")
    for folder, place in (("jupyter", "etc"), ("jupyter_data", "share")):
        assert f'files("gpipe_edu.course") / "{folder}")\')/." /usr/local/{place}/jupyter/' in text
    assert list((ROOT / "gpipe_edu" / "course" / "jupyter" / "labconfig").glob("*.json"))
    assert list((ROOT / "gpipe_edu" / "course" / "jupyter_data" / "labextensions").glob("*/static/*.js"))
