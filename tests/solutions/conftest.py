"""Each test has a learner's file of its own, and the kill table is printed at the end."""

from collections import defaultdict

import pytest

from gpipe_edu.course import judging, store


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "learner"
    monkeypatch.setenv(store.HOME, str(folder))
    return folder


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """An error of the judge's own is no verdict."""
    monkeypatch.setattr(judging, "STRICT", True)


def pytest_terminal_summary(terminalreporter):
    """`killed / total, alternatives accepted` for each task, as Markdown."""
    table = defaultdict(lambda: {"wrong": [0, 0], "right": [0, 0]})
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == "bank":
                    key, kind = value
                    table[key][kind][0] += outcome == "passed"
                    table[key][kind][1] += 1
    if not table:
        return
    terminalreporter.section("kill table")
    rows = [(key, *table[key]["wrong"], *table[key]["right"]) for key in sorted(table)]
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 5))))
    terminalreporter.line("| task | wrong answers killed | other right answers accepted |")
    terminalreporter.line("|---|---|---|")
    for key, killed, wrong, accepted, right in rows:
        terminalreporter.line(f"| {key} | {killed} / {wrong} | {accepted} / {right} |")
