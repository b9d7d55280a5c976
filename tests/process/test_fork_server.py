"""What a server loads before it forks."""

import gc
import sys

import pytest

from gpipe_edu.process import fork_server


def test_garbage_is_collected_after_modules_are_loaded_and_not_meanwhile(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "that_looks.py").write_text("import gc\nheld = gc.isenabled()\n")
    (tmp_path / "that_raises.py").write_text("1 / 0\n")
    fork_server.load(["that_looks"])
    assert sys.modules.pop("that_looks").held is False
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fork_server.load(["that_raises"])
    assert gc.isenabled()
