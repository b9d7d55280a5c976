"""What is built is kept until something whole takes its place."""

import pytest

from website import __main__, pages


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
