"""Charts and questions are as light or dark as what is around them, which says so in its own way."""

import pytest

from gpipe_edu.course.predictions.widget import Prediction
from gpipe_edu.view.gantt.assets import style

pytestmark = pytest.mark.slow

KIND = "data-vscode-theme-kind"
HOSTS = {
    "JupyterLab, light": ('<html><body data-jp-theme-light="true">', "light"),
    "JupyterLab, dark": ('<html><body data-jp-theme-light="false">', "dark"),
    "VS Code, light": (f'<html><body class="vscode-light" {KIND}="vscode-light">', "light"),
    "VS Code, dark": (f'<html><body class="vscode-dark" {KIND}="vscode-dark">', "dark"),
    "VS Code, high contrast": (f'<html><body class="vscode-high-contrast" {KIND}="vscode-high-contrast">', "dark"),
    "VS Code, high contrast light": (
        f'<html><body class="vscode-high-contrast vscode-high-contrast-light" {KIND}="vscode-high-contrast-light">',
        "light",
    ),
    "Colab, light": ('<html theme="light"><body>', "light"),
    "Colab, dark": ('<html theme="dark"><body>', "dark"),
}
PAPER = {"light": "#FFFFFF", "dark": "#181818"}
ACCENT = {"light": "#0b57a4", "dark": "#6fb7ff"}
PARTS = '<div class="ge-gantt"></div><form class="ge-prediction"></form>'


def looks(page, host):
    page.set_content(f"<!DOCTYPE html>{host}<style>{style()}{Prediction._css}</style>{PARTS}")
    return page.evaluate(
        """() => ['.ge-gantt --ge-paper', '.ge-prediction --ge-accent'].map((one) => {
            const [part, name] = one.split(' ');
            return getComputedStyle(document.querySelector(part)).getPropertyValue(name).trim();
        })"""
    )


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("host", HOSTS)
def test_the_host_s_theme_counts(open_page, host, system):
    begin, theme = HOSTS[host]
    assert looks(open_page(scheme=system), begin) == [PAPER[theme], ACCENT[theme]]


@pytest.mark.parametrize("system", ["light", "dark"])
def test_on_a_page_of_its_own_a_chart_is_as_the_system_is(open_page, system):
    assert looks(open_page(scheme=system), "<html><body>")[0] == PAPER[system]
