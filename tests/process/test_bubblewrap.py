"""A sandbox of bubblewrap from inside: what an answer can reach, and what it can leave for the next answer."""

import ctypes
import errno
import inspect
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from gpipe_edu.judge.learner_process import LearnerProcess, probe
from gpipe_edu.process import bubblewrap, judges_files, process_count, system_calls, time_limit
from gpipe_edu.process.enclosure import SANDBOX
from gpipe_edu.process.packing import pack
from gpipe_edu.process.probes import Confinement
from tests.grading.classroom import needs_sandbox
from tests.processes import ROOT, until

JUDGES = Path(ROOT, "gpipe_edu", "judge")

MODULE = "gpipe_edu.judge.tasks.ex01_splitting.perform"

NEVER = [
    "add_key",
    "keyctl",
    "request_key",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "unshare",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
    "file_setattr",
    "setpriority",
    "ioprio_set",
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    "memfd_create",
    "memfd_secret",
    "shmget",
    "msgget",
    "semget",
    "mq_open",
    "inotify_init1",
    "fanotify_init",
    "open_by_handle_at",
    "name_to_handle_at",
]


def test_packages_are_readable_wherever_they_are_installed(tmp_path, monkeypatch):
    mine, shared, work = (tmp_path / name for name in ("mine/site-packages", "shared/dist-packages", "work"))
    for place in (mine, shared, work):
        place.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(work), *sys.path, str(mine), str(shared), str(tmp_path / "site-packages")])
    found = bubblewrap.readable_paths()
    assert {str(mine), str(shared)} <= set(found)
    assert str(work) not in found
    assert str(tmp_path / "site-packages") not in found  # it does not exist


@pytest.fixture(scope="module")
def server():
    made = bubblewrap.start()
    yield made
    made.close()


@pytest.fixture
def inside(server):
    """`inside(function, *values)`: what it returns there; the error's text if it raises one."""

    def ask(function, *values, server=server):
        text = textwrap.dedent(inspect.getsource(function))
        space = {}
        exec(compile(f"{text}\nanswer = lambda batch, M: {function.__name__}(*batch)", "<answer>", "exec"), space)
        with LearnerProcess(MODULE, pack(space["answer"]), 30, enclosure=SANDBOX, start=server.start) as sandbox:
            assert sandbox.held == Confinement(True, True, True, True)
            reply = sandbox(batch=list(values), M=1)
        if reply.trouble:
            return f"{reply.trouble.kind}: {reply.trouble.message}"
        return reply.value[0]

    return ask


def test_an_answer_sees_no_name_of_this_machine(inside):
    def names():
        import os
        import socket

        return [socket.gethostname(), os.uname().nodename]

    assert inside(names) == [bubblewrap.HOST, bubblewrap.HOST]


pytestmark = [pytest.mark.slow, needs_sandbox]


def call_all(numbers):
    """The errors of these system calls, with arguments that mean nothing; 0 for none."""
    import ctypes

    libc, found = ctypes.CDLL(None, use_errno=True), []
    for number in numbers:
        ctypes.set_errno(0)
        libc.syscall(number, -1, -1, -1, -1, -1, -1)
        found.append(ctypes.get_errno())
    return found


def test_no_system_call_that_reaches_past_the_sandbox_is_answered(inside):
    numbers = [system_calls.number(name) for name in NEVER]
    assert min(numbers) >= 0
    assert dict(zip(NEVER, inside(call_all, numbers), strict=True)) == dict.fromkeys(NEVER, errno.EPERM)


def make_namespaces():
    import ctypes
    import os

    libc, found = ctypes.CDLL(None, use_errno=True), []
    for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        clone = 56 if os.uname().machine == "x86_64" else 220
        pid = libc.syscall(clone, flag | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        found.append(ctypes.get_errno() if pid < 0 else 0)
    libc.syscall(435, 0, 0)
    return [*found, ctypes.get_errno()]


def test_no_namespace_is_to_be_had(inside):
    assert inside(make_namespaces) == [errno.EPERM] * 8 + [errno.ENOSYS]


def open_sockets(families):
    import ctypes

    libc, found = ctypes.CDLL(None, use_errno=True), []
    for family in families:
        ctypes.set_errno(0)
        libc.syscall.argtypes = [ctypes.c_long, ctypes.c_ulong, ctypes.c_long, ctypes.c_long]
        number = 41 if __import__("os").uname().machine == "x86_64" else 198
        found.append(ctypes.get_errno() if libc.syscall(number, family, 2, 0) < 0 else 0)
    return found


def test_sockets_are_those_of_its_own_network(inside):
    """AF_UNIX is 1, and the kernel takes 2**32 + 1 for it, too; 40 is AF_VSOCK, which leads to the machine below."""
    others = [1, 2**32 + 1, 40, 17, 38, 200]
    assert inside(open_sockets, [2, 10]) == [0, 0]
    assert inside(open_sockets, others) == [errno.EACCES] * len(others)


def talk():
    import socket

    pair = socket.socketpair()
    pair[0].sendall(b"pair")
    listening = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listening.getsockname())
    other, _ = listening.accept()
    one.sendall(b"TCP")
    return [pair[1].recv(9).decode(), other.recv(9).decode()]


