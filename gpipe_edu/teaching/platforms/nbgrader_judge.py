"""The judge of `grade` inside nbgrader: its `autograde` runs no learner's cell, and its gradebook gets our marks.

Nothing in a hand-in is trusted, not even its metadata: only text is read, and what nbgrader must find by name is
inserted from the gradebook. So a duplicated cell, or a file that is not a notebook, never stops a class.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode, v4
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Int

from gpipe_edu.base.atomic_write import escape
from gpipe_edu.course import submitted_notebook
from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.teaching.grading import feedback_pages
from gpipe_edu.teaching.grading.grade import Class, Wish, grade
from gpipe_edu.teaching.grading.marks import STATES, Mark, number, points
from gpipe_edu.teaching.grading.submissions import HandedIn, books_in

JUDGED: Final = "judged"
"""The folder of a course that holds reports and seeds."""

_classes: WeakKeyDictionary[Any, dict[str, Class | ValueError]] = WeakKeyDictionary()
"""By run of `autograde`, then by assignment: a class is judged together, when the first of its notebooks comes.

If it could not be judged, the reason is kept, or each student would bring the same wait again.
"""


class Reader(NotebookExporter):
    """The texts and names of cells, and nothing else of what was handed in; for an unreadable file, the reason."""

    def from_file(self, file_stream: Any, resources: Any = None, **options: Any) -> tuple[Any, Any]:
        """The notebook in an open file, after all preprocessors."""
        try:
            cells = [_cell(one) for one in submitted_notebook.of(Path(file_stream.name))]
        except submitted_notebook.Refused as error:
            cells = [v4.new_markdown_cell(escape(str(error)))]
        read: tuple[Any, Any] = self.from_notebook_node(v4.new_notebook(cells=cells), resources, **options)
        return read


class Restored(NbGraderPreprocessor):
    """Makes each cell that nbgrader knows by name appear once, as in the gradebook."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The notebook with nbgrader's own metadata and no other."""
        where = resources["nbgrader"]
        with Gradebook(where["db_url"]) as gradebook:
            book = gradebook.find_notebook(where["notebook"], where["assignment"])
            graded = {cell.name: cell.max_score for cell in book.grade_cells}
            solutions = {cell.name for cell in book.solution_cells}
            missing = {cell.name: _restore_cell(cell, graded, solutions) for cell in book.source_cells}
        for index, cell in enumerate(nb.cells):
            name = cell.metadata.pop("nbgrader", {}).get("grade_id", "")
            if name in missing and cell.cell_type == missing[name].cell_type:
                released = missing.pop(name)
                if released.metadata.nbgrader.locked:
                    nb.cells[index] = released
                else:
                    cell.metadata.nbgrader = released.metadata.nbgrader
        nb.cells += [cell for name, cell in missing.items() if name in graded]
        return nb, resources


class Judge(NbGraderPreprocessor):
    """Puts marks into the gradebook, and the student's feedback from `grade` below each check cell."""

    seeds = Int(1, min=1, max=20, help="How often each answer is judged; the worst verdict counts.").tag(config=True)
    jobs = Int(2, min=1, max=64, help="How many answers at once.").tag(config=True)
    all_or_nothing = Bool(False, help="No points for what is partly right.").tag(config=True)
    trust = Bool(False, help="Run answers unconfined, as yourself.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The notebook with reports. Raises RuntimeError if an answer could not be judged: nbgrader tries it again."""
        where = resources["nbgrader"]
        row = self._class(where["assignment"]).marks[where["student"]]
        said = {f"{all_exercises()[key].cell}-check": feedback_pages.as_html(mark) for key, mark in row.items()}
        with Gradebook(where["db_url"]) as gradebook:
            submission = gradebook.find_submission_notebook(where["notebook"], where["assignment"], where["student"])
            for grade_ in submission.grades:
                if grade_.name in said:
                    grade_.auto_score = score_of(said[grade_.name][0], grade_.max_score)
                    grade_.needs_manual_grade = grade_.auto_score is None or grade_.manual_score is not None
            gradebook.db.commit()
        for cell in nb.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if name in said:
                mark, text = said[name]
                cell.outputs = [_output(mark, text, cell.metadata.nbgrader.points)]
                if mark.points is None:
                    raise RuntimeError(f"{mark.key} of {where['student']} was not judged, and has no mark: {mark.why}")
        return nb, resources

    def _class(self, assignment: str) -> Class:
        autograde = self.parent.parent
        known = _classes.setdefault(autograde, {})
        if assignment not in known:
            try:
                known[assignment] = self._grade_assignment(autograde.coursedir, assignment)
            except ValueError as error:
                known[assignment] = error
        found = known[assignment]
        if isinstance(found, ValueError):
            raise found
        return found

    def _grade_assignment(self, course: Any, assignment: str) -> Class:
        with Gradebook(course.db_url) as gradebook:
            names = {book.name for book in gradebook.find_assignment(assignment).notebooks}
        keys = tuple(key for key, one in all_exercises().items() if one.notebook in names)
        wish = Wish(keys, self.seeds, self.jobs, self.all_or_nothing, self.trust)
        handed_in = _find_hand_ins(course, assignment)
        for note in handed_in.notes:
            self.log.warning(note)
        return grade(handed_in, Path(course.root) / JUDGED, wish, self.log.info)


def score_of(mark: Mark, of: float) -> float | None:
    """The points for a cell that is worth `of`, which need not be what we say; None if it was not judged."""
    return None if mark.points is None else round(mark.points / points(mark.key) * of, 2)


def _find_hand_ins(course: Any, assignment: str) -> HandedIn:
    """The hand-ins of the students that `autograde` was asked for."""
    step = course.submitted_directory
    pattern = course.format_path(step, "(?P<student>.+)", re.escape(assignment), escape=True)
    notes: list[str] = []
    students = {
        found["student"]: list(books_in(Path(folder), notes))
        for folder in sorted(glob.glob(course.format_path(step, course.student_id, assignment)))
        if (found := re.fullmatch(pattern, folder))
    }
    return HandedIn("nbgrader's", students, notes)


def _cell(one: submitted_notebook.Cell) -> NotebookNode:
    return _new_cell(one.kind, one.source, {"nbgrader": {"grade_id": one.grade_id}} if one.grade_id else {})


def _new_cell(kind: str, source: str, metadata: dict[str, Any]) -> NotebookNode:
    new = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
    made: NotebookNode = new(source, metadata=metadata)
    return made


def _restore_cell(cell: Any, graded: dict[str, float], solutions: set[str]) -> NotebookNode:
    """A cell as nbgrader released it; `cell` is the gradebook's source cell."""
    about = {
        "schema_version": 3,
        "grade_id": cell.name,
        "cell_type": cell.cell_type,
        "checksum": cell.checksum,
        "locked": cell.locked,
        "grade": cell.name in graded,
        "solution": cell.name in solutions,
        "task": False,
    }
    if cell.name in graded:
        about["points"] = graded[cell.name]
    return _new_cell(cell.cell_type, cell.source, {"nbgrader": about})


def _output(mark: Mark, text: list[str], of: float) -> NotebookNode:
    """The result as the output of a check cell. text: what `feedback_pages.as_html` says about it."""
    worth = "no mark yet" if mark.points is None else f"{number(score_of(mark, of))} of {number(of)}"
    head = f"<p><b>{mark.state}</b> ({STATES[mark.state]}), {worth}</p>"
    content = {"text/html": escape("\n".join([head, *text])), "text/plain": f"{mark.state}, {worth}"}
    made: NotebookNode = v4.new_output("display_data", data=content)
    return made
