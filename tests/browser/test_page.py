"""The page that `to_html` writes: opened from a file, it works and asks nobody for anything."""

import pytest

import gpipe_edu as ge

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    pytest.importorskip("anywidget")
    path = tmp_path_factory.mktemp("page") / "explorer.html"
    ge.gantt(ge.gpipe(4, 8)).to_html(path)
    return path


@pytest.fixture
def explorer(path, open_page):
    def show(**options):
        page = open_page(**options)
        page.goto(path.as_uri())
        page.wait_for_selector(".ge-base rect", state="attached")
        return page

    return show


def test_no_request_goes_out_and_nothing_fails(explorer):
    page = explorer()
    assert page.requests == [page.url]
    assert page.problems == []


def test_a_key_on_a_control_redraws_from_what_was_computed_in_advance(explorer):
    page = explorer()
    assert "33" in page.inner_text(".ge-figures")
    page.focus('[data-stops="K"]')
    page.keyboard.press("ArrowRight")
    timeline = ge.simulate(ge.gpipe(int(page.inner_text('[data-stops="K"] + output')), 8))
    page.wait_for_function(
        "text => document.querySelector('.ge-figures').innerText.includes(text)", arg=f"{timeline.makespan:g}"
    )
    assert page.problems == []


def test_the_table_says_what_the_chart_shows(explorer):
    page = explorer()
    page.get_by_label("show as table").check()
    rows = page.eval_on_selector_all(
        ".ge-table table:first-of-type tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    timeline = ge.simulate(ge.gpipe(4, 8))
    expected = {
        (f"{span.op.kind}{span.op.micro_batch}", str(span.device), f"{span.start:g}", f"{span.end:g}")
        for span in timeline.spans
    }
    assert {(row[0], row[1], row[5], row[6]) for row in rows} == expected
    assert len(rows) == len(expected)


def test_every_control_can_be_reached_and_has_a_name(explorer):
    page = explorer()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('input, select, button, summary, [tabindex="0"]')].filter(part => {
            const label = part.getAttribute('aria-label') || part.labels?.[0]?.innerText || part.innerText;
            return !label?.trim() || part.dataset.lmSuppressShortcuts !== 'true';
        }).map(part => part.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off(explorer, scheme):
    for width in (1280, 1920):
        page = explorer(width=width, scheme=scheme)
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0


def test_pointing_at_a_bubble_tells_why_the_device_waits(explorer):
    page = explorer()
    lanes = page.locator(".ge-lanes").bounding_box()
    page.mouse.move(lanes["x"] + 0.4 * lanes["width"], lanes["y"] + 30)
    page.wait_for_function("() => document.querySelector('.ge-explain').innerText.includes('device 0 idles')")


def test_with_reduced_motion_play_goes_from_event_to_event(explorer):
    page = explorer(reduced_motion="reduce")
    page.select_option("[data-speed]", "4")
    page.focus(".ge-lanes")
    page.keyboard.press("Home")
    seen = page.evaluate(
        """() => new Promise(done => {
            const seen = [];
            const output = document.querySelector('.ge-time');
            new MutationObserver(() => {
                seen.push(parseFloat(output.innerText));
                if (seen.length === 4) done(seen);
            }).observe(output, {childList: true, characterData: true, subtree: true});
            document.querySelector('[data-do="play"]').click();
        })"""
    )
    assert seen == [1, 2, 3, 4]


def test_in_print_the_chart_stays_and_the_controls_go(explorer):
    page = explorer(scheme="dark")
    page.emulate_media(media="print")
    assert page.is_visible(".ge-base")
    assert not page.is_visible(".ge-transport")
    background = page.eval_on_selector(".ge-gantt", "part => getComputedStyle(part).backgroundColor")
    assert background in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"), "ink on paper, whatever the screen's theme"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_with_forced_colours_the_chart_is_there_in_the_readers_ink_on_the_readers_paper(explorer, scheme):
    page = explorer()
    page.emulate_media(forced_colors="active", color_scheme=scheme)
    look = page.evaluate(
        """() => {
            const style = (selector) => getComputedStyle(document.querySelector(selector));
            const probe = document.body.appendChild(document.createElement('p'));
            probe.style.cssText = 'color: CanvasText; background: Canvas; forced-color-adjust: none';
            const [ink, paper] = [getComputedStyle(probe).color, getComputedStyle(probe).backgroundColor];
            const covers = ['.ge-over', '.ge-now', '.ge-base'].map((layer) => style(layer).backgroundColor);
            return {ink, paper, covers, lane: style('.ge-lane').fill, forward: style('.ge-op.ge-F').fill,
                    rim: style('.ge-op.ge-F').stroke, bubble: style('.ge-paper').fill};
        }"""
    )
    assert look["ink"] != look["paper"]
    assert set(look["covers"]) == {"rgba(0, 0, 0, 0)"}, "a layer with a ground of its own hides what is under it"
    assert look["lane"] == look["rim"] == look["ink"]
    assert look["bubble"] == look["paper"]
    assert look["forward"] == "rgb(127, 196, 240)", "ops keep their colours: they are what the chart says"
