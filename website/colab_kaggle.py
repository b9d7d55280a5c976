"""Copies of lessons and exercises for Colab and Kaggle, where the course is not installed and a notebook is alone.

A copy has one more cell, which installs the course as it is here, and its links lead to the site. The notebooks have
neither: those who have the course need no such cell, and where it can be installed from is known only when its
repository's GitHub Actions build the site. Colab opens notebooks from a branch, so .github/workflows/pages.yml makes
one of the copies.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from html import escape
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any, Final

from .markdown import address

FOLDER: Final = "hosted"
"""Where the copies are on the site, and the name of their branch, which Colab and Kaggle open."""

CELL: Final = "install-the-course"
"""The id of the cell that is only in a copy."""

INSTALL: Final = """\
#@title Run this first: it installs the course, unless it is there (10 seconds)
import importlib.util, sys

if not importlib.util.find_spec("gpipe_edu"):  # on Kaggle, turn the internet on first: Settings > Turn on internet
    !{{sys.executable}} -m pip install -q anywidget "{wheel}"
"""
"""Not the extra [notebooks], which would replace the running Jupyter. anywidget makes Colab show widgets."""

WITH_GPU: Final = ("06_pytorch_pipeline",)
"""Colab opens these on a machine with a GPU."""

_BUILT_FROM: Final = ("gpipe_edu", "notebooks", "exercises", "solutions", "docs", "lectures")
_LINK: Final = re.compile(r"\]\((?P<target>[^)\s]+)(?P<title>(?: \"[^\"]*\")?)\)")


def repository() -> str:
    """The repository whose GitHub Actions build the site, "owner/name"; "" where nobody publishes it."""
    return os.environ.get("GITHUB_REPOSITORY", "")


def site(repository: str) -> str:
    """Where GitHub Pages serves the site of a repository."""
    owner, name = repository.split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}" if name.lower() == host else f"https://{host}/{name}"


def links(at: str) -> str:
    """What opens the copy of the notebook `at` in Colab and on Kaggle; "" where nobody publishes it."""
    if not repository():
        return ""
    there = f"{repository()}/blob/{FOLDER}/{at}"
    opened = {
        "Colab": f"https://colab.research.google.com/github/{there}",
        "Kaggle": f"https://www.kaggle.com/kernels/welcome?src=https://github.com/{there}",
    }
    return "".join(f' <a class="button quiet" href="{escape(to)}">Open in {name}</a>' for name, to in opened.items())


def write(root: Path, out: Path, site: str, pages: Mapping[str, str]) -> None:
    """Write the copies and the wheel that they install into `out`. pages: file -> page, as for the site."""
    out.mkdir(parents=True, exist_ok=True)
    wheel = f"{site}/{FOLDER}/{build_wheel(root, out).name}"
    for at in (at for at in pages if at.endswith(".ipynb")):
        notebook = copy_of(json.loads((root / at).read_text(encoding="utf-8")), at, site, wheel, pages)
        (out / at).parent.mkdir(exist_ok=True)
        (out / at).write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def copy_of(notebook: dict[str, Any], at: str, site: str, wheel: str, pages: Mapping[str, str]) -> dict[str, Any]:
    """The copy of a notebook: after its title the cell that installs `wheel`, and links to the site."""
    here = dirname(pages[at])

    def lead_to_site(link: re.Match[str]) -> str:
        to = address(link["target"], at, dict(pages))
        return f"]({to if '://' in to else f'{site}/{normpath(join(here, to))}'}{link['title']})"

    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(lead_to_site, "".join(cell["source"])).splitlines(keepends=True)
    install = {
        "cell_type": "code",
        "id": CELL,
        "metadata": {"cellView": "form"},  # Colab shows only the title
        "execution_count": None,
        "outputs": [],
        "source": INSTALL.format(wheel=wheel).rstrip().splitlines(keepends=True),
    }
    notebook["cells"].insert(1, install)
    if Path(at).stem in WITH_GPU:
        notebook["metadata"]["accelerator"] = "GPU"
    return notebook


def build_wheel(root: Path, out: Path) -> Path:
    """The wheel as it would be released, built elsewhere, so that nothing from an earlier build gets into it."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _BUILT_FROM:
            shutil.copytree(root / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(root / name, folder)
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", folder]
        made = subprocess.run(build, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"the wheel could not be built: {made.stdout[-2000:]}{made.stderr[-2000:]}")
        [wheel] = Path(folder, "dist").glob("*.whl")
        return Path(shutil.copy(wheel, out))
