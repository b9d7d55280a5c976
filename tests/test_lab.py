"""`make lab` serves a copy of the course: JupyterLab is started as the Makefile starts it, asked, and stopped."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.processes import PATIENCE

from . import ports

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def command_of_make_lab(port, folder):
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlab:")[2].partition("\n\n")[0]
    line = next(line for line in recipe.splitlines() if " lab " in line)
    words = shlex.split(line.strip().removeprefix("@").replace("$(PORT)", str(port)))
    assert words[0].endswith("/python")
    return [sys.executable, *words[1:], "--folder", str(folder)]


@pytest.fixture
def server(tmp_path):
    """The address of a running JupyterLab whose settings and caches are in a temporary folder."""
    port, token = ports.free(), "course"
    folders = {
        name: str(tmp_path / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")
    }
    extra = ["--no-browser", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [*command_of_make_lab(port, tmp_path / "work"), *extra],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **folders},
        stdout=log,
        stderr=log,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status?token={token}", timeout=5)
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        else:
            pytest.fail((tmp_path / "log").read_text())
        yield f"http://127.0.0.1:{port}", token, tmp_path / "log"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def test_the_first_notebook_is_served_and_its_address_is_printed(server):
    address, token, log = server
    with urllib.request.urlopen(f"{address}/api/contents/notebooks/00_start_here.ipynb?token={token}") as answer:
        notebook = json.load(answer)
    assert notebook["type"] == "notebook"
    assert notebook["content"]["cells"][0]["source"].startswith("# Start here")
    with urllib.request.urlopen(f"{address}/lab/tree/notebooks/00_start_here.ipynb?token={token}") as page:
        assert page.status == 200
    for plugin, name, expected in (
        ("@jupyter-widgets/jupyterlab-manager:plugin", "saveState", True),
        ("@jupyterlab/apputils-extension:notification", "fetchNews", "false"),
    ):
        with urllib.request.urlopen(f"{address}/lab/api/settings/{plugin}?token={token}") as answer:
            assert json.load(answer)["schema"]["properties"][name]["default"] == expected
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
