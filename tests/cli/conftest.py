"""The command line as a person meets it, in this process."""

import pytest

from gpipe_edu.cli import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command line; returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        return stopped.value.code, *capsys.readouterr()

    return call
