"""What every notebook keeps to: its size, its form, stored without outputs, nothing remote, links that lead somewhere.

That the cells run is nbval's part (pytest collects notebooks/ with it).
"""

import ast
import re
import statistics
from pathlib import Path

import nbformat

from gpipe_edu.course.lessons import THREAD, lesson
from gpipe_edu.course.predictions import question
from gpipe_edu.puzzles.levels import LEVELS
from tests.each import each

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LESSONS = [path for path in NOTEBOOKS if path.stem[0].isdigit()]
"""The rest is to play with: it has the form of a lesson, but neither its length nor its questions."""
EXTRA = re.compile(r"^# (Optional|Appendix|Problems)", re.MULTILINE)
"""From this heading on one may leave."""
NUMPY_ONLY = {"00", "01", "02", "03", "05", "09", "11", "13"}

MASTERS = sorted((ROOT / "solutions").glob("*.py"))
every_notebook = each("path", NOTEBOOKS)
every_lesson = each("path", LESSONS)


def read(path):
    return nbformat.read(path, as_version=4)


def prose(source):
    """The words one reads: no code blocks, no tags, no definitions on hover, no bare numbers or signs."""
    text = re.sub(r'```.*?```|<[^>]+>| "[^"]*"(?=\))', " ", source, flags=re.DOTALL)
    return [word for word in text.split() if re.search(r"[A-Za-z]", word)]


def cells(path, kind):
    return [cell for cell in read(path).cells if cell.cell_type == kind]


def folded(cell):
    """Whether JupyterLab shows only its first line, and the rest at a click."""
    return cell.metadata.get("jupyter", {}).get("source_hidden", False)


