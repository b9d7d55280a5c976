"""Which rooms of tests a run leaves out: those of which nothing has changed since they passed, and no others."""

import subprocess
from types import SimpleNamespace

import pytest

from tests import unchanged

BROWSER, WEBSITE, BANK, GRADING = "tests/browser", "tests/website", "tests/solutions", "tests/grading"
GPU = "tests/benchmarks"
ROOMS = [BROWSER, WEBSITE, BANK, GRADING, GPU]
EVERY = set(ROOMS)
CHANGES = {
    "gpipe_edu/view/js/pass_on.js": EVERY,
    "gpipe_edu/course/predictions/widget.py": {BROWSER, WEBSITE, BANK},
    "gpipe_edu/schedule/needs.py": EVERY,
    "gpipe_edu/judge/messages.toml": EVERY - {GPU},
    "gpipe_edu/teaching/grading/marking.toml": {BROWSER, BANK, GRADING},
    "gpipe_edu/teaching/grading/feedback_pages.css": {BROWSER, BANK, GRADING},
    "gpipe_edu/sizing/planner.py": EVERY - {GRADING},
    "website/template.html": {WEBSITE},
    "notebooks/03_scheduling.ipynb": {BROWSER, WEBSITE, GPU},
    "lectures/03.toml": {BROWSER, WEBSITE},
    "exercises/exercise_02_clock.ipynb": {WEBSITE, BANK, GRADING},
    "tests/solutions/shares.py": {BANK, GRADING},
    "docs/grading.md": {WEBSITE},
    "README.md": {WEBSITE, GPU},
    "benchmarks/gpu/run.py": {GPU},
    "tests/browser/chrome.py": {BROWSER, WEBSITE},
    "requirements.txt": EVERY,
    "requirements-lab.txt": {WEBSITE, GPU},
    "gpipe_edu/cluster/saving.py": set(),
    "tests/cluster/test_saving.py": set(),
    "tests/test_words.py": set(),
    "tests/unchanged.json": set(),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A clone, to change."""
    subprocess.run(["git", "clone", "-q", "--shared", unchanged.ROOT, tmp_path / "clone"], check=True)
    monkeypatch.setattr(unchanged, "ROOT", tmp_path / "clone")
    monkeypatch.setattr(unchanged, "RECORD", tmp_path / "clone" / "tests" / "unchanged.json")
    unchanged.digest.cache_clear()
    yield tmp_path / "clone"
    unchanged.digest.cache_clear()


def run(project, *args, **options):
    """What pytest knows of a run with these arguments."""
    folder = SimpleNamespace(dir=project)
    known = {"whole": False} | options
    return SimpleNamespace(args=args or (str(project),), invocation_params=folder, getoption=known.get)


def skipped(nodeid, reason):
    return SimpleNamespace(nodeid=nodeid, longrepr=("file", 1, reason))


def test_a_room_runs_again_when_what_it_looks_at_has_changed(project):
    unchanged.record(run(project), [])
    assert unchanged.left_out(run(project)) == ROOMS
    found = {}
    for name in CHANGES:
        path = project / name
        before = path.read_bytes() if path.exists() else b""
        path.write_bytes(before + b"\n")
        unchanged.digest.cache_clear()
        found[name] = EVERY - set(unchanged.left_out(run(project)))
        path.write_bytes(before)
    assert found == CHANGES


def test_a_room_runs_when_somebody_asks_for_it(project):
    unchanged.record(run(project), [])
    assert unchanged.left_out(run(project, whole=True)) == []
    assert unchanged.left_out(run(project, BROWSER)) == []
    assert unchanged.left_out(run(project, BROWSER, "tests")) == [WEBSITE, BANK, GRADING, GPU]
    assert unchanged.left_out(run(project, "tests/browser/test_lab.py::test_one")) == []
    assert unchanged.left_out(run(project, "tests")) == ROOMS


def test_of_a_run_elsewhere_nothing_is_said_or_looked_at(project):
    unchanged.record(run(project), [])
    unchanged.digest.cache_clear()
    elsewhere = run(project, "tests/schedule", "notebooks/03_scheduling.ipynb")
    unchanged.take(elsewhere)
    assert unchanged.left_out(elsewhere) == []
    unchanged.record(elsewhere, [])
    assert unchanged.digest.cache_info().misses == 0


def test_what_is_changed_during_a_run_has_not_passed(project):
    unchanged.take(run(project))
    page = project / "website" / "template.html"
    page.write_bytes(page.read_bytes() + b"\n")
    unchanged.record(run(project), [])
    unchanged.digest.cache_clear()
    assert unchanged.left_out(run(project)) == [BROWSER, BANK, GRADING, GPU]


def test_only_a_run_that_went_through_a_room_is_noted(project):
    unchanged.RECORD.write_text("{}")
    for part in (
        run(project, keyword="lab"),
        run(project, markexpr="not slow"),
        run(project, collectonly=True),
        run(project, splits=5),
        run(project, "tests/browser/test_lab.py"),
    ):
        unchanged.record(part, [])
    assert unchanged.recorded() == {}
    unchanged.record(run(project), [skipped("tests/browser/test_lab.py::test_one", "Skipped: needs Chromium")])
    assert set(unchanged.recorded()) == {WEBSITE, BANK, GRADING, GPU}
    unchanged.RECORD.write_text("{}")
    unchanged.record(
        run(project, WEBSITE), [skipped("tests/website/test_lab.py::test_one", "Skipped: `make site-test`")]
    )
    assert set(unchanged.recorded()) == {WEBSITE}


def test_without_git_all_rooms_run(project, monkeypatch):
    unchanged.record(run(project), [])
    unchanged.digest.cache_clear()
    monkeypatch.setenv("GIT_DIR", str(project / "nothing"))
    assert unchanged.left_out(run(project)) == []


def test_what_narrows_a_run_is_called_as_pytest_calls_it(pytestconfig):
    """Else a run that only counts the tests would have them all left out of the next."""
    ours = [name for name in unchanged.NARROWER if name != "splits"]  # pytest-split's, which the forge alone has
    assert [name for name in ours if hasattr(pytestconfig.option, name)] == ours
