"""What is written can be written, whatever characters it holds."""

import io
import os
import sys
import time

import pytest

from gpipe_edu.base.atomic_write import escape, escape_on_terminals, printable, write_whole


def test_what_has_no_bytes_is_escaped_and_nothing_else(tmp_path):
    text = "ü 𝓐 \x00\r\n\\ \u2028"
    assert escape(text) == text
    assert escape("\ud800 and \udfff") == r"\ud800 and \udfff"
    write_whole(tmp_path / "page", f"{text}\ud800")
    assert (tmp_path / "page").read_bytes() == text.encode() + rb"\ud800"


def test_a_terminal_is_told_nothing_that_it_obeys():
    assert printable("ü 𝓐\n\tx \\") == "ü 𝓐\n\tx \\"
    assert printable("\x1b]0;mine\x07\r\x9b2J\u202e\ud800") == r"\x1b]0;mine\x07\r\x9b2J\u202e\ud800"


def test_a_terminal_gets_what_it_can_show(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)
    escape_on_terminals()
    print("ü 𝓐 \ud800", end="", flush=True)
    assert terminal.buffer.getvalue() == b"\xfc \\U0001d4d0 \\ud800"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    escape_on_terminals()


def test_a_table_may_be_read_by_all_and_what_is_private_by_its_owner(tmp_path):
    for private, mode in ((False, 0o644), (True, 0o600)):
        write_whole(tmp_path / "file", "text", private=private)
        assert (tmp_path / "file").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_on_windows_it_waits_until_nobody_reads_the_old_one(tmp_path, monkeypatch, platform):
    refused, replace = [PermissionError(13, "somebody reads it")] * 3, os.replace

    def as_windows_does(*paths):
        if refused:
            raise refused.pop()
        replace(*paths)

    monkeypatch.setattr(os, "replace", as_windows_does)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(sys, "platform", platform)
    if platform == "linux":
        with pytest.raises(PermissionError):
            write_whole(tmp_path / "file", "text")
        assert list(tmp_path.iterdir()) == []
    else:
        write_whole(tmp_path / "file", "text")
        assert (tmp_path / "file").read_text() == "text"