def anchors(page):
    """What hosts make of the headings of a page: small letters, no signs, - for spaces."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def up_to_what_one_may_leave_out(path):
    """The cells in front of the heading behind which one may leave."""
    found = []
    for cell in read(path).cells:
        if cell.cell_type == "markdown" and EXTRA.search(cell.source):
            break
        found.append(cell)
    return found


def predictions(path):
    """The keys of the predict cells. Raises AssertionError for a call that is no plain question."""
    keys = []
    for cell in cells(path, "code"):
        for node in ast.walk(ast.parse(re.sub(r"^[%!]", "#", cell.source, flags=re.MULTILINE))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "predict":
                assert len(node.args) == 1, f"an answer in the notebook: {cell.source}"
                assert not node.keywords, f"an answer in the notebook: {cell.source}"
                keys.append(ast.literal_eval(node.args[0]))
    return keys


@every_notebook
def test_it_is_valid_and_stored_without_outputs_counts_or_widget_state(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in cells(path, "code"):
        assert cell.outputs == []
        assert cell.execution_count is None
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)


@every_lesson
def test_its_size_is_one_sitting(path):
    # One story needs 25 to 50 cells as a rule; what needs far more is two lessons. What one may leave out has no limit.
    main = [cell for cell in up_to_what_one_may_leave_out(path) if not folded(cell)]
    assert 25 <= len(main) <= 80
    words = sum(len(prose(cell.source)) for cell in main if cell.cell_type == "markdown")
    assert 700 <= words <= 2150, words
    lines = [len(cell.source.splitlines()) for cell in cells(path, "code")]
    assert max(lines) <= 17
    assert statistics.median(lines) <= 6


@every_notebook
def test_it_opens_with_a_promise_minutes_and_what_one_needs(path):
    first = read(path).cells[0].source
    assert first.startswith("# ")
    assert re.search(r"\d+ minutes", first)
    assert "able to" in first
    assert re.search(r"need", first)


@every_lesson
def test_a_lesson_of_the_thread_says_its_place_in_it_and_a_side_room_has_none(path):
    said = re.findall(r"^\*\*Thread\*\*, (.*)$", read(path).cells[0].source, flags=re.MULTILINE)
    number = path.stem[:2]
    if number not in THREAD:
        assert said == []
        return
    at = THREAD.index(number)
    behind, before = (
        [f"[{one}]({lesson(one).notebook}.ipynb)" for one in part] for part in (THREAD[:at], THREAD[at + 1 :])
    )
    around = [f"after {one}" for one in behind[-1:]] + [f"before {one}" for one in before[:1]]
    assert said == [f"{at + 1} of {len(THREAD)}: {', '.join(around)}."]


@every_lesson
def test_no_line_hides_its_result(path):
    assert not any(cell.source.rstrip().endswith(";") for cell in cells(path, "code"))


@every_notebook
def test_a_chart_is_the_last_line_of_its_cell_or_nobody_sees_it(path):
    charts = {"gantt", "compare", "puzzle", "simulate"}
    for cell in cells(path, "code"):
        for line in ast.parse(cell.source).body[:-1]:
            match line:
                case ast.Expr(ast.Call(func=ast.Attribute(attr=name))):
                    assert name not in charts, f"{cell.id}: {ast.unparse(line)}"


@every_notebook
def test_links_and_images_are_local_and_lead_somewhere(path):
    for cell in cells(path, "markdown"):
        for mark, text, target in re.findall(r'(!?)\[([^\]]*)\]\(([^)\s]+)(?: "[^"]*")?\)', cell.source):
            assert text.strip(), f"an image without alt text, or a link without text: {mark}{target}"
            file, _, fragment = target.partition("#")
            assert file, f"a link within the notebook, which hosts resolve differently: {target}"
            assert (path.parent / file).exists(), target
            if file.endswith(".md") and fragment:
                assert fragment in anchors(path.parent / file), f"no such heading: {target}"
        assert not re.search(r"<(img|script|iframe|link|video|audio)\b", cell.source)


@every_notebook
def test_nothing_is_fetched(path):
    for cell in read(path).cells:
        assert not re.search(r"https?://|\bpip install|\burlopen|\bimport requests", cell.source), cell.source
    assert not any(cell.get("attachments") for cell in read(path).cells)


@every_lesson
def test_surprises_are_predicted_and_each_prediction_of_the_lesson_is_asked_once(path):
    asked = predictions(path)
    assert len(asked) >= 4
    assert sorted(asked) == sorted(question.keys(path.stem[:2]))


@every_lesson
def test_the_notebook_does_not_hold_the_answers(path):
    assert not any(re.match(r"\*\*([A-F]|Predict)[.,:]?\*\*", cell.source) for cell in cells(path, "markdown"))
    text = " ".join(" ".join(cell.source.split()) for cell in read(path).cells)
    for key in predictions(path):
        assert " ".join(question.find(key).because.split()) not in text, key


@every_lesson
def test_a_puzzle_has_the_number_that_the_text_gives_it(path):
    opened = re.findall(r'ge\.puzzle\("([\w-]+)"\)', text_of(path))
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    said = re.findall(r"\d+", " ".join(re.findall(r"puzzle levels? (\d+(?: and \d+)?)", text, flags=re.IGNORECASE)))
    assert {int(number) for number in said} <= {[level.key for level in LEVELS].index(key) + 1 for key in opened}


@every_lesson
def test_a_prediction_reads_well_before_and_after_the_commit(path):
    for key in predictions(path):
        asked = question.find(key)
        assert asked.because[0].isupper() or not asked.because[0].isalpha(), "it follows a full stop"
        assert asked.because.endswith((".", "!", "?", ")", "`", "$")), key
        options = dict(asked.page())
        assert len(set(options.values())) == len(options)
        texts = [asked.text, asked.because, *options.values()]
        assert not any(re.search(r"\]\(|<\w|\$", text) for text in texts), (
            "no links, tags or LaTeX: see prediction_widget"
        )
        assert not any("\n\n" in text for text in options.values())


@every_lesson
def test_lessons_on_schedules_need_no_torch(path):
    if path.stem[:2] in NUMPY_ONLY:
        assert not any(re.search(r"import torch|gpipe_edu.pytorch", cell.source) for cell in cells(path, "code"))


def text_of(path):
    return (
        path.read_text(encoding="utf-8") if path.suffix == ".py" else "\n".join(c.source for c in cells(path, "code"))
    )


@each("path", [*NOTEBOOKS, *MASTERS])
def test_learners_import_only_from_the_public_doors(path):
    """`gpipe_edu.room`, or what is for studying the PyTorch engine: what lies deeper may move any day."""
    modules = re.findall(r"^\s*(?:from|import) (gpipe_edu[\w.]*)", text_of(path), flags=re.MULTILINE)
    assert modules
    deep = [name for name in modules if not re.fullmatch(r"gpipe_edu(\.\w+)?|gpipe_edu\.pytorch\.study", name)]
    assert deep == []


@each("path", [*NOTEBOOKS, *MASTERS])
def test_pictures_come_before_plumbing(path):
    """The plots of gpipe_edu.view draw what a lesson shows; its own lines are about the subject."""
    assert not re.search(r"\bmatplotlib\b|\bplt\.|\bsubplots\(", text_of(path))


@every_notebook
def test_a_cell_has_no_more_curves_than_a_screen_shows(path):
    """Two pictures of curves below each other are higher than the 647 pixels that a laptop leaves a notebook."""
    for cell in cells(path, "code"):
        module = ast.parse(re.sub(r"^[%!]", "#", cell.source, flags=re.MULTILINE))
        assert len(curves_of_their_own(module)) <= 1, cell.id
        loops = [node for node in ast.walk(module) if isinstance(node, ast.For)]
        assert not any(map(curves_of_their_own, loops)), f"{cell.id}: a picture in each round; use panels"


def curves_of_their_own(tree):
    """The calls of plot_lines that make a figure."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "plot_lines"]
    return [call for call in calls if not any(keyword.arg in ("ax", None) for keyword in call.keywords)]


@every_lesson
def test_it_ends_with_how_one_has_predicted(path):
    assert f'progress("{path.stem[:2]}")' in "\n".join(cell.source for cell in cells(path, "code")[-3:])
