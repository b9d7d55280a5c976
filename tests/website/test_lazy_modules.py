"""What a page's Python leaves out is fetched when it is imported; in CPython, with archives that are written here."""

import importlib
import io
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT, printed
from website import slim
from website.live import lazy_modules

pytestmark = pytest.mark.slow


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """The archives that have been asked for; there is one, and another that the site does not have."""
    monkeypatch.setattr(lazy_modules, "ARCHIVES", {"a.zip": ("left", "kept_package.part"), "b.zip": ("gone",)})
    place = tmp_path / "site-packages"
    (tmp_path / "kept_package").mkdir()
    (tmp_path / "kept_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    found = []

    def fetch(archive):
        found.append(archive)
        if archive == "b.zip":
            raise OSError("404")
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as files:
            files.writestr("left/__init__.py", "")
            files.writestr("left/one.py", "x = 1")
            files.writestr("kept_package/part.py", "y = 2")
        return content.getvalue()

    lazy_modules.fetch_when_imported(fetch)
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] in ("left", "kept_package")]:
        del sys.modules[name]


def test_a_module_is_fetched_with_its_archive_once(asked):
    assert importlib.import_module("left.one").x == 1
    assert importlib.import_module("kept_package.part").y == 2, "though the rest of its package lies elsewhere"
    assert asked == ["a.zip"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("left.two")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("left_handed")
    assert asked == ["a.zip"]


def test_where_it_is_not_to_be_had_a_sentence_says_so(asked):
    with pytest.raises(ImportError, match=r"^gone is fetched when it is imported, and the site did not give it: 404$"):
        importlib.import_module("gone")


@pytest.mark.parametrize(
    ("file", "archive"),
    [
        ("xml/dom/minidom.pyc", "with_plots.zip"),
        ("xmlrpc/client.pyc", "seldom.zip"),
        ("logging/handlers.pyc", "seldom.zip"),
        ("logging/__init__.pyc", ""),
        ("gpipe_edu/sizing/plan.pyc", "with_plots.zip"),
        ("gpipe_edu/teaching/grading/marking.toml", "seldom.zip"),
        ("gpipe_edu/schedule/__init__.py", ""),
        ("csv.pyc", "seldom.zip"),
        ("gpipe_edu/judge/tasks/ex15_bill/check.pyc", "judges.zip"),
        ("gpipe_edu/judge/tasks/ex15_bill/messages.toml", ""),
        ("gpipe_edu/judge/tasks/ex01_splitting/check.pyc", ""),
        ("encodings/__init__.pyc", ""),
        ("encodings/utf_8.pyc", ""),
        ("encodings/cp1252.pyc", "seldom.zip"),
    ],
)
def test_files_go_where_their_modules_are_looked_for(file, archive):
    assert lazy_modules.archive_of(slim.module_of(file)) == archive


def test_a_page_is_given_what_was_compiled_without_its_source(tmp_path):
    wheel = tmp_path / "made.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        for name in (
            "made/__init__.py",
            "made/__pycache__/__init__.cpython-314.pyc",
            "made/words.toml",
            "answers/one.py",
        ):
            files.writestr(name, name)
    kept = slim._kept(wheel, {name: [] for name in lazy_modules.ARCHIVES})
    assert {entry.filename: content.decode() for entry, content in kept} == {
        "made/__init__.pyc": "made/__pycache__/__init__.cpython-314.pyc",
        "made/words.toml": "made/words.toml",
        "answers/one.py": "answers/one.py",
    }


def test_every_module_of_a_judge_that_is_left_out_exists():
    """A name that is misspelled would be fetched at once, and nobody would see it."""
    for module in lazy_modules.ARCHIVES["judges.zip"]:
        assert (Path(ROOT) / f"{module.replace('.', '/')}.py").is_file()


WHAT_A_PAGE_IMPORTS = """
import sys
from website.live.lazy_modules import archive_of
for name in [name for name in sys.modules if archive_of(name) and not name.startswith("encodings")]:
    del sys.modules[name]
class Asked:
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while "<frozen importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if archive_of(name):
            print(name, "for", frame.f_code.co_filename)
sys.meta_path.insert(0, Asked())
import website.live.host, website.live.run_cells
from gpipe_edu.course import check, predict
import WATCHED
"""


def test_nothing_of_ours_fetches_what_is_left_out_before_the_first_result():
    """What Python's and NumPy's own modules import here may differ in a browser: tests with --whole-site weigh all."""
    watched = "pstats"  # left out, and imported by nobody else here
    asked = printed(WHAT_A_PAGE_IMPORTS.replace("WATCHED", watched)).splitlines()
    assert f"{watched} for <string>" in asked, "the watch sees none"
    assert [line for line in asked if line.partition(" for ")[2].startswith(ROOT) and ".venv" not in line] == []
