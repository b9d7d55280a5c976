"""A learner's copy follows the course where nothing was changed, and what was changed is never lost."""

import re

import pytest

from gpipe_edu.course.building import build, workspace


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
