"""From master to exercise and back to a fresh start, without ever touching what a learner wrote."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from gpipe_edu.base import store
from gpipe_edu.course import progress, reset, solution
from gpipe_edu.course.building import build, percent_format

MASTER = '''# %% [markdown]
# # Title
#
# Text with `code`.

# %%
import numpy as np


# %% nbgrader={"grade": false, "grade_id": "a"}
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    secret = 2
    return secret * x
    ### END SOLUTION


# %%
double(2)
'''


@pytest.fixture
def root(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "exercise_09_double.py").write_text(MASTER, encoding="utf-8")
    return tmp_path


def notebook(root):
    return root / "exercises" / "exercise_09_double.ipynb"


def edit(path, change):
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def test_cells_are_read_with_kind_source_and_metadata():
    cells = percent_format.read(MASTER)
    assert [cell.kind for cell in cells] == ["markdown", "code", "code", "code"]
    assert cells[0].source == "# Title\n\nText with `code`."
    assert cells[1].source == "import numpy as np"
    assert cells[2].metadata == {"nbgrader": {"grade": False, "grade_id": "a"}}


@pytest.mark.parametrize("text", ["x = 1\n# %%\n", "# %% nonsense\n", '# %% a={"b": }\n'])
def test_a_master_that_cannot_be_read_is_refused_with_its_line(text):
    with pytest.raises(ValueError, match="line 1"):
        percent_format.read(text)


@pytest.mark.parametrize("text", ["    ### BEGIN SOLUTION\n    x = 1\n", "### END SOLUTION\n"])
def test_a_lone_marker_is_refused(text):
    with pytest.raises(ValueError, match="SOLUTION"):
        percent_format.remove_solution(text)


def test_the_solution_is_taken_out(root):
    build.build(root)
    text = notebook(root).read_text(encoding="utf-8")
    assert "secret" not in text
    assert "SOLUTION" not in text
    found = nbformat.reads(text, as_version=4)
    nbformat.validate(found)
    assert found.cells[2].source == 'def double(x):\n    """Twice x."""\n    raise NotImplementedError'


def test_a_second_build_changes_nothing(root):
    assert [one.what for one in build.build(root)] == ["written"]
    assert [one.what for one in build.build(root)] == ["same"]


def test_an_untouched_notebook_follows_its_master(root):
    build.build(root)
    (root / "solutions" / "exercise_09_double.py").write_text(MASTER.replace("Title", "Heading"), encoding="utf-8")
    assert [one.what for one in build.build(root)] == ["written"]
    assert "Heading" in notebook(root).read_text(encoding="utf-8")


def test_opening_it_in_jupyter_is_no_change(root):
    build.build(root)
    edit(notebook(root), lambda data: data["metadata"].update(language_info={"name": "python", "version": "3.11.7"}))
    assert build.untouched(notebook(root))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["cells"][2].update(source="def double(x):\n    return 2 * x"),
        lambda data: data["cells"].append({"cell_type": "markdown", "id": "n", "metadata": {}, "source": "My notes"}),
        lambda data: data["cells"][3].update(outputs=[{"output_type": "stream", "name": "stdout", "text": "4"}]),
        lambda data: data["cells"].pop(),
        lambda data: data["metadata"].pop("gpipe_edu"),
        lambda data: data.clear(),
    ],
)
def test_work_is_left_alone_named_and_offered_a_copy_beside(root, change):
    build.build(root)
    edit(notebook(root), change)
    before = notebook(root).read_bytes()
    (root / "solutions" / "exercise_09_double.py").write_text(MASTER.replace("Title", "Heading"), encoding="utf-8")
    (one,) = build.build(root)
    assert one.what == "kept"
    assert "exercise_09_double.ipynb: left alone" in str(one)
    assert "--beside" in str(one)
    (one,) = build.build(root, beside=True)
    (two,) = build.build(root, beside=True)
    assert [one.path.name, two.path.name] == ["exercise_09_double.new.ipynb", "exercise_09_double.new-2.ipynb"]
    assert "Heading" in one.path.read_text(encoding="utf-8")
    assert notebook(root).read_bytes() == before


def test_reset_keeps_a_dated_copy(root):
    build.build(root)
    edit(notebook(root), lambda data: data["cells"].pop())
    before = notebook(root).read_bytes()
    fresh, copy = build.reset("exercise_09_double", root)
    assert build.untouched(fresh)
    assert copy.read_bytes() == before
    assert copy.name.startswith("exercise_09_double.20")
    assert build.reset("exercise_09_double", root) == (fresh, None)


def test_an_exercise_that_does_not_exist_is_told(root):
    with pytest.raises(ValueError, match="there are exercise_09_double"):
        build.reset("exercise_10", root)


def test_without_masters_it_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="solutions/ is not here"):
        build.build(tmp_path)


def test_a_solution_is_shown_after_success_or_on_request(capsys):
    solution("ex02/clock")
    assert "Not solved yet" in capsys.readouterr().out
    solution("ex02/clock", give_up=True)
    text = capsys.readouterr().out
    assert "def clock(K: int, M: int)" in text
    assert "SOLUTION" not in text
    assert "f_then_b" not in text


def test_reset_of_a_task_forgets_its_tries_and_tells(root, monkeypatch, capsys):
    with store.change("exercises") as kept:
        kept["ex01/splitting"] = {"tries": 2, "hints": 1, "passed": "2026-01-31"}
    monkeypatch.setattr("gpipe_edu.course.building.build.reset", lambda stem: (root / "a.ipynb", root / "b.ipynb"))
    monkeypatch.chdir(root)
    Path("exercise_01_splitting.py").write_text("my work")
    reset("ex01/splitting")
    told = re.fullmatch(
        r"a.ipynb is as new. Your work is in b.ipynb, beside it.\nexercise_01_splitting.py is (.*) now.\n",
        capsys.readouterr().out,
    )
    assert Path(told[1]).read_text() == "my work"
    assert told[1].startswith("exercise_01_splitting.20")
    assert not Path("exercise_01_splitting.py").exists()
    monkeypatch.setattr("gpipe_edu.course.building.places.ROOT", root)
    monkeypatch.chdir(root / "solutions")
    Path("exercise_01_splitting.py").write_text("the master")
    reset("ex01/splitting")
    assert Path("exercise_01_splitting.py").read_text() == "the master"
    assert progress().solved == 0


def test_reset_says_where_the_work_is_even_where_tries_are_kept_for_good(root, monkeypatch, capsys):
    (root / "file").touch()
    monkeypatch.setenv(store.HOME, str(root / "file"))
    monkeypatch.setattr("gpipe_edu.course.building.build.reset", lambda stem: (root / "a.ipynb", root / "b.ipynb"))
    reset("ex01/splitting")
    first, second = capsys.readouterr().out.splitlines()
    assert first == "a.ipynb is as new. Your work is in b.ipynb, beside it."
    assert second.startswith("Tries and hints could not be forgotten (")
    assert second.endswith("). Set GPIPE_EDU_HOME to a folder you may write to.")
