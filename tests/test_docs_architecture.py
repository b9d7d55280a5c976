"""The map is true: each file that docs/architecture.md names is there, and holds what one is told to look for."""

import re
from pathlib import Path

from tests.each import each

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = [
    line.split("|")[1:4]
    for line in PAGE.partition("## To change")[2].splitlines()
    if line.startswith("|") and "`" in line
]


def file_of(name):
    return next((place / name for place in (ROOT / "gpipe_edu", ROOT) if (place / name).is_file()), None)


def test_there_are_many_ways_in():
    assert len(ROWS) >= 30
    assert len({what for what, _, _ in ROWS}) == len(ROWS)


@each("where, wanted", [row[1:] for row in ROWS])
def test_a_row_leads_to_what_it_says(where, wanted):
    files = [file_of(name) for name in re.findall(r"`([^`]+)`", where)]
    assert None not in files, where
    assert 1 <= len(files) <= 2
    [text] = re.findall(r"`([^`]+)`", wanted)
    assert [file.name for file in files if text not in file.read_text(encoding="utf-8")] == []


def test_each_room_is_on_a_floor():
    rooms = {path.name for path in (ROOT / "gpipe_edu").iterdir() if (path / "__init__.py").exists()}
    floors = PAGE.partition("## To change")[0]
    assert {room for room in rooms if not re.search(rf"\b{room}\b", floors)} == set()
