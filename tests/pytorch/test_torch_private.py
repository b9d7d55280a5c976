"""A release of PyTorch without one of its private names: refused by that name, or as right as before."""

import ast
import importlib
import re
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import pytest
import torch

from gpipe_edu.pytorch import torch_private

from . import bench

ENGINE = Path(torch_private.__file__).parent


@pytest.fixture
def without(monkeypatch):
    """torch_private imported anew where PyTorch lacks a name, until the test is over; PyTorch has it again behind."""

    @contextmanager
    def lacking(path):
        *places, name = path.split(".")
        holder = reduce(getattr, places, torch)
        with monkeypatch.context() as changed:
            if name in vars(holder):
                changed.delattr(holder, name)
            else:  # inherited from a class in C, of which nothing can be deleted
                changed.setattr(holder, name, None)
            importlib.reload(torch_private)
            yield

    yield lacking
    importlib.reload(torch_private)


def trains():
    """Whether PyTorch itself can do without."""
    try:
        bench.mse(bench.mlp()(bench.data(7)[0]), bench.data(7)[1]).backward()
    except AttributeError:
        return False
    return True


def test_this_release_has_all_and_is_known():
    torch_private.check()
    assert ".".join(torch.__version__.split(".")[:2]) in torch_private.TESTED


@pytest.mark.parametrize("path", torch_private.NEEDED)
def test_without_a_name_that_it_needs_it_is_not_imported_and_says_which_releases_it_knows(path, without):
    use = torch_private.NEEDED[path]
    words = re.escape(f"torch.{path} ({use}). Tested are 2.11, 2.12, 2.13; take one of these, or the NumPy engine")
    said = f"has changed what a pipe needs of its private names: {words}"
    with pytest.raises(ImportError, match=said), without(path):
        pass


@pytest.mark.parametrize("path", torch_private.OPTIONAL)
def test_without_a_name_of_a_guard_all_that_is_right_works(path, without):
    with without(path):
        ways = bench.WAYS if trains() else []
        for way in ways:
            bench.compare(bench.mlp(), *bench.data(7), way=way)
    if not ways:
        for way in bench.WAYS:
            bench.compare(bench.mlp(), *bench.data(7), way=way)


def test_a_private_name_stands_nowhere_else():
    """In what is imported from torch, and in what is asked of it."""
    for file in ENGINE.rglob("*.py"):
        if file.name == "torch_private.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
                words = [*node.module.split("."), *(one.name for one in node.names)]
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith(("torch.", "nn.")):
                words = ast.unparse(node).split(".")
            else:
                continue
            private = {word for word in words if re.match(r"_[A-Za-z]", word)} - {"_dynamo"}
            assert not private, f"{file.name}, line {node.lineno}"
