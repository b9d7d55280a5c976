"""Compiles the pretend GPU into the folder of temporary files, once per text and release of PyTorch."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils import cpp_extension

SOURCE = Path(__file__).with_name("gpu.cpp")
COMPILER = shutil.which("c++")


def built() -> Path:
    """The library; compiled if it is not there. Raises RuntimeError with what the compiler said."""
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"gpipe_edu_pretend_gpu_{key}.so"
    with FileLock(f"{library}.lock"):
        if not library.exists():
            _compile(library)
    return library


def _compile(library: Path) -> None:
    abi = int(torch.compiled_with_cxx11_abi())
    command = [COMPILER, "-shared", "-fPIC", "-std=c++20", "-O0", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    command += ["-DAT_PER_OPERATOR_HEADERS", *(f"-I{folder}" for folder in cpp_extension.include_paths())]
    command += [str(SOURCE), "-o", f"{library}.part"]
    command += [f"-L{folder}" for folder in cpp_extension.library_paths()] + ["-ltorch_cpu", "-lc10"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"gpu.cpp did not compile:\n{done.stderr[-4000:]}")
    Path(f"{library}.part").rename(library)
