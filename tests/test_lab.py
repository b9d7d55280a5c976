"""`make lab` serves a copy of the course: JupyterLab is started as the Makefile starts it, asked, and stopped."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.processes import PATIENCE

from .browser import servers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def command_of_make_lab():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlab:")[2].partition("\n\n")[0]
    words = next(shlex.split(line) for line in recipe.splitlines() if " lab " in line)
    assert words[0].endswith("/python")
    assert words[-2:] == ["--port", "$(PORT)"]
    return words[2:-2]


def test_the_first_notebook_is_served_and_its_address_is_printed(tmp_path):
    command = [*command_of_make_lab(), "--folder", str(tmp_path / "work")]
    with servers.lab(tmp_path, command) as (address, log):

        def ask(path):
            with urllib.request.urlopen(f"{address}{path}?token={servers.TOKEN}") as answer:
                assert answer.status == 200
                return answer.read()

        notebook = json.loads(ask("/api/contents/notebooks/00_start_here.ipynb"))
        assert notebook["type"] == "notebook"
        assert notebook["content"]["cells"][0]["source"].startswith("# Start here")
        ask("/lab/tree/notebooks/00_start_here.ipynb")
        for plugin, name, expected in (
            ("@jupyter-widgets/jupyterlab-manager:plugin", "saveState", True),
            ("@jupyterlab/apputils-extension:notification", "fetchNews", "false"),
        ):
            settings = json.loads(ask(f"/lab/api/settings/{plugin}"))
            assert settings["schema"]["properties"][name]["default"] == expected
        printed = log.read_text()
    assert re.search(rf"{address}\S*/notebooks/00_start_here.ipynb", printed), printed


def test_the_package_without_the_course_says_where_lessons_come_from(tmp_path):
    """As it is after `pip install`: no folder of lessons beside it."""
    shutil.copytree(ROOT / "gpipe_edu", tmp_path / "gpipe_edu", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "gpipe_edu", "lab"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TERMINAL_WIDTH": "1000"}
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert said.returncode == 2
    assert said.stdout == ""
    sentence = "lessons come with the course's repository, not with the package; clone it and run there: make lab"
    assert said.stderr.strip().endswith(f"the folder notebooks/ is not in {tmp_path}: {sentence}"), said.stderr
    assert not (tmp_path / "work").exists()
