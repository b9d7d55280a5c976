"""An installed package has every file that the checkout has."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_every_file_that_is_no_python_is_declared():
    tracked = subprocess.run(["git", "ls-files", "gpipe_edu"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode or not tracked.stdout:
        pytest.skip("this is no git checkout, so there is no list of files to compare with")
    there = {name.removeprefix("gpipe_edu/") for name in tracked.stdout.split() if not name.endswith(".py")}
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["gpipe_edu"]
    found = {str(path.relative_to(ROOT / "gpipe_edu")) for one in patterns for path in (ROOT / "gpipe_edu").glob(one)}
    assert there <= found, there - found
