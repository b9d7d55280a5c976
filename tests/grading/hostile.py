"""Answers to ex02/clock that want marks, or harm, without an answer."""

from pathlib import Path

from tests.processes import ROOT

from .classroom import CLOCK

_PIPE = """import fcntl, os
def pipe():
    for number in range(3, 60):
        try:
            if "pipe" in os.readlink(f"/proc/self/fd/{number}") and fcntl.fcntl(number, 3) & 3 == 1:
                return number
        except OSError:
            pass"""
"""Finds what an answer's process writes its answers into."""

HOSTILE = {
    "reads the solution": f"""def clock(K, M):
    space = {{}}
    text = open({str(Path(ROOT) / "solutions" / "exercise_02_clock.py")!r}).read()
    exec(text[text.index("def clock"):text.index("### END")], space)
    return space["clock"](K, M)""",
    "asks a classmate": """def clock(K, M):
    import glob, json, os
    for folder, _, names in os.walk("/tmp"):
        for name in names:
            if name.endswith(".ipynb"):
                space = {}
                exec("".join(json.load(open(folder + "/" + name))["cells"][6]["source"]), space)
                return space["clock"](K, M)""",
    "is equal to all": """class Equal(list):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __len__ = lambda self: 9
def clock(K, M):
    return Equal([1])""",
    "patches the judge": """def clock(K, M):
    import gpipe_edu.judge.tasks.ex02_clock.check as check, gpipe_edu.process.plain as plain
    check.examine = lambda *a: None
    plain.encode = lambda value: b'{"tuple": [null, null]}'
    return []""",
    "writes the answer itself": """def clock(K, M):
    import os
    for number in range(3, 30):
        try:
            os.write(number, b'\\x00' * 7 + b'\\x04null')
        except OSError:
            pass
    return []""",
    "rewrites the package": f"""def clock(K, M):
    open({str(Path(ROOT) / "gpipe_edu" / "judge" / "tasks" / "ex02_clock" / "messages.toml")!r}, "a").write("# mine")
    return []""",
    "kills the judge": """def clock(K, M):
    import os
    os.kill(os.getppid(), 9)
    os.kill(-1, 9)
    return []""",
    "calls home": """def clock(K, M):
    import socket
    socket.create_connection(("192.0.2.1", 80), timeout=1)
    return []""",
    "leaves something running": """def clock(K, M):
    import os, time
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(0.01)
            os._exit(0)
    return []""",
    "forks without end": """def clock(K, M):
    import os
    while True:
        os.fork()""",
    "fills the memory that is shared": """def clock(K, M):
    import mmap
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 2**28))
        kept[-1].write(b"x" * 2**28)""",
    "fills the disk": """def clock(K, M):
    number = 0
    while True:
        number += 1
        open(f"file{number}", "wb").write(b"x" * 40_000_000)""",
    "sleeps": "def clock(K, M):\n    import time\n    time.sleep(10**6)",
    "loops on the way": "def slow():\n    while True:\n        pass\nclock = slow()",
    "ends quietly": "def clock(K, M):\n    import os\n    os._exit(0)",
    "prints": "def clock(K, M):\n    while True:\n        print('x' * 10**6)",
    "stops itself": """def clock(K, M):
    import os, signal
    os.kill(os.getpid(), signal.SIGSTOP)
    return []""",
    "disowns without end": """def clock(K, M):
    import os, time
    while True:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(10**6)
            os._exit(0)""",
    "reads the judge's memory": """def clock(K, M):
    import os
    with open(f"/proc/{os.getppid()}/mem", "r+b") as memory:
        memory.seek(0x400000)
        memory.write(b"passed")
    return []""",
    "has an error that never ends": """def clock(K, M):
    class Endless(Exception):
        def __str__(self):
            while True:
                pass
    raise Endless""",
    "is longer than any memory": """def clock(K, M):
    class Long(list):
        def __iter__(self):
            while True:
                yield [(0, 0)]
    return Long([[(0, 0)]])""",
    "looks for the judge among all objects": """def clock(K, M):
    import gc, sys
    for thing in gc.get_objects():
        if type(thing).__name__ in ("Exam", "Report", "Random"):
            return thing.expected
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if hasattr(value, "reference"):
                return value.reference(K, M)
        frame = frame.f_back
    return []""",
    "imports the truth": """def clock(K, M):
    from gpipe_edu.judge.tasks.ex02_clock.check import truth
    return truth(K, M)""",
    "imports the truth anew": """def clock(K, M):
    import sys
    for name in [name for name in sys.modules if "judge" in name]:
        del sys.modules[name]
    from gpipe_edu.judge.tasks.ex02_clock.check import truth
    return truth(K, M)""",
    "reads the truth": """def clock(K, M):
    import pathlib, gpipe_edu
    folder = pathlib.Path(gpipe_edu.__file__).with_name("judge") / "tasks" / "ex02_clock"
    space = {}
    for path in [folder / "check.py", *folder.glob("__pycache__/*")]:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError):
            continue
        text = text[text.index("def truth"):text.index("def judge")]
        exec(text.replace("Cell", "tuple"), space)
        return space["truth"](K, M)
    raise ValueError("it is not there")""",
    "finds the truth among all objects": """def clock(K, M):
    import gc, types
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__name__ == "truth" and thing.__code__.co_varnames[0] == "K":
            return thing(K, M)
    for kind in object.__subclasses__():
        if kind.__name__ == "LearnersClock":
            return [[cell] for cell in kind([], K, M).board]
    raise ValueError("it is not there")""",
    "stalls in the middle of a fork": """def clock(K, M):
    import ctypes, os, time
    vfork = (58,) if os.uname().machine == "x86_64" else (220, 0x4111, 0)
    if ctypes.CDLL(None).syscall(*vfork) == 0:
        while True:
            time.sleep(1)
    return []""",
    "returns keys of one hash": """def clock(K, M):
    import gpipe_edu.process.plain as plain
    keys = ",".join('[{"int": "%x"}, 0]' % (number * (2**61 - 1)) for number in range(120_000))
    plain.encode = lambda value: f'{{"tuple": [{{"dict": [{keys}]}}, null]}}'.encode()
    return []""",
    "takes files away from all it can find": """def clock(K, M):
    import os, resource
    for pid in [os.getppid(), *range(1, 100_000)]:
        try:
            if pid != os.getpid():
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))
        except OSError:
            pass
    return []""",
    "changes what it finds": """def clock(K, M):
    import os
    for folder, folders, names in os.walk("/"):
        for name in folders + names:
            for change in (lambda path: os.chmod(path, 0), lambda path: os.utime(path, (0, 0)), os.remove):
                try:
                    change(folder + "/" + name)
                except OSError:
                    pass
    return []""",
    "leaves what can't be deleted": """def clock(K, M):
    import os, tempfile
    folder = tempfile.mkdtemp()
    os.umask(0o777)
    os.mkdir(folder + "/locked")
    return []""",
    "leaves a solution above folders too deep to delete": f"""def clock(K, M):
    import os, shutil, tempfile
    os.chdir(tempfile.mkdtemp(prefix="gift"))
    open("clock.py", "w").write({CLOCK!r})
    for _ in range(5000):
        os.mkdir("d")
        os.chdir("d")
    return []""",
    "runs what somebody has left": """def clock(K, M):
    import os, tempfile
    for folder in ("/tmp", tempfile.gettempdir()):
        for path, folders, names in os.walk(folder):
            if "clock.py" in names:
                space = {}
                exec(open(path + "/clock.py").read(), space)
                return space["clock"](K, M)
            del folders[5:]
    return []""",
    "ends what it was forked from": """def clock(K, M):
    import os, signal
    for number in range(1, 65):
        if number not in (signal.SIGCHLD, 32, 33):
            os.kill(1, number)
    return []""",
    "works a little now and then": """def clock(K, M):
    import time
    while True:
        time.sleep(0.07)
        until = time.process_time() + 0.012
        while time.process_time() < until:
            pass""",
    "asks without end": f"""{_PIPE}
def clock(K, M):
    while True:
        os.write(pipe(), b"\\0\\0\\0\\0\\0\\0\\0\\x01?" * 100_000)""",
    "hands over without end": f"""{_PIPE}
def clock(K, M):
    os.write(pipe(), b"\\x40" + bytes(7))
    while True:
        os.write(pipe(), b"[" * 2**24)""",
    "says how much will come and says no more": f"""{_PIPE}
def clock(K, M):
    os.write(pipe(), b"\\0\\0\\x01" + bytes(5))
    import time
    time.sleep(10**6)""",
    "hands over nothing a million times": """def clock(K, M):
    import gpipe_edu.process.plain as plain
    plain.encode = lambda value: b'{"tuple": [[' + b"[]," * 40_000_000 + b"[]], null]}"
    return []""",
    "has a type with a long name": """def clock(K, M):
    import gpipe_edu.process.plain as plain
    plain.encode = lambda value: b'{"tuple": [{"other": ["%s", ""]}, null]}' % (b"x" * 15_000_000)
    return []""",
    "has an error of a long kind": """def clock(K, M):
    import gpipe_edu.process.plain as plain
    said = b'{"tuple": [null, {"tuple": ["%s", "", {"list": []}, {"list": []}]}]}' % (b"x" * 30_000_000)
    plain.encode = lambda value: said
    return []""",
    "is where nothing is": """def clock(K, M):
    import gpipe_edu.process.plain as plain
    plain.encode = lambda value: b'{"tuple": [null, {"tuple": ["X", "", {"list": [5, {"tuple": [1e99, 5]}]}, 7]}]}'
    return []""",
    "has arrays of all types": """def clock(K, M):
    import gpipe_edu.process.plain as plain
    kinds = ("U1", "M8[ns]", "f8,f8", "(1000,)f8", "V8", "c16")
    arrays = ",".join(f'{{"array": ["{kind}", [0], ""]}}' for kind in kinds)
    plain.encode = lambda value: f'{{"tuple": [{{"list": [{{"list": [{arrays}]}}]}}, null]}}'.encode()
    return []""",
    "has an array without end and without numbers": """def clock(K, M):
    import numpy as np
    return [np.zeros((10**12, 0))] * 3""",
    "writes a link and a colour": r"""def clock(K, M):
    print("\x1b]8;;//192.0.2.1\x07here\x1b[31m\u202e </pre><script>alert(1)</script> ``````` [a](javascript:1)")
    raise type("[a](//192.0.2.1) ![b](//192.0.2.1/x)", (ValueError,), {})("<img src=x> \x1b[2J\x00 ````")""",
    "writes files without end": """def clock(K, M):
    import os
    number = 0
    while True:
        number += 1
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))""",
    "leaves links to all there is": """def clock(K, M):
    import os
    os.mkdir("folder")
    for name, path in (("root", "/"), ("folder/lib", "/usr/lib"), ("self", "self")):
        os.symlink(path, name)
    if os.fork() == 0:
        while True:
            for make in (os.mkdir, os.rmdir, lambda path: os.symlink("/usr/lib", path), os.unlink):
                make("now")
    return []""",
    "leaves folders in folders": """def clock(K, M):
    import os
    for _ in range(5_000):
        os.mkdir("folder")
        os.chdir("folder")
    return []""",
    "breaks off": "def clock(K, M):\n    import ctypes\n    ctypes.string_at(0)",
    "closes all": "def clock(K, M):\n    import os\n    os.closerange(0, 1000)",
    "waits for nobody": "def clock(K, M):\n    import ctypes\n    ctypes.CDLL(None).pause()",
    "starts threads without end": """def clock(K, M):
    import threading, time
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()""",
    "hears no signal": """def clock(K, M):
    import signal
    for number in set(range(1, 65)) - {9, 19, 32, 33}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass""",
    "has a class of its own choice": """class Whole(int):
    __class__ = property(lambda self: int)
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
class Ticks(list):
    __class__ = property(lambda self: list)
    __iter__ = lambda self: iter([[(Whole(0), Whole(0))]])
def clock(K, M):
    return Ticks()""",
    "is traced": """def clock(K, M):
    import sys
    found, frame = [], sys._getframe()
    while frame:
        found += [value for value in frame.f_locals.values() if isinstance(value, list) and len(value) == M + K - 1]
        frame = frame.f_back
    return found[0] if found else []""",
    "changes how all is written": """def clock(K, M):
    import base64, json
    json.dumps = lambda *a, **k: "[" * 100_000
    return []""",
    "fans out": "def clock(K, M):\n    x = (0,)\n    for _ in range(18):\n        x = (x, x, x)\n    return x",
    "never gives up its last object": """def clock(K, M):
    class Last:
        def __del__(self):
            while True:
                pass
    Last()
    return []""",
    "own check": "def check(*a): pass\ndef clock(K, M):\n    return 7",
}
