"""What a page's Python does not fetch at its start, but fetches and puts in place when a cell imports it.

`website/slim.py` takes these modules out of what pages fetch, and packs them.
"""

from __future__ import annotations

import importlib
import io
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_TASKS = "gpipe_edu.judge.tasks"

_JUDGES = {
    "ex03_accumulation": ("check", "perform"),
    "ex04_stage": ("check", "perform"),
    "ex06_partition": ("check", "perform", "cuts"),
    "ex08_batchnorm": ("check", "perform"),
    "ex09_cap": ("check", "perform"),
    "ex09_early": ("check", "perform"),
    "ex11_block": ("check", "perform"),
    "ex11_order": ("check", "perform"),
    "ex12_interleaved": ("check", "perform"),
    "ex15_bill": ("check", "perform"),
    "ex15_choice": ("check", "perform"),
    "ex16_profile": ("check", "perform"),
    "ex17_average": ("check", "perform"),
    "ex17_exchange": ("check", "perform"),
    "ex18_order": ("check", "perform"),
}
"""Modules of exercises that a first result does not wait for; their sentences, which are data, come with the rest."""

ARCHIVES = {
    "judges.zip": (
        *(f"{_TASKS}.{exercise}.{module}" for exercise, modules in _JUDGES.items() for module in modules),
        "gpipe_edu.judge.bill",
        "gpipe_edu.judge.guest.memory",
    ),
    "with_plots.zip": (
        *("argparse", "calendar", "gettext", "numpy.ma", "plistlib", "unittest", "xml", "gpipe_edu.sizing"),
        *(f"gpipe_edu.view.{module}" for module in ("curves", "matplotlib_painter", "plots")),
    ),
    "seldom.zip": (
        *(
            "_ast_unparse",
            "_pydatetime",
            "_pyio",
            "_pylong",
            "_pyrepl",
            "_strptime",
            "bdb",
            "cmd",
            "code",
            "compileall",
        ),
        *("configparser", "csv", "doctest", "fileinput", "ftplib", "http", "imaplib", "mailbox", "mimetypes"),
        *("modulefinder", "multiprocessing", "optparse", "pdb", "pickletools", "poplib", "profile", "pstats", "pyclbr"),
        *("pydoc", "shelve", "smtplib", "socketserver", "sqlite3", "stringprep", "symtable", "tabnanny", "timeit"),
        *("trace", "tracemalloc", "wave", "wsgiref", "xmlrpc", "zipapp", "zoneinfo"),
        *("asyncio.__main__", "asyncio.proactor_events", "asyncio.tools", "asyncio.windows_events"),
        *("concurrent.futures.process", "email._header_value_parser", "email.contentmanager", "email.generator"),
        *("email.headerregistry", "html.parser", "logging.config", "logging.handlers", "pyodide.console"),
        *("urllib.request", "urllib.robotparser"),
        *("numpy.conftest", "numpy.core", "numpy.f2py", "numpy.fft", "numpy.polynomial", "numpy.testing"),
        *("gpipe_edu.cli", "gpipe_edu.cluster", "gpipe_edu.distributed", "gpipe_edu.pytorch", "gpipe_edu.teaching"),
        *("gpipe_edu.base.terminal", "gpipe_edu.course.commands", "gpipe_edu.course.cut_answer"),
        *("gpipe_edu.course.submitted_notebook", "gpipe_edu.puzzles.command", "gpipe_edu.process.distrusted_files"),
        "gpipe_edu.timeline.opened",
        *(f"{_TASKS}.{exercise}" for exercise in ("ex04_checkpoint", "ex05_stages", "ex05_wrapper")),
        *(f"{_TASKS}.{exercise}" for exercise in ("ex10_processes", "ex14_buffer")),
        # Their page asks questions, so their sentences are not left out.
        *(
            f"{_TASKS}.{exercise}.{module}"
            for exercise in ("ex13_ring", "ex13_zero1")
            for module in ("check", "perform")
        ),
        *("gpipe_edu.judge.processes", "gpipe_edu.judge.traced_runs"),
        *(f"gpipe_edu.judge.guest.{module}" for module in ("processes", "remote_layers", "traced_layers")),
    ),
}
"""Names of modules by the archive that has them; codecs are too many to be listed."""

_CODECS = {
    *("aliases", "ascii", "base64_codec", "charmap", "cp437", "hex_codec", "idna", "latin_1", "punycode"),
    *("raw_unicode_escape", "unicode_escape", "utf_16", "utf_32", "utf_8", "utf_8_sig"),
}
"""The codecs that are not left out."""


def archive_of(module: str) -> str:
    """The archive that a module is in; "" for most."""
    parts = module.split(".")
    if parts[0] == "encodings":
        return "seldom.zip" if len(parts) > 1 and parts[1] not in {"__init__", *_CODECS} else ""
    names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return next((archive for archive, left_out in ARCHIVES.items() if names.intersection(left_out)), "")


class Finder:
    """The last of `sys.meta_path`. fetch: gives the bytes of an archive; place: where modules are found."""

    def __init__(self, fetch: Callable[[str], bytes], place: str) -> None:
        self._fetch, self._place, self._here = fetch, place, set[str]()

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: ModuleType | None = None) -> ModuleSpec | None:
        """Fetch the module's archive, once, and find it there. Raises ImportError where the site does not answer."""
        archive = archive_of(name)
        if not archive:
            return None
        if archive not in self._here:
            self._unpack(archive, name)
        # The rest of its package may be elsewhere, in the archive of the standard library.
        return PathFinder.find_spec(name, ["/".join([self._place, *name.split(".")[:-1]])])

    def _unpack(self, archive: str, name: str) -> None:
        try:
            content = self._fetch(archive)
        except Exception as error:
            raise ImportError(f"{name} is fetched when it is imported, and the site did not give it: {error}") from None
        self._here.add(archive)
        with zipfile.ZipFile(io.BytesIO(content)) as files:
            files.extractall(self._place)
        importlib.invalidate_caches()


def fetch_when_imported(fetch: Callable[[str], bytes]) -> None:
    """From now on, fetch modules when they are imported. fetch: as for `Finder`."""
    place = next(path for path in sys.path if path.endswith("site-packages"))
    sys.meta_path.append(Finder(fetch, place))
