"""Windows, pretended to the course in this process and in those that it starts: what Python lacks there is missing.

Our modules, and no library, get another `os`, `signal` and `sys`. Shown is that nothing of ours asks for what is not
there. What only Windows can show, this does not: files that can't be replaced while they are open, pipes and paths of
its own, its gloo.
"""

import builtins
import os
import signal
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
FUNCTIONS = """
    chown chroot confstr fchown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority
    getsid getuid initgroups killpg lchown lockf mkfifo nice pidfd_open pipe2 posix_spawn posix_spawnp
    register_at_fork sched_getaffinity setegid seteuid setgid setpgid setsid setuid statvfs sysconf uname wait wait3
    wait4 waitid WEXITSTATUS WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WTERMSIG WUNTRACED
""".split()  # noqa: SIM905
SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}


class Without:
    """A module with some names missing, and others in their place."""

    def __init__(self, module, missing=(), **instead):
        vars(self).update(instead, _module=module, _missing=set(missing))

    def __getattr__(self, name):
        if name in self._missing:
            raise AttributeError(f"Windows has no {self._module.__name__}.{name}")
        return getattr(self._module, name)

    def __setattr__(self, name, value):
        setattr(self._module, name, value)


def pretend():
    """From now on, for modules of ours that are not imported yet."""
    posix_signals = [name for name in dir(signal) if name.startswith(("SIG", "pidfd", "setitimer", "alarm"))]
    instead = {
        "os": Without(os, FUNCTIONS, listdir=_without_proc(os.listdir)),
        "signal": Without(signal, set(posix_signals) - SIGNALS),
        "sys": Without(sys, platform="win32"),
    }
    plain = builtins.__import__

    def find(name, globals=None, locals=None, fromlist=(), level=0):
        if (globals or {}).get("__name__", "").startswith("gpipe_edu") and not level:
            if name in MODULES:
                raise ModuleNotFoundError(f"Windows has no {name}", name=name)
            if name in instead:
                return instead[name]
        return plain(name, globals, locals, fromlist, level)

    builtins.__import__ = find
    from gpipe_edu.process import child, time_limit

    time_limit.open = _without_proc(open)
    command = child.command

    def command_of_one_that_pretends(module):
        *python, code = command(module)
        before = f"import sys\nsys.path.append({FOLDER!r})\nimport pretend_windows\n"
        head, package, rest = code.partition("found.loader.exec_module(module)\n")
        return [*python, f"{before}{head}{package}pretend_windows.pretend()\n{rest}"]

    child.command = command_of_one_that_pretends


def _without_proc(function):
    def asked(path, *rest, **named):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return function(path, *rest, **named)

    return asked
