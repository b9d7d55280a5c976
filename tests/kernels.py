"""Notebooks that a test runs by itself, in a kernel that may take its time to start and for each cell."""

from nbclient import NotebookClient

from tests.processes import PATIENCE


def client(notebook, kind=NotebookClient, kernel_name="python3", **options):
    """A client of `notebook` that gives up only where something hangs."""
    return kind(notebook, timeout=PATIENCE, startup_timeout=PATIENCE, kernel_name=kernel_name, **options)