def test_its_own_processes_can_talk(inside):
    assert inside(talk) == ["pair", "TCP"]


def look_at(paths):
    import os

    return [path for path in paths if os.path.lexists(path)]


def send(path):
    import socket

    pair = socket.socketpair(type=socket.SOCK_DGRAM)
    pair[0].sendto(b"out", path)
    return ["sent"]


def test_no_pair_of_sockets_reaches_one_in_a_folder(inside, monkeypatch, tmp_path):
    path, usual = str(tmp_path / "listens"), bubblewrap.readable_paths
    monkeypatch.setattr(bubblewrap, "readable_paths", lambda: [*usual(), str(tmp_path)])
    made = bubblewrap.start()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
            listening.bind(path)
            assert "Permission denied" in inside(send, path, server=made)
            with pytest.raises(BlockingIOError):
                listening.recv(9)
    finally:
        made.close()


def hold(commands):
    """What keeps others waiting, or tells of them: those commands of `fcntl` that are carried out on a file of all."""
    import fcntl
    import os
    import struct

    file, folder, done = os.open(os.__file__, os.O_RDONLY), os.open(os.path.dirname(os.__file__), os.O_RDONLY), []
    for command, argument in commands:
        try:
            lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
            fcntl.fcntl(folder if command == 1026 else file, command, lock if argument is None else argument)
            done.append(command)
        except OSError:
            pass
    return done


def test_nobody_waits_for_a_lock_of_its_and_nobody_is_watched(inside):
    commands = [[3, 0], [6, None], [7, None], [37, None], [38, None], [1024, 0], [1026, 1]]
    assert inside(hold, commands) == [3]


def test_proc_tells_of_its_own_processes_only(inside):
    """Keys of the one who grades, and timers of all, if this system tells of them."""
    names = [path for path in ("/proc/keys", "/proc/key-users", "/proc/timer_list") if os.path.exists(path)]
    assert names
    assert inside(try_all, [f"os.close(os.open({path!r}, os.O_RDONLY))" for path in names]) == []


def make_timers():
    import ctypes

    libc, timer, made = ctypes.CDLL(None), ctypes.c_void_p(), 0
    while made < 5_000 and libc.timer_create(1, 0, ctypes.byref(timer)) == 0:
        made += 1
    return [made]


def test_signals_that_wait_are_few_as_they_count_for_its_user_outside(inside):
    (made,) = inside(make_timers)
    assert 0 < made <= 256


def fork_until_refused():
    import os
    import time

    made = 0
    try:
        while made < 2_000:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            made += 1
    except OSError:
        pass
    return [made]


def test_it_starts_so_many_processes_and_no_more(inside, monkeypatch):
    """However fast it does: it is not counted here, as whoever counts them may be too slow."""
    monkeypatch.setattr(time_limit, "MOST_PROCESSES", 10_000)
    (made,) = inside(fork_until_refused)
    assert process_count.TASKS // 2 < made < process_count.TASKS


def test_what_lies_outside_is_not_even_there(inside, tmp_path):
    (tmp_path / "file").write_text("mine")
    paths = [str(tmp_path), str(tmp_path / "file"), f"{ROOT}/pyproject.toml", "/etc/passwd", "/run", "/sys/class"]
    paths += ["/dev/shm", "/dev/mqueue", "/dev/pts", os.path.expanduser("~/.ssh")]
    assert inside(look_at, [*paths, "/scratch"]) == ["/scratch"]


def try_all(tries):
    """Those of the lines of code that raise no OSError."""
    import os
    import resource
    import socket

    done = []
    for line in tries:
        try:
            exec(line, {"os": os, "resource": resource, "socket": socket})
            done.append(line)
        except OSError:
            pass
    return done


