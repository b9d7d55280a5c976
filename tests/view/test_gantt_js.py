"""The page's pure functions, tested by node; and the one text that the modules become for notebooks and pages."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpipe_edu.view.gantt.assets import script, style, widget_module
from gpipe_edu.view.palette import PAINTS
from tests.each import each
from tests.processes import PATIENCE

NODE = shutil.which("node")
HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "gpipe_edu"
SOURCES = sorted(
    path for room in ("view", "puzzles/page", "sizing/page") for path in (PACKAGE / room / "js").glob("*.js")
)
PUZZLE = "puzzles/page/js/puzzle_host.js"
SLIDERS = "view/js/sliders.js"

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed, so the JavaScript tests cannot run")


@needs_node
def test_the_javascript_tests_pass():
    tests = sorted(map(str, (HERE / "js").glob("*.test.mjs")))
    assert tests
    done = subprocess.run([NODE, "--test", *tests], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout


@needs_node
@pytest.mark.parametrize("text", [widget_module(), script(), widget_module(PUZZLE)], ids=["widget", "page", "puzzle"])
def test_the_modules_become_one_that_can_be_read(text, tmp_path):
    file = tmp_path / "one.mjs"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([NODE, "--check", str(file)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_every_module_is_in_it_once_and_nothing_is_imported():
    for source in SOURCES:
        exported = re.findall(r"^export (?:async )?(?:function|const) (\w+)", source.read_text(), re.MULTILINE)
        text = script(
            {"puzzles": PUZZLE, "sizing": SLIDERS}.get(source.relative_to(PACKAGE).parts[0], "view/js/host.js")
        )
        for name in exported:
            assert len(re.findall(rf"^(?:async )?(?:function|const) {name}\b", text, re.MULTILINE)) == 1
    for text, module in ((script(), widget_module()), (script(PUZZLE), widget_module(PUZZLE))):
        assert not re.search(r"^\s*(import|export)\b", text, re.MULTILINE)
        assert module.rstrip().endswith("export default { render };")


def test_colours_come_from_the_palette_alone():
    fills = {paint.fill for paint in PAINTS.values()}
    assert all(fill in style() for fill in fills)
    for source in SOURCES:
        assert not re.search(r"#[0-9A-Fa-f]{6}\b", source.read_text()), source.name


@each("source", SOURCES)
def test_every_focusable_element_keeps_its_keys_from_the_notebook(source):
    for tag in re.findall(r"<(?:input|select|button|summary)\b[^>]*>", source.read_text()):
        assert "${KEPT}" in tag, tag
    for tag in re.findall(r"<\w+[^>]*tabindex=[^>]*>", source.read_text()):
        assert "KEPT" in tag or "${number" in tag, tag


@needs_node
def test_the_docs_list_the_keys_that_there_are():
    keys = (PACKAGE / "view/js/keys.js").as_uri()
    code = f"""import {{ KEYS, keyNames }} from "{keys}";
    console.log(JSON.stringify(Object.entries(KEYS).map(([place, rows]) =>
      [place, rows.map(([acts, does]) => [keyNames(acts).join(", "), does])])))"""
    done = subprocess.run([NODE, "--input-type=module", "-e", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    listed = (HERE.parents[1] / "docs/keys.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for (place, rows), part in zip(json.loads(done.stdout), listed, strict=True):
        assert re.findall(r"^\| (?!Key|--)(.*?) \| (.*?) \|$", part, re.MULTILINE) == [tuple(row) for row in rows], (
            place
        )


def test_no_other_script_knows_a_key_by_name():
    for source in SOURCES:
        if source.name != "keys.js":
            assert not re.search(r"Arrow(Left|Right|Up|Down)|Backspace|\"Escape\"", source.read_text()), source.name
