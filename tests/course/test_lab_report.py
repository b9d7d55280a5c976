"""The report a learner keeps: everything is in one file, what was given is what is read, markup in it is harmless."""

import base64
import os
import re

import matplotlib.pyplot as plt
import pytest

import gpipe_edu as ge
from gpipe_edu.course.lab_report import LabReport, machine


def test_parts_come_in_the_order_they_were_added_and_markup_is_text(tmp_path):
    report = LabReport("Mine & <b>yours</b>")
    report.heading("Speed")
    report.text("a < b")
    report.quote("F0 B0\nF0 B0")
    report.table([{"K": 2, "ms": "30"}, {"K": 4, "ms": "<i>"}])
    page = report.save(tmp_path / "report.html").read_text(encoding="utf-8")
    places = [
        page.index(part)
        for part in (
            "<h1>Mine &amp; &lt;b&gt;yours&lt;/b&gt;</h1>",
            "<h2>Speed</h2>",
            "<p>a &lt; b</p>",
            "<pre>F0 B0\nF0 B0</pre>",
            "<tr><th>K</th><th>ms</th></tr><tr><td>2</td><td>30</td></tr><tr><td>4</td><td>&lt;i&gt;</td></tr>",
        )
    ]
    assert places == sorted(places)


def test_it_starts_with_the_machine(tmp_path):
    assert machine()["cores"] == str(os.cpu_count())
    page = LabReport("r").save(tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"<td>{machine()['Python']}</td>" in page


def test_pictures_are_inside_the_file_with_words_beside_them(tmp_path):
    figure, ax = plt.subplots()
    ax.plot([1, 2])
    report = LabReport("r")
    report.picture(figure, 'a "rising" line')
    report.picture(ge.simulate(ge.gpipe(2, 2)), "a pipeline")
    plt.close(figure)
    page = report.save(tmp_path / "r.html").read_text(encoding="utf-8")
    pictures = re.findall(r'<img alt="([^"]*)" src="data:image/png;base64,([^"]*)">', page)
    assert [alt for alt, _ in pictures] == ["a &quot;rising&quot; line", "a pipeline"]
    assert all(base64.b64decode(code).startswith(b"\x89PNG") for _, code in pictures)
    assert not re.search(r'(src|href)="(?!data:)', page)  # nothing is fetched from anywhere


def test_a_later_run_replaces_an_earlier_one(tmp_path):
    LabReport("first").save(tmp_path / "r.html")
    file = LabReport("second").save(str(tmp_path / "r.html"))
    assert file == (tmp_path / "r.html").resolve()
    assert "<title>second</title>" in file.read_text(encoding="utf-8")


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"columns \['M'\]; all rows must have those of the first: \['K'\]"):
        LabReport("r").table([{"K": 1}, {"M": 1}])


def test_a_notebook_shows_a_link_to_what_was_written(tmp_path, monkeypatch):
    shown = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpipe_edu.course.notebook.frontend.current", lambda: True)
    monkeypatch.setattr("gpipe_edu.course.notebook.output.show", shown.append)
    LabReport("Mine").save("out.html")
    assert shown == ["Your report: [out.html](out.html)"]