def test_nothing_that_it_sees_can_be_changed(inside):
    """Neither where root grades, to whom /proc/sys and devices belong."""
    import gpipe_edu

    tries = []
    for path in (gpipe_edu.__file__, os.path.dirname(gpipe_edu.__file__), sys.prefix, "/usr/lib", "/", "/dev/null"):
        about = os.stat(path)
        tries += [
            f"os.chmod({path!r}, {about.st_mode & 0o7777})",
            f"os.utime({path!r}, ns=({about.st_atime_ns}, {about.st_mtime_ns}))",
            f"os.setxattr({path!r}, 'user.mark', b'x')",
            f"os.chown({path!r}, -1, -1)",
            f"os.rename({path!r}, '/scratch/mine')",
        ]
    tries += [f"os.close(os.open({gpipe_edu.__file__!r}, os.O_WRONLY))", "os.mkdir('/x')", "os.mkdir('/dev/x')"]
    tries += [
        f"os.close(os.open('/proc/sys/{name}', os.O_WRONLY))" for name in ("kernel/core_pattern", "vm/swappiness")
    ]
    assert inside(try_all, tries) == []


def test_the_server_is_out_of_reach_and_no_judge_is_to_be_seen(inside):
    tries = [
        "os.sched_setaffinity(1, {0})",
        "resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
        "os.close(os.open('/proc/1/mem', os.O_RDONLY))",
        "os.close(os.open('/proc/1/fd/2', os.O_RDONLY))",
        "os.close(os.open('/proc/1/environ', os.O_RDONLY))",
        "os.listdir('/proc/1/cwd')",
        "[socket.socket(fileno=number) for number in range(3, 20)]",
    ]
    assert inside(try_all, tries) == []
    signals = [f"os.kill(1, {number})" for number in (9, 19, 15, 10)]
    assert inside(try_all, signals) == signals
    assert inside(list_processes) == [2, True]


def list_judges():
    import os

    import gpipe_edu

    top = os.path.join(os.path.dirname(gpipe_edu.__file__), "judge")
    return sorted(os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names)


def calls_a_function(path):
    """Whether a file of the judges is one that an answer needs; what was compiled is named like its source."""
    return path.parts[0] == "guest" or path.name.startswith(("__init__.", "perform"))


def test_of_the_judges_there_is_only_what_calls_a_function(inside):
    seen = {Path(name) for name in inside(list_judges)}
    known = {path.relative_to(JUDGES) for path in JUDGES.rglob("*.py")}
    assert {path for path in seen if path.suffix == ".py"} == set(filter(calls_a_function, known))
    assert Path("tasks/ex02_clock/perform.py") in seen
    assert [path for path in seen if not calls_a_function(path) or not path.suffix.startswith(".py")] == []


def test_in_a_container_the_others_are_root_s_alone(tmp_path, monkeypatch):
    copy = shutil.copytree(JUDGES, tmp_path / "judge")
    monkeypatch.setattr(judges_files, "FOLDER", copy)
    for path in copy.rglob("*"):
        path.chmod(0o755)
    judges_files.shut()
    shut = {path.relative_to(copy) for path in copy.rglob("*") if path.is_file() and not path.stat().st_mode & 0o077}
    assert {Path("case.py"), Path("messages.toml"), Path("tasks/ex02_clock/check.py")} <= shut
    assert [path for path in shut if path.suffix == ".py" and calls_a_function(path)] == []


def list_processes():
    import os

    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [len(found), set(found) == {1, os.getpid()}]


def tell_all():
    import os

    files = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")[:-1]]
    kinds = sorted({name.partition(":")[0] for name in files})
    names = {
        "LC_CTYPE",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MPLBACKEND",
        "CUDA_VISIBLE_DEVICES",
        "KMP_DUPLICATE_LIB_OK",
    }
    rest = {name: value for name, value in os.environ.items() if name not in names}
    with open("/proc/self/status") as status:
        rights = {line.split()[1] for line in status if line.startswith("Cap")}
    return [kinds, rest, sorted(rights), os.getuid(), os.getsid(1)]


def test_it_has_pipes_a_folder_and_no_rights(inside):
    kinds, environment, rights, user, session = inside(tell_all)
    assert set(kinds) <= {"/dev/null", "pipe"}
    assert environment == {
        **{"HOME": "/scratch", "TMPDIR": "/scratch", "PWD": "/scratch", "PATH": os.defpath, "LANG": "C.UTF-8"},
        "GPIPE_EDUFORKED": "1",
    }
    assert rights == ["0" * 16]
    assert (user, session) == (65534, 1)


def read_key(number, serial):
    import ctypes

    text = ctypes.create_string_buffer(100)
    libc = ctypes.CDLL(None)
    return [libc.syscall(number, 11, serial, text, 100), text.value.decode()]


