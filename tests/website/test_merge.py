"""Two tabs with the puzzle: what is solved in either is solved in both, whichever Python answers first."""

import json
from itertools import product

import pytest

import gpipe_edu as ge
from tests.browser import chrome
from tests.puzzles.solutions import solved
from tests.website.stand_in import HOLD, WORKER, Host
from tests.website.test_in_page import FIRST, address, folder, says  # noqa: F401 (fixtures)
from website.in_page import HERE

pytestmark = pytest.mark.slow

LIVE = HERE / "live"
ENTRY = {"": None, "a": {"makespan": 9, "hints": 0}, "b": {"makespan": 7, "hints": 2}, "c": {"makespan": 7, "hints": 1}}


@pytest.fixture(scope="module")
def merge(new_context):
    """merge.js in a browser, on plain data."""
    with chrome.pages(new_context) as open_one:
        page = open_one()
        page.add_script_tag(content=(LIVE / "merge.js").read_text().replace("export ", ""))

        def merged(*files):
            return json.loads(
                page.evaluate("([mine, theirs, before]) => merge(mine, theirs, before)", [*map(json.dumps, files)])
            )

        merged.page = page
        yield merged


def file(section, entry):
    return {"about": "words", section: {} if entry is None else {"level": entry}, "other": {"stays": {"n": [1]}}}


@pytest.mark.parametrize("section", ["puzzle", "attempts"])
def test_an_entry_is_the_one_that_changed_and_of_two_solutions_the_better_one(merge, section):
    """Every case of an entry that is there or not, against the rule told anew: a change wins, two are decided."""
    for mine, theirs, before in product(ENTRY, repeat=3):
        changed = [each for each in (mine, theirs) if each != before]
        if len(set(changed)) < 2:
            expected = changed[0] if changed else before
        elif "" in changed:
            expected = mine or theirs
        else:
            expected = max(changed) if section == "puzzle" else mine  # c is better than b, and b than a
        found = merge(*(file(section, ENTRY[each]) for each in (mine, theirs, before)))
        assert found == file(section, ENTRY[expected]), (mine, theirs, before)


def test_sections_that_only_one_has_stay_and_the_level_played_last_stays_last(merge):
    mine = {"puzzle_board": {"x": 1, "mine": 2}, "puzzle": {"x": ENTRY["a"]}}
    theirs = {"puzzle_board": {"x": 1, "theirs": 3}, "puzzle_open": {"all": True}}
    found = merge(mine, theirs, {"puzzle_board": {"x": 1}})
    assert found == {
        "puzzle_board": {"x": 1, "mine": 2, "theirs": 3}, "puzzle": {"x": ENTRY["a"]}, "puzzle_open": {"all": True},
    }  # fmt: skip
    assert list(found["puzzle_board"])[-1] == "mine"


@pytest.mark.parametrize("theirs", ["", "{broken", "[1]", "null", "3"])
def test_what_cannot_be_read_takes_nothing_away(merge, theirs):
    mine = json.dumps(file("puzzle", ENTRY["a"]))
    for before in ("", mine):
        assert merge.page.evaluate("(all) => merge(...all)", [mine, theirs, before]) == mine


class Tab:
    """A tab with a Python of its own, whose answers can be held back."""

    def __init__(self, page, host, home):
        self.page, self._host, self._home = page, host, home
        page.expose_function("askPython", host.answer)

    def open(self, address, level):  # noqa: F811
        self.page.goto(f"{address}puzzle.html#level={level}")
        self.page.evaluate("startPython()")
        self.page.click(".gp-text")
        says(self.page, "")

    def hold(self):
        """From now on Python hears nothing, until it is let."""
        self.page.evaluate(HOLD)

    def let(self):
        self.page.evaluate("letPython()")

    def play(self, moves):
        self.page.fill(".gp-text", moves)
        self.page.press(".gp-text", "Enter")

    def knows(self, *levels):
        """Wait until its Python has these levels, and no other, as solved."""
        for _ in range(100):
            found = set(json.loads((self._home / "progress.json").read_text()).get("puzzle", {}))
            if found == set(levels):
                return True
            self.page.wait_for_timeout(100)
        return False

    def kept(self, section="puzzle"):
        """What the browser has as solved."""
        return set(json.loads(self.page.evaluate(KEPT)).get(section, {}))

    def unfinished(self):
        """The levels of which it has a board."""
        return self.kept("puzzle_boards")


KEPT = """() => new Promise((done) => {
  const request = indexedDB.open("JupyterLite Storage - /gpipe_edu/lab/");
  request.onsuccess = () => {
    const reading = request.result.transaction("files").objectStore("files").get("gpipe_edu/progress.json");
    reading.onsuccess = () => {
      request.result.close();
      done(reading.result.content);
    };
  };
})"""


@pytest.fixture
def tabs(new_context, address, tmp_path):  # noqa: F811
    """Two tabs of one reader, on the first and on the second level."""
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
    hosts = [Host(home) for home in homes]
    with chrome.pages(new_context) as open_one:
        context = open_one().context
        context.add_init_script(WORKER)
        both = [Tab(context.new_page(), host, home) for host, home in zip(hosts, homes, strict=True)]
        for tab, level in zip(both, ("first-dependency", "pipelining"), strict=True):
            tab.open(address, level)
        yield both
    for host in hosts:
        host.close()


def test_what_two_tabs_solve_at_the_same_time_is_kept_of_both(tabs):
    one, two = tabs
    one.play(FIRST.removesuffix(" B0@0"))
    says(one.page, "placed")
    assert one.unfinished() == {"first-dependency"}
    one.hold()
    one.play("B0@0")
    two.play(moves("pipelining"))
    says(two.page, "Solved")
    assert two.kept() == {"pipelining"}
    one.let()
    says(one.page, "Solved")
    assert one.knows("first-dependency", "pipelining")
    assert two.knows("first-dependency", "pipelining")
    assert one.kept() == {"first-dependency", "pipelining"}
    assert one.unfinished() == set(), "the other tab's file still had the board that is solved now"


def test_so_it_is_where_both_answer_late(tabs):
    one, two = tabs
    for tab, text in ((one, FIRST), (two, moves("pipelining"))):
        tab.hold()
        tab.play(text)
    two.let()
    one.let()
    assert one.knows("first-dependency", "pipelining")
    assert two.knows("first-dependency", "pipelining")
    assert two.kept() == {"first-dependency", "pipelining"}


def moves(level):
    """The ops of a level's solution in an order in which they can be placed."""
    return " ".join(str(op) for _, op, _ in ge.Schedule(solved(level).rows).steps)
