"""Masters and exercises: one source, nothing given away, and no exercise that fails in any other way than unwritten."""

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import nbformat
import pytest

from gpipe_edu.course.building import build, percent_format
from gpipe_edu.course.predictions import question
from gpipe_edu.judge.exercise import all_exercises, find_exercise
from tests import kernels, preloaded
from tests.processes import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MASTERS = build.masters(ROOT)
each = pytest.mark.parametrize("master", MASTERS, ids=lambda path: path.stem)


def cells(master):
    return percent_format.read(master.read_text(encoding="utf-8"))


def released(master):
    return ROOT / "exercises" / f"{master.stem}.ipynb"


def calls(master, name):
    """The first arguments of all calls of `name` in code cells."""
    found = []
    for cell in cells(master):
        if cell.kind == "code":
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    found.append(ast.literal_eval(node.args[0]))
    return found


@each
def test_building_it_again_makes_no_difference(master):
    assert released(master).read_text(encoding="utf-8") == build.notebook_text(master)
    assert build.untouched(released(master))


@each
def test_it_is_a_valid_notebook_without_results(master):
    notebook = nbformat.read(released(master), as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)


@each
def test_no_line_of_a_solution_is_in_it(master):
    text = json.loads(released(master).read_text(encoding="utf-8"))
    given = {line.strip() for cell in text["cells"] for line in "".join(cell["source"]).splitlines()}
    for cell in cells(master):
        for body in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.DOTALL):
            lines = {line.strip() for line in body.splitlines() if len(line.strip()) > 12}
            assert not lines & given
    assert "SOLUTION" not in json.dumps(text)


@pytest.mark.sweep
@each
def test_unsolved_it_fails_with_not_implemented_and_nothing_else(master, home, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", preloaded.kernels())
    notebook = nbformat.read(released(master), as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("print('the end was reached')"))
    kernels.client(notebook, allow_errors=True, resources={"metadata": {"path": tmp_path}}).execute()
    errors = [
        (output.ename, cell.source)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    ]
    assert {name for name, _ in errors} <= {"NotImplementedError", "Unwritten"}, errors
    assert sum(name == "Unwritten" for name, _ in errors) == len(calls(master, "check"))
    shown = json.dumps([cell.get("outputs") for cell in notebook.cells])
    assert "gpipe_edu/course" not in shown, "a traceback of ours"


@pytest.mark.sweep
@each
def test_solved_it_passes_from_its_first_line_to_its_last(master, home):
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [preloaded.python(), master], capture_output=True, text=True, env=environment, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "nbgrader takes all points for a cell that writes to stderr"
    assert all(f"{key}: passed" in done.stdout for key in calls(master, "check"))


@each
def test_it_opens_with_reason_difficulty_minutes_and_needs(master):
    first = cells(master)[0].source
    assert first.startswith(f"# Exercise {master.stem.split('_')[1]}: ")
    for words in ("**Why care?**", "**Difficulty**", "**You need**", "**In the paper:**"):
        assert words in first, words
    assert 15 <= int(re.search(r"\*\*Time\*\* (\d+) minutes", first)[1]) <= 45
    assert "**Where next:**" in cells(master)[-1].source
    picture = re.compile(r"compare\(|simulate\(|plot_\w+\(|gantt\(")
    assert any(picture.search(cell.source) for cell in cells(master)[:8]), "it begins with a picture"


@each
def test_its_links_lead_somewhere_and_are_local(master):
    for cell in cells(master):
        if cell.kind == "markdown":
            for text, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", cell.source):
                assert text.strip()
                assert not target.startswith("http")
                file, _, fragment = target.partition("#")
                assert (ROOT / "exercises" / file).exists(), target
                if fragment:
                    page = (ROOT / "exercises" / file).read_text(encoding="utf-8")
                    assert f"## {fragment.replace('-', ' ')}" in page.lower().replace("-", " "), target


@each
def test_each_of_its_predictions_is_asked_once(master):
    number = master.stem.split("_")[1]
    assert sorted(calls(master, "predict")) == sorted(question.keys(f"ex{number}")) != []


def test_each_task_is_checked_once_and_has_hints_and_an_answer_cell():
    asked = [key for master in MASTERS for key in calls(master, "check")]
    assert sorted(asked) == sorted(all_exercises())
    for master in MASTERS:
        text = master.read_text(encoding="utf-8")
        assert re.findall(r'^# hint\("([^"]+)"\)', text, re.MULTILINE) == calls(master, "check")
        for key in calls(master, "check"):
            exercise = find_exercise(key)
            assert exercise.notebook == master.stem
            answer = f"{exercise.cell}-answer"
            answers = [c for c in cells(master) if c.metadata.get("nbgrader", {}).get("grade_id") == answer]
            assert len(answers) == 1
            source = answers[0].source
            assert f"def {exercise.function}(" in source or f"class {exercise.function}" in source


def test_nbgrader_finds_what_it_needs():
    ids = []
    for master in MASTERS:
        for cell in cells(master):
            data = cell.metadata.get("nbgrader")
            marked = "### BEGIN SOLUTION" in cell.source
            assert (data is not None and data["solution"]) == marked, cell.source
            if data is None:
                assert not re.match(r"check\(", cell.source)
                continue
            ids.append(data["grade_id"])
            assert data["schema_version"] == 3
            assert data["task"] is False
            if data["grade"]:
                assert data["points"] > 0
                assert data["locked"]
                assert cell.source.startswith("check(")
            assert set(data) == {"grade", "grade_id", "locked", "schema_version", "solution", "task"} | (
                {"points"} if data["grade"] else set()
            )
    assert len(set(ids)) == len(ids)
