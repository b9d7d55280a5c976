"""What is built is kept until something whole takes its place."""

import re
from pathlib import Path

import nbformat
import pytest

from website import __main__, pages, run_notebooks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def out(tmp_path):
    place = tmp_path / "_site"
    place.mkdir()
    (place / "index.html").write_text("yesterday's")
    return place


def test_a_build_that_fails_leaves_the_site_as_it_was(monkeypatch, out):
    def fails(root, new, only, with_lab):
        new.mkdir()
        (new / "index.html").write_text("half")
        raise RuntimeError("a cell took too long")

    monkeypatch.setattr(pages, "build", fails)
    with pytest.raises(RuntimeError, match="too long"):
        __main__.build(out, with_lab=False)
    assert (out / "index.html").read_text() == "yesterday's"
    assert list(out.parent.iterdir()) == [out], "nothing else is left"


def test_a_new_site_takes_the_place_of_the_old_one(monkeypatch, out):
    def writes(root, new, only, with_lab):
        new.mkdir()
        (new / "puzzle.html").write_text("today's")

    monkeypatch.setattr(pages, "build", writes)
    __main__.build(out, with_lab=False)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("puzzle.html", "today's")]
    assert list(out.parent.iterdir()) == [out]


def test_a_build_that_is_started_again_goes_on_where_it_stopped(monkeypatch, tmp_path):
    ran, broken = [], {"b.ipynb"}

    def runs(root, path, folder):
        ran.append(path.name)
        if path.name in broken:
            raise RuntimeError("a cell took too long")
        nbformat.write(nbformat.v4.new_notebook(), folder / "notebook.ipynb")

    monkeypatch.setattr(run_notebooks, "CACHE", tmp_path / "cache" / "fetched")
    monkeypatch.setattr(run_notebooks, "_run", runs)
    monkeypatch.setattr(run_notebooks, "_cells_that_need_pytorch", lambda *_: [])
    monkeypatch.setattr(run_notebooks, "_digest", lambda root, path, more: "same")

    def build():
        for name in ("a.ipynb", "b.ipynb"):
            run_notebooks.execute(tmp_path, tmp_path / name, tmp_path)

    with pytest.raises(RuntimeError, match="too long"):
        build()
    broken.clear()
    build()
    build()
    assert ran == ["a.ipynb", "b.ipynb", "b.ipynb"]


def test_what_every_page_links_to_on_the_front_is_there():
    sources = {at: pages._page_of(at) for at in pages._sources(ROOT)}
    front = pages._front((ROOT / pages.COURSE).read_text(encoding="utf-8"), sources)
    anchors = re.findall(r"index\.html#([\w-]+)", (ROOT / "website/template.html").read_text(encoding="utf-8"))
    assert anchors
    assert set(anchors) <= set(re.findall(r'id="([\w-]+)"', front))