def test_the_teacher_s_keys_stay_the_teacher_s(inside):
    libc = ctypes.CDLL(None, use_errno=True)
    add, keyctl = map(system_calls.number, ("add_key", "keyctl"))
    serial = libc.syscall(add, b"user", b"gpipe_edu test", b"secret", 6, -2)  # the process's own keyring
    if serial < 0:
        pytest.skip(f"this system keeps no keys: {os.strerror(ctypes.get_errno())}")
    libc.syscall(keyctl, 5, serial, 0x3F3F3F3F)  # everybody may read it
    assert read_key(keyctl, serial) == [6, "secret"]
    assert inside(read_key, keyctl, serial) == [-1, ""]


def leave():
    """Processes, files that are hard to delete, and a port that is listened at."""
    import os
    import socket
    import time

    for _ in range(200):
        os.mkdir("deep")
        os.chdir("deep")
    os.symlink("/", "/scratch/link")
    listening = socket.create_server(("127.0.0.1", 2345))
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(0.01)
            os._exit(0)
    return listening.fileno() > 2


def find_left():
    import os
    import socket

    with socket.create_server(("127.0.0.1", 2345)):
        return [len(list(filter(str.isdigit, os.listdir("/proc")))), os.listdir("/scratch")]


def test_an_answer_leaves_nothing_for_the_next_one(inside):
    assert inside(leave) is True
    assert inside(find_left) == [2, []]


def test_what_can_not_be_loaded_is_told(server):
    with pytest.raises(OSError, match="in the sandbox, ModuleNotFoundError: No module named 'not_there'"):
        server.load(["not_there"])
    assert probe(SANDBOX, server.start) == Confinement(True, True, True, True)


def lock():
    import os

    os.makedirs("shut/away")
    os.umask(0o777)
    os.mkdir("shut/away/locked")
    return os.listdir("/scratch")


def test_a_sandbox_that_can_not_be_emptied_ends(inside):
    made = bubblewrap.start()
    try:
        assert inside(lock, server=made) == ["shut"]
        with pytest.raises(OSError, match="the sandbox has ended"):
            made.end_all()
    finally:
        made.close()


def start_with(monkeypatch, change):
    """A sandbox whose command line is changed by `change(options)`."""
    whole = bubblewrap._options
    monkeypatch.setattr(bubblewrap, "_options", lambda: change(list(whole())))
    return bubblewrap.start()


def swapped(old, new):
    def change(options):
        index = next(i for i in range(len(options)) if options[i : i + len(old)] == old)
        return options[:index] + new + options[index + len(old) :]

    return change


@pytest.mark.parametrize(
    ("change", "opened"),
    [
        (swapped(["--unshare-all"], ["--unshare-pid", "--unshare-ipc", "--unshare-uts"]), "network"),
        (swapped(["--remount-ro", "/"], []), "files"),
        (swapped(["--remount-ro", "/proc"], []), "files"),
        (swapped(["--remount-ro", "/"], ["--bind", "/tmp", "/tmp"]), "files"),
        (swapped(["--remount-ro", "/"], ["--ro-bind", "/tmp", "/tmp", "--remount-ro", "/"]), "files"),
    ],
)
def test_what_stands_open_is_found_by_trying(monkeypatch, change, opened):
    made = start_with(monkeypatch, change)
    try:
        held = probe(SANDBOX, made.start)
    finally:
        made.close()
    assert held == Confinement(True, True, True, True)._replace(**{opened: False})
    assert SANDBOX.missing(held) == [opened]


@pytest.mark.parametrize(
    "left_out",
    ["the kernel's keyrings", "modes, owners, times and attributes of files", "prlimit64", "socket"],
)
def test_a_filter_with_a_hole_is_found_by_trying(monkeypatch, left_out):
    whole = list(system_calls.rules())
    names = system_calls.FORBIDDEN.get(left_out, left_out).split()
    monkeypatch.setattr(system_calls, "rules", lambda: [rule for rule in whole if rule.name not in names])
    made = bubblewrap.start()
    try:
        assert probe(SANDBOX, made.start) == Confinement(True, True, True, calls=False)
    finally:
        made.close()


def test_with_its_maker_it_ends():
    """The kernel ends it: the maker is killed, and the server stopped, so neither can clean up."""
    program = """if True:
        import time
        from gpipe_edu.process import bubblewrap
        made = bubblewrap.start()
        print(made._process.pid, flush=True)
        time.sleep(600)"""
    maker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        (server,) = psutil.Process(int(maker.stdout.readline())).children()
        server.suspend()
    finally:
        maker.kill()
        maker.wait()
        maker.stdout.close()
    try:
        until(lambda: not server.is_running(), 15)
    finally:
        with suppress(psutil.NoSuchProcess):
            server.kill()
