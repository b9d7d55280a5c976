"""Whether the notebook is dark: a picture cannot ask the page that will show it, so it asks for its reader's setting.

JupyterLab writes the chosen theme into a settings file, which the kernel can read where both run on one machine.
Otherwise pictures are light, on a background of their own. Where charts become parts of a web page, THEME says so, and
they follow the page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from .palette import PAGE

_FILE: Final = "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
THEME: Final = "GPIPE_EDU_THEME"
"""The environment variable that is "page" where what is shown becomes a part of a web page."""

HOSTS: Final = ":is(body[data-jp-theme-light], body[data-vscode-theme-kind], html[theme])"
"""What JupyterLab, VS Code and Colab put charts into, as a selector: their theme counts, and not the system's."""

DARK_HOSTS: Final = (
    ':is(body[data-jp-theme-light="false"], body.vscode-dark, '
    'body.vscode-high-contrast:not(.vscode-high-contrast-light), html[theme="dark"])'
)
"""The same while they are dark. VS Code gives its light high-contrast theme both classes."""

_CHOSEN: Final = re.compile(r'^\s*"theme"\s*:\s*"([^"]*)"', re.MULTILINE)


def on_a_page() -> bool:
    """Whether charts become parts of a web page."""
    return os.environ.get(THEME) == PAGE


def notebook_theme() -> str:
    """ "dark" if JupyterLab was set to a theme with that word in its name, else "light"."""
    jupyter = Path(os.environ.get("JUPYTER_CONFIG_DIR", "~/.jupyter")).expanduser()
    folder = Path(os.environ.get("JUPYTERLAB_SETTINGS_DIR", jupyter / "lab" / "user-settings"))
    try:
        chosen = _CHOSEN.search((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return "light"
    return "dark" if chosen and "dark" in chosen[1].lower() else "light"
