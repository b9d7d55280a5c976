"""Copies for Colab and Kaggle, opened alone and without the course: they install it and run; links go to the site."""

import json
import os
import re
import subprocess
import sys
import threading
import venv
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager

from tests import kernels
from tests.website.conftest import ROOT
from website import colab_kaggle, markdown, pages

pytestmark = pytest.mark.slow

PAGES = {at: pages._page_of(at) for at in pages._sources(ROOT)}
NOTEBOOKS = [at for at in PAGES if at.endswith(".ipynb")]
SITE = "https://somebody.github.io/pipelines"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of a site with the copies, and its folder."""
    folder = tmp_path_factory.mktemp("site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    colab_kaggle.write(ROOT, folder / colab_kaggle.FOLDER, address, PAGES)
    yield address, folder / colab_kaggle.FOLDER
    server.shutdown()
    server.server_close()


@pytest.fixture
def bare(tmp_path):
    """A Python with Jupyter, NumPy and the like, as such machines have, and nothing of the course."""
    python = tmp_path / "env" / "bin" / "python"
    venv.create(tmp_path / "env", symlinks=True, with_pip=True)
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    here, there = (subprocess.check_output([one, "-c", purelib], text=True).strip() for one in (sys.executable, python))
    Path(there, "behind.pth").write_text(here)  # what is named in there is not read, such as the course of this clone
    spec = tmp_path / "jupyter" / "kernels" / "bare" / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": "bare", "language": "python"}))
    return python, spec.parent.parent


def run(path, specs, folder):
    """The notebook, run in an empty folder by the bare kernel."""
    notebook = nbformat.read(path, as_version=4)
    client = kernels.client(notebook, kernel_name="bare", resources={"metadata": {"path": str(folder)}})
    client.km = client.create_kernel_manager()
    client.km.kernel_spec_manager = KernelSpecManager(kernel_dirs=[str(specs)])
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MPLBACKEND")}
    client.execute(env=inherited | {"OMP_NUM_THREADS": "1"}, reset_kc=True)
    return notebook


def test_a_lesson_installs_the_course_quietly_and_runs_alone_and_a_second_time_installs_nothing(site, bare, tmp_path):
    _, folder = site
    python, specs = bare
    found = [python, "-c", "import gpipe_edu; print(gpipe_edu.__file__)"]
    assert subprocess.run(found, cwd=tmp_path, capture_output=True, check=False).returncode, "nothing of it is there"
    (tmp_path / "empty").mkdir()
    [wheel] = folder.glob("*.whl")
    for there in (True, False):
        notebook = run(folder / "notebooks" / "00_start_here.ipynb", specs, tmp_path / "empty")
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert first.id == colab_kaggle.CELL
        assert first.outputs == [], "quiet"
        assert wheel.exists() == there
        if there:
            wheel.rename(tmp_path / wheel.name)  # from now on nothing can be installed
    (tmp_path / wheel.name).rename(wheel)
    assert str(tmp_path / "env") in subprocess.run(found, cwd=tmp_path, capture_output=True, text=True).stdout


@pytest.mark.parametrize("at", NOTEBOOKS)
def test_its_links_lead_to_the_site_and_all_else_is_as_it_was(at):
    source = json.loads((ROOT / at).read_text(encoding="utf-8"))
    copy = colab_kaggle.copy_of(json.loads((ROOT / at).read_text(encoding="utf-8")), at, SITE, f"{SITE}/w.whl", PAGES)
    nbformat.validate(nbformat.from_dict(copy))
    added = copy["cells"].pop(1)
    assert added["id"] == colab_kaggle.CELL
    assert "".join(added["source"]).count("pip install") == 1
    of_page = {page: file for file, page in PAGES.items()}
    for theirs, ours in zip(copy["cells"], source["cells"], strict=True):
        theirs, ours = "".join(theirs["source"]), "".join(ours["source"])
        links = re.findall(r"\]\(([^)\s]+)", theirs)
        assert re.sub(r"\]\([^)\s]+", "](", theirs) == re.sub(r"\]\([^)\s]+", "](", ours)
        for link in links if theirs != ours else ():
            page, _, anchor = link.removeprefix(f"{SITE}/").partition("#")
            assert link.startswith(f"{SITE}/"), link
            file = ROOT / of_page.get(page, page)
            assert file.exists(), link
            assert not anchor or anchor in anchors(file), link
        assert not re.search(r"\]\((?!https://)", theirs) or theirs == ours


def anchors(page):
    return {markdown.slug(one) for one in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)}


def test_each_page_has_two_ways_to_open_its_copy_where_its_repository_builds_it(monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert colab_kaggle.links(NOTEBOOKS[0]) == ""
    monkeypatch.setenv("GITHUB_REPOSITORY", "Somebody/pipelines")
    for at in NOTEBOOKS:
        there = f"Somebody/pipelines/blob/hosted/{at}"
        assert re.findall(r'href="([^"]+)"', colab_kaggle.links(at)) == [
            f"https://colab.research.google.com/github/{there}",
            f"https://www.kaggle.com/kernels/welcome?src=https://github.com/{there}",
        ]
    assert colab_kaggle.site(colab_kaggle.repository()) == SITE
    assert colab_kaggle.site("somebody/somebody.github.io") == "https://somebody.github.io"


def test_the_workflow_puts_the_copies_on_the_branch_that_is_opened():
    workflow = (ROOT / ".github" / "workflows" / "pages.yml").read_text(encoding="utf-8")
    assert f"cd _site/{colab_kaggle.FOLDER}\n" in workflow
    assert f"HEAD:refs/heads/{colab_kaggle.FOLDER}" in workflow
    assert "contents: write" in workflow
