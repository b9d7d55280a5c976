"""A learner's copy follows the course where nothing was changed, and what was changed is never lost."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpipe_edu.course.building import build, workspace

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def root(tmp_path):
    for name in ("notebooks/00.ipynb", "exercises/exercise_01.ipynb", "docs/glossary.md", "docs/pictures/a.svg"):
        path = tmp_path / "course" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"first {name}")
    (tmp_path / "course/notebooks/.ipynb_checkpoints").mkdir()
    (tmp_path / "course/notebooks/.ipynb_checkpoints/00.ipynb").write_text("")
    return tmp_path / "course"


def copy(root):
    to = root / "work"
    return {one.path.relative_to(to).as_posix(): one.what for one in workspace.copy(to, root)}


def test_the_first_copy_has_everything_and_the_second_changes_nothing(root):
    first = copy(root)
    assert set(first) == {
        "notebooks/00.ipynb",
        "exercises/exercise_01.ipynb",
        "docs/glossary.md",
        "docs/pictures/a.svg",
    }
    assert set(first.values()) == {"new"}
    assert set(copy(root).values()) == {"same"}


def test_what_a_run_has_left_in_the_course_s_folders_is_not_handed_on(root):
    left = ("capstone_report.html", "real_step.json", "trace.json", "Untitled.ipynb", "00-Copy1.ipynb", "mine.py")
    for name in left:
        for folder in ("notebooks", "exercises"):
            (root / folder / name).write_text("of a run")
    (root / "docs/step.json").write_text("of a run")
    assert len(copy(root)) == 4


def test_every_file_that_git_knows_of_is_copied():
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this test asks git, and needs a clone")
    listed = subprocess.run([git, "ls-files", *workspace.FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True)
    copied = {name for _, name in workspace.course_files(ROOT)}
    assert set(listed.stdout.split()) <= copied


def test_an_update_comes_to_what_is_unchanged_and_beside_what_is_not_once(root):
    copy(root)
    (root / "work/notebooks/00.ipynb").write_text("my work")
    (root / "notebooks/00.ipynb").write_text("second")
    (root / "docs/glossary.md").write_text("second")
    found = copy(root)
    assert found["docs/glossary.md"] == "updated"
    assert found["notebooks/00.new.ipynb"] == "beside"
    assert (root / "work/notebooks/00.ipynb").read_text() == "my work"
    assert (root / "work/notebooks/00.new.ipynb").read_text() == "second"
    assert (root / "work/docs/glossary.md").read_text() == "second"
    assert copy(root)["notebooks/00.ipynb"] == "yours"
    (root / "notebooks/00.ipynb").write_text("third")
    assert "notebooks/00.new-2.ipynb" in copy(root)
    assert (root / "work/notebooks/00.new.ipynb").read_text() == "second"


def test_work_is_kept_even_if_the_record_of_what_was_copied_is_lost(root):
    copy(root)
    (root / "work/notebooks/00.ipynb").write_text("my work")
    (root / "work/.copied.json").unlink()
    copy(root)
    assert (root / "work/notebooks/00.ipynb").read_text() == "my work"


def notebook(source, **metadata):
    cell = {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [str(metadata)]}
    return json.dumps({"cells": [cell], "metadata": metadata})


def test_a_lesson_that_was_only_run_or_saved_is_brought_up_to_date(root):
    for name in ("01_run", "02_edited"):
        (root / f"notebooks/{name}.ipynb").write_text(notebook("first"))
    copy(root)
    ran = json.loads(notebook("first", saved=True))
    ran["cells"].append({"cell_type": "code", "source": ["\n"]})  # as an editor adds one below the last
    (root / "work/notebooks/01_run.ipynb").write_text(json.dumps(ran))
    (root / "work/notebooks/02_edited.ipynb").write_text(notebook("mine"))
    assert set(copy(root).values()) <= {"same", "yours"}
    for name in ("01_run", "02_edited"):
        (root / f"notebooks/{name}.ipynb").write_text(notebook("second"))
    found = copy(root)
    assert (found["notebooks/01_run.ipynb"], found["notebooks/02_edited.new.ipynb"]) == ("updated", "beside")
    assert (root / "work/notebooks/01_run.ipynb").read_text() == notebook("second")
    assert (root / "work/notebooks/02_edited.ipynb").read_text() == notebook("mine")


def test_a_copy_that_was_cut_off_is_completed_and_no_file_is_half_there(root, monkeypatch):
    def full(path, content):
        if path.name == "glossary.md":
            raise OSError(28, "No space left on device", str(path))
        whole(path, content)

    whole = workspace.write_whole
    monkeypatch.setattr(workspace, "write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        copy(root)
    monkeypatch.undo()
    (root / "notebooks/00.ipynb").write_text("second")
    assert copy(root) == {
        "notebooks/00.ipynb": "updated",
        "exercises/exercise_01.ipynb": "same",
        "docs/glossary.md": "new",
        "docs/pictures/a.svg": "new",
    }


@pytest.mark.parametrize("record", ["{bad", "[]", "\xff"])
def test_a_damaged_record_stops_nobody(root, record):
    copy(root)
    (root / "work/.copied.json").write_text(record, encoding="latin-1")
    assert set(copy(root).values()) == {"same"}
    (root / "docs/glossary.md").write_text("second")
    assert copy(root)["docs/glossary.md"] == "updated"


def test_an_exercise_is_watched_and_reset_in_the_copy_once_there_is_one(root):
    assert build.exercise("exercise_01", root) == root / "exercises/exercise_01.ipynb"
    copy(root)
    assert build.exercise("exercise_01", root) == root / "work/exercises/exercise_01.ipynb"


def test_without_the_repository_it_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="lessons come with the course's repository"):
        workspace.copy(tmp_path / "work", tmp_path)


def test_links_of_the_course_lead_somewhere_in_the_copy(tmp_path):
    workspace.copy(tmp_path)
    for notebook in [*tmp_path.glob("notebooks/*.ipynb"), *tmp_path.glob("exercises/*.ipynb")]:
        for target in re.findall(r"\]\(([^)#\s]+)", notebook.read_text(encoding="utf-8")):
            if "://" not in target and target.endswith((".ipynb", ".md", ".svg")):
                assert (notebook.parent / target).exists(), (notebook.name, target)
