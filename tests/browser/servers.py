"""JupyterLab, with Notebook 7 and Voila beside it, and `classroom`, as users start them, in folders of their own.

Nothing of the user's is read or written: configuration, data and history are in a temporary folder.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import nbformat

from gpipe_edu.course.commands.set_up import SLOW_KERNEL, prepare
from tests import ports, preloaded
from tests.processes import PATIENCE

TOKEN = "classroom"
ASKED_TO_STOP = 5
"""Seconds before a server that is asked to stop is killed."""

NEWS = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
FOLDERS = [
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
    "MPLCONFIGDIR",
    "GPIPE_EDU_HOME",
]


def notebook(folder, name, *cells):
    """A notebook with these code cells."""
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    document.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / f"{name}.ipynb"
    nbformat.write(document, path)
    return path


@contextlib.contextmanager
def jupyter(folder):
    """A server of JupyterLab on `folder` with the settings of `lab`, and of Notebook 7 and Voila: gives its address."""
    options = [
        "--no-browser",
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}",
        "--ServerApp.allow_root=True",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        SLOW_KERNEL,
    ]
    environment = dict(os.environ)
    prepare(environment)
    with _server(folder, ["jupyter", "lab", *options], "--ServerApp.port={}", "/api", environment) as address:
        yield address


@contextlib.contextmanager
def lab(folder, command):
    """The course as `make lab` serves it by its `command`: gives its address and the file of what it prints."""
    command = [*command, "--no-browser", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"]
    with _server(folder, command, "--port={}", "/api", os.environ) as address:
        yield address, folder / ".home" / "server.log"


@contextlib.contextmanager
def classroom(folder):
    """The puzzle alone, as the command serves it: gives its address."""
    command = ["gpipe_edu", "classroom", "--no-browser", "--Voila.ip=127.0.0.1"]
    with _server(folder, command, "--port={}", "/static/", os.environ) as address:
        yield address


def home(folder, name):
    """What the environment variable of that name says to a server on `folder`."""
    return folder / ".home" / name.lower()


@contextlib.contextmanager
def _server(folder, command, port_option, probe, environment):
    places = {name: home(folder, name) for name in FOLDERS}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    news = places["JUPYTERLAB_SETTINGS_DIR"] / NEWS
    news.parent.mkdir(parents=True, exist_ok=True)
    news.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    port = ports.free()
    address = f"http://127.0.0.1:{port}"
    log = folder / ".home" / "server.log"
    kernels = os.pathsep.join(filter(None, [preloaded.kernels(), environment.get("JUPYTER_PATH")]))
    own = {"JUPYTER_PATH": kernels, **{name: str(at) for name, at in places.items()}}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, port_option.format(port)],
            cwd=folder,
            env={**environment, **own},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, address + probe, log)
        yield address
    finally:
        _stop(process)


def _wait(process, address, log):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        try:
            urllib.request.urlopen(address, timeout=2)
            return
        except urllib.error.HTTPError as answer:
            answer.close()  # that this address has nothing to show does not matter
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"no answer in {PATIENCE} s:\n{log.read_text()[-3000:]}")


def _stop(process):
    """As Ctrl-C, twice; then whatever is left of what it started."""
    for _ in range(2):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ASKED_TO_STOP)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
