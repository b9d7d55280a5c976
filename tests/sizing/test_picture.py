"""What a notebook shows for a guide: every cell is the best of its plans, parts are as long as they are large."""

import re
from html.parser import HTMLParser

import pytest

from gpipe_edu.sizing import Job, Machine, Planner, SearchSpace, transformer
from gpipe_edu.sizing.page.picture import as_html
from gpipe_edu.sizing.planner import FAR, TIE, duration, size
from gpipe_edu.view.palette import GROUNDS
from gpipe_edu.view.theme import THEME

MODEL = transformer(blocks=10, width=256, context=128, vocabulary=2000, heads=4)
JOB = Job(MODEL, 48, Machine(devices=6, memory=110e6, speed=1e12, overhead=20e-6, link=10e9))
FEW = Planner(JOB, SearchSpace(zero=(0, 3), tensor=(1, 2), schedules=("1f1b", "zero_bubble")))
MANY = Planner(JOB._replace(machine=JOB.machine._replace(devices=24, memory=60e6)), FEW.ways)
NONE = Planner(JOB._replace(machine=JOB.machine._replace(memory=20e6)), FEW.ways)


class Read(HTMLParser):
    """The rows of the first table, as words; every `style` and `class` by tag."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.styles, self.classes, self.open = [], [], [], []
        self.feed(text)
        assert not self.open, "something is not closed"

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.styles.append(found.get("style", ""))
        self.classes.append(found.get("class", ""))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("rect", "line", "circle", "polyline", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


def limit_of(guide):
    return FAR * guide.best.step if guide.best and guide.job.machine.devices > 16 else float("inf")


@pytest.mark.parametrize("guide", [FEW, MANY, NONE], ids=["few devices", "many devices", "none fits"])
def test_a_cell_is_the_best_of_its_plans(guide):
    found = Read(as_html(guide))
    head, *rows = [row for row in found.rows if row and (row[0] == "" or "T=" in row[0])]
    Ks = [int(word.removeprefix("K=")) for word in head[1:]]
    assert set(Ks) == {plan.K for plan in guide.plans}
    seen = 0
    for name, *cells in rows:
        D = re.search(r"D=(\d+)", name)
        tensor = int(re.search(r"T=(\d+)", name)[1])
        for K, shown in zip(Ks, cells, strict=True):
            plans = [
                plan
                for plan in guide.plans
                if (plan.K, plan.group.tensor) == (K, tensor) and (D is None or int(D[1]) == plan.D)
            ]
            seen += len(plans)
            fitting = [plan.step for plan in plans if plan.fits]
            if not plans:
                assert shown == ""
            elif not fitting:
                assert shown == f"{size(min(plan.short for plan in plans))} short"
            elif min(fitting) > limit_of(guide):
                assert shown == f"over {FAR:g} x"
            else:
                near = [duration(step) for step in fitting if step <= (1 + TIE) * min(fitting)]
                assert shown in near
    assert seen == len(guide.plans)
    assert sum("best" in name.split() for name in found.classes) == (guide.best is not None)


def test_bars_are_as_long_as_what_they_stand_for():
    best, found = FEW.best, Read(as_html(FEW))
    shares = [float(each) for style in found.styles for each in re.findall(r"width: ([\d.]+)%; background", style)]
    assert shares == pytest.approx([100 * held / 110e6 for held in best.held.values()], abs=0.006)
    assert "left: 90.00%" in found.styles
    parts = [float(each) for style in found.styles for each in re.findall(r"width: ([\d.]+)%$", style)]
    assert parts == pytest.approx(
        [100 * each / best.step for each in best.parts.values() if each > best.step / 200], abs=0.06
    )


def test_the_schedule_is_drawn_with_few_of_many_micro_batches():
    pipeline = Planner(JOB._replace(batch=480), SearchSpace(zero=(0,), tensor=(1,), schedules=("1f1b",)))
    best = pipeline.best
    assert best.K > 1
    assert best.M > 3 * best.K
    text = as_html(pipeline)
    assert f"Its schedule with {3 * best.K} of its {best.M} micro-batches" in text
    assert text.count('<g class="op F"') == 3 * best.K * best.K or text.count('class="ops F"') == 1
    roomy = Planner(JOB._replace(machine=JOB.machine._replace(memory=1e12)))
    assert roomy.best.K == 1
    assert "Its schedule" not in as_html(roomy)


def test_where_nothing_fits_it_says_what_is_short_and_what_would_cure_it():
    text = as_html(NONE)
    assert "Of the ways weighed, none fits." in text
    assert "What alone would cure it: devices of" in text
    assert "Where a step" not in text


@pytest.mark.parametrize("theme", ["light", "page"])
def test_it_takes_the_theme_of_what_shows_it(theme, monkeypatch):
    monkeypatch.setenv(THEME, theme)
    dark = GROUNDS["dark"].paper in as_html(FEW)
    assert dark == (theme == "page")


def test_a_notebook_shows_it_and_stores_a_stable_line():
    assert FEW._repr_html_() == as_html(FEW)
    assert repr(FEW) == f"Planner(Transformer of 10 blocks, 6 devices: best {FEW.best.knobs})"
    assert repr(NONE) == "Planner(Transformer of 10 blocks, 6 devices: none fits)"
    named = JOB._replace(model=MODEL._replace(name="<b>"))
    assert "<b>," not in as_html(Planner(named, FEW.ways))
