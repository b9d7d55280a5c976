"""The quiz is GIFT that can be read back: every question, its options, which one is right, and what is told of each."""

import io
import json
import re
import shutil
import subprocess
import zipfile
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from gpipe_edu.cli import main
from gpipe_edu.course.predictions import question
from gpipe_edu.teaching.handouts.quiz import INVENTORY, gift, keys
from gpipe_edu.teaching.handouts.quiz_qti import qti
from tests.each import each
from tests.processes import PATIENCE

OPTION = re.compile(r"(?<!\\)([=~])((?:\\.|[^\\=~#])*)#((?:\\.|[^\\=~#])*)", re.DOTALL)


def plain(text):
    return re.sub(r"\\([~=#{}:\\])", r"\1", text.strip().replace("\\n", "\n"))


def read(text):
    """What a reader of GIFT finds: {title: (question, [(right, option, feedback)])}. Questions end at blank lines."""
    found = {}
    for block in text.split("\n\n")[1:]:
        title, asked, inside = re.fullmatch(
            r"::((?:\\.|[^\\:])*)::\[markdown\]((?:\\.|[^\\{])*)\{(.*)\}\s*", block, re.DOTALL
        ).groups()
        inside = inside.partition("####")[0]
        found[plain(title)] = plain(asked), [(s == "=", plain(o), plain(f)) for s, o, f in OPTION.findall(inside)]
    return found


def asked(key):
    """A question as it has to arrive: its words, and its options, each with what is told of it."""
    one = question.find(key)
    options = [
        (name == one.answer, text.strip(), one.wrong.get(name, one.because).strip())
        for name, text in one.options.items()
    ]
    return one.text.strip(), options


PARSER = "gift-pegjs@1.0.2"

PROGRAM = """
const {parse} = require("gift-pegjs");
console.log(JSON.stringify(parse(require("fs").readFileSync(0, "utf8"))));
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory):
    """What a parser for Moodle's format that others wrote finds in a text."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"{PARSER} runs in Node.js, which is not on this machine")
    folder = tmp_path_factory.mktemp("parser")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), PARSER]
    try:
        done = subprocess.run(install, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{PARSER} can't be had here: npm took too long")
    if done.returncode:
        pytest.skip(f"{PARSER} can't be had here: {done.stderr.strip().splitlines()[-1:]}")

    def parse(text):
        done = subprocess.run(
            ["node", "-e", PROGRAM], input=text, capture_output=True, text=True, cwd=folder, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return parse


def test_a_parser_of_moodle_s_format_finds_every_question(parsed):
    wanted = [*INVENTORY, *(key for lesson in question.lessons() for key in keys(lesson))]
    category, *found = parsed(gift(wanted, "a category"))
    assert category == {"type": "Category", "title": "a category"}
    assert [one["title"] for one in found] == wanted
    for one in found:
        assert (one["type"], one["stem"]["format"]) == ("MC", "markdown")
        options = [(o["isCorrect"], o["text"]["text"], o["feedback"]["text"]) for o in one["choices"]]
        assert (one["stem"]["text"], options) == asked(one["title"])
        assert one["globalFeedback"]["text"] == question.find(one["title"]).because.strip()


def test_the_inventory_has_twelve_questions_that_stand_alone():
    assert len(set(INVENTORY)) == 12
    found = read(gift(INVENTORY, "c"))
    assert list(found) == list(INVENTORY)
    for key, one in found.items():
        assert one == asked(key)
        assert [right for right, _, _ in one[1]].count(True) == 1
        assert all(told for _, _, told in one[1])


def named(root, name):
    """All elements of that name, whatever their namespace."""
    return [one for one in root.iter() if one.tag.rpartition("}")[2] == name]


def read_qti(data):
    """What a reader of QTI finds in an archive: {title: (question, [(right, option, feedback)])}, as HTML."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    manifest = ElementTree.fromstring(archive.read("imsmanifest.xml"))
    assert {one.get("href") for one in named(manifest, "file")} == {*archive.namelist()} - {"imsmanifest.xml"}
    resources = {one.get("type"): one for one in named(manifest, "resource")}
    quiz = ElementTree.fromstring(archive.read(named(resources["imsqti_xmlv1p2"], "file")[0].get("href")))
    found = {}
    for item in named(quiz, "item"):
        told = {one.get("ident"): named(one, "mattext")[0].text for one in named(item, "itemfeedback")}
        shown = {}  # by option
        for rule in named(item, "respcondition"):
            (option,) = (one.text for one in named(rule, "varequal"))
            if scores := named(rule, "setvar"):
                right = [option for score in scores if score.text == "100"]
            else:
                shown[option] = told[named(rule, "displayfeedback")[0].get("linkrefid")]
        labels = [(one.get("ident"), named(one, "mattext")[0].text) for one in named(item, "response_label")]
        found[item.get("title")] = (
            named(item, "mattext")[0].text,
            [([ident] == right, text, shown[ident]) for ident, text in labels],
        )
    return found, named(ElementTree.fromstring(archive.read("gpipe_edu_quiz/assessment_meta.xml")), "shuffle_answers")


def test_an_archive_for_canvas_has_every_question_its_options_and_what_is_told_of_each():
    wanted = [*INVENTORY, *(key for lesson in question.lessons() for key in keys(lesson))]
    found, shuffled = read_qti(qti(wanted, "a <title>"))
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render
    assert {*found} == {*wanted}
    for key, one in found.items():
        text, options = asked(key)
        assert one == (html(text), [(right, html(option), html(told)) for right, option, told in options])
    assert [one.text for one in shuffled] == ["true"]
    assert qti(wanted, "a <title>") == qti(wanted, "a <title>")


@each("lesson", [name for name in question.lessons() if keys(name)])
def test_every_lesson_can_be_a_quiz(lesson):
    assert set(read(gift(keys(lesson), "c"))) == set(keys(lesson))


def test_the_command_writes_the_inventory_where_nothing_else_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["quiz", str(tmp_path / "quiz.gift")])
    assert ended.value.code == 0
    assert "12 questions" in capsys.readouterr().out
    assert (tmp_path / "quiz.gift").read_text(encoding="utf-8").startswith("$CATEGORY: gpipe_edu, inventory")
    with pytest.raises(SystemExit) as ended:
        main(["quiz", str(tmp_path / "quiz.zip")])
    assert ended.value.code == 0
    assert list(read_qti((tmp_path / "quiz.zip").read_bytes())[0]) == list(INVENTORY)
