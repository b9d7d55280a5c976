"""A part that says something, starts a process, and then hears nothing any more."""

import signal
import subprocess
import sys
import time


def run(found, sizes):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    found.figure("child", str(child.pid))
    print("before it hangs", flush=True)
    time.sleep(600)
