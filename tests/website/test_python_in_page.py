"""Python in the page itself, in a real browser: the puzzle and the box, and how long each takes."""

import time

import pytest

import gpipe_edu as ge
from tests.website.conftest import TIMES
from tests.website.visit import Visit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("with_lab")]


def says(page, words):
    page.wait_for_function("w => document.querySelector('.gp-said').innerText.includes(w)", arg=words)


def test_the_puzzle_is_played_trained_and_kept(address, open_page):
    page = open_page()
    began = time.monotonic()
    page.goto(f"{address}puzzle.html")
    page.click('[data-op="F0@0"]')
    TIMES["puzzle: first move taken"] = round(time.monotonic() - began, 2)
    says(page, "F0@0 placed")
    TIMES["puzzle: first move answered"] = round(time.monotonic() - began, 2)
    page.fill(".gp-text", "F0@1 F0@2 B0@2 B0@1 B0@0")
    page.press(".gp-text", "Enter")
    says(page, "Solved with makespan 6, at par")
    page.click('[data-do="run"]')
    page.wait_for_selector(".gp-run .ge-panel")
    assert "the gradients are the same as on one device" in page.inner_text(".gp-run")
    page.reload()
    page.wait_for_selector("text=2. Pipelining")  # which Python opens: the page had shown the solved one
    assert "solved with makespan 6" in page.get_attribute('[data-level="first-dependency"]', "aria-label")
    assert page.problems == []


def test_a_schedule_is_judged_as_it_is_typed(address, open_page):
    page = open_page()
    began = time.monotonic()
    page.goto(f"{address}explorer.html")
    page.fill("#rows", "F0 B0\nB0 F0")
    page.wait_for_selector("#says.stuck")
    TIMES["box: first judgement"] = round(time.monotonic() - began, 2)
    assert page.inner_text("#says") == ge.Schedule.parse("F0 B0\nB0 F0").problems()[0].message
    began = time.monotonic()
    page.fill("#rows", "F0 B0\nF0 B0")
    page.wait_for_selector("#says:not(.stuck)")
    TIMES["box: next judgement"] = round(time.monotonic() - began, 3)
    page.click("#keep")
    page.wait_for_selector("#keep[aria-pressed=true]")
    page.fill("[name=K]", "8")
    page.fill("[name=M]", "32")
    page.click("#recipe button")
    page.wait_for_selector(f"#says:has-text('makespan {ge.simulate(ge.gpipe(8, 32)).makespan:g},')")
    began = time.monotonic()
    page.fill("[data-cost=F]", "2")
    page.wait_for_selector(f"#says:has-text('makespan {ge.simulate(ge.gpipe(8, 32), ge.Costs(F=2)).makespan:g},')")
    TIMES["box: next judgement of 512 ops, beside another"] = round(time.monotonic() - began, 3)
    assert page.locator("#chart .ge-panel").count() == 2
    assert page.problems == []


def test_a_first_result_costs_at_most_11_megabytes(address, new_context):
    context = new_context()  # that of no other test, since what was fetched stays
    page = context.new_page()
    visit = Visit(page)
    page.goto(f"{address}notebooks/00_start_here.html")
    cell = page.locator("section.cell").first
    cell.locator("[data-do=edit]").click()
    cell.locator(".cm-content").fill("1 + 1")
    cell.locator("[data-do=run]").click()
    cell.locator(".outputs .value:text-is('2')").wait_for()
    TIMES["lesson: MB until the first cell's result"] = f"{visit.megabytes():.2f}"
    assert 8 < visit.megabytes() < 11  # Pyodide and NumPy alone are 8.4
    context.close()
