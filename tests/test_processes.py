"""What a test that has failed leaves behind is ended, with all that it has started; what was there before it stays."""

import subprocess
import sys
import time

import psutil

from .processes import end_all_since

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
STARTS_ANOTHER = [sys.executable, "-c", f"import subprocess; subprocess.run({SLEEPS})"]


def test_what_was_started_since_is_ended_and_what_was_there_stays():
    with subprocess.Popen(SLEEPS) as before:
        time.sleep(0.1)
        since = time.time()
        started = subprocess.Popen(STARTS_ANOTHER, stdout=subprocess.PIPE, start_new_session=True)
        while not (children := psutil.Process(started.pid).children()):
            time.sleep(0.01)
        end_all_since(since)
        assert started.returncode is not None
        assert started.stdout.closed
        psutil.wait_procs(children, 60)
        assert not any(child.is_running() for child in children)
        assert before.poll() is None
        before.kill()
