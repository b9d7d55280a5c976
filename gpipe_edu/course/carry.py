"""A learner's function, packed so that another process can run it.

A function of a notebook lives in no file that could be imported, and importing a learner's file would run all of it.
So functions travel by value: their code and whatever else of the notebook they use, down to the helpers of helpers.
Classes travel as their source. What belongs to an installed package travels by name, and so arrives unharmed by
anything the notebook has done to it.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import hashlib
import importlib
import io
import linecache
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

OURS: Final = "gpipe_edu"
_INSTALLED: Final = ("site-packages", "dist-packages")
_spaces: dict[str, dict[str, Any]] = {}
"""In the process that unpacks: the names of each module that something was carried from."""


class Packed(NamedTuple):
    """A function on its way.

    body: what `unpack` takes. sources: the text of the learner's files and cells that it comes from. missing: what
    could not come along, by name, with its type. digest: the same for the same code, wherever and whenever typed.
    """

    name: str
    body: bytes
    sources: dict[str, str]
    missing: dict[str, str]
    digest: str


def pack(function: Callable[..., Any]) -> Packed:
    """Pack `function` with everything that it uses.

    Raises TypeError if the function itself can't be packed; of what it uses, that which can't be is left out and named
    if it turns out to be missed.
    """
    try:
        packer = _Packer()
        body = packer.bytes_of(function)
    except Exception:  # a lock, an open file, a generator somewhere in the notebook: find it and leave it
        packer = _Packer(careful=True)
        try:
            body = packer.bytes_of(function)
        except Exception as error:
            raise TypeError(f"this function cannot be taken to a process of its own: {error}") from None
    name = getattr(function, "__name__", type(function).__name__)
    return Packed(name, body, packer.sources, packer.missing, packer.digest())


def unpack(body: bytes) -> Callable[..., Any]:
    """The inverse of `pack`, in another process of the same Python. It runs code of the learner's."""
    function: Callable[..., Any] = pickle.loads(body)
    return function


class Parcel:
    """A packed function in a process that only hands it on: whoever unpickles the parcel gets the function."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (self._body,)


class _Packer:
    """Packs one function; `careful` tries every global value alone first, which takes longer and never fails."""

    def __init__(self, careful: bool = False) -> None:
        self.careful = careful
        self.sources: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self._digest = hashlib.sha256()

    def bytes_of(self, value: Any) -> bytes:
        file = io.BytesIO()
        _Pickler(self, file).dump(value)
        return file.getvalue()

    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def note(self, code: types.CodeType) -> None:
        """Remember the source for messages, and the code for the digest."""
        lines = linecache.getlines(code.co_filename)
        if lines:
            self.sources[code.co_filename] = "".join(lines)
        for part in _codes(code):
            plain = [const for const in part.co_consts if not isinstance(const, types.CodeType)]
            self._digest.update(part.co_code + repr((plain, part.co_names, part.co_varnames)).encode())

    def chosen(self, names: set[str], space: dict[str, Any]) -> dict[str, Any]:
        """Those of `names` that `space` has; when careful, only those that can travel."""
        names = {name for name in names if name in space and not name.startswith("__")}  # a class asks for __name__
        found = {name: space[name] for name in sorted(names) if name not in self.missing}
        if not self.careful:
            return found
        for name, value in list(found.items()):
            if isinstance(value, types.FunctionType | types.ModuleType):
                continue
            try:
                _Packer().bytes_of(value)
            except Exception:
                self.missing[name] = type(value).__name__
                del found[name]
        return found


class _Pickler(pickle.Pickler):
    def __init__(self, packer: _Packer, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.packer = packer

    def reducer_override(self, obj: Any) -> Any:
        """How to pack what pickle packs by name only."""
        if isinstance(obj, types.ModuleType):
            return importlib.import_module, (obj.__name__,)
        if isinstance(obj, types.FunctionType) and not _has_a_home(obj):
            return self._function(obj)
        if isinstance(obj, type) and not _has_a_home(obj):
            return self._class(obj)
        if isinstance(obj, functools._lru_cache_wrapper):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, staticmethod | classmethod):
            return type(obj), (obj.__func__,)
        if isinstance(obj, property):
            return property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)
        return NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        self.packer.note(function.__code__)
        space = self.packer.chosen(_global_names(function.__code__), function.__globals__)
        cells = [_contents(cell) for cell in function.__closure__ or ()]  # () for one that is still empty
        args = (marshal.dumps(function.__code__), function.__name__, function.__module__, len(cells))
        state = {
            "globals": space,
            "cells": cells,
            "defaults": function.__defaults__,
            "kwdefaults": function.__kwdefaults__,
            "dict": vars(function),
            "qualname": function.__qualname__,
        }
        return _make_function, args, state, None, None, _set_function

    def _class(self, cls: type) -> Any:
        source, file = _class_source(cls)
        code = compile(source, file, "exec")  # annotations stay text here and there, as in this file
        self.packer.note(code)
        self.packer.sources.setdefault(file, source)  # a notebook's cell is in no file
        space = vars(sys.modules.get(cls.__module__, builtins))
        # What the body itself uses must be there when it runs; what its methods use may come later.
        body = next(const for const in code.co_consts if isinstance(const, types.CodeType))
        names = {name for name in _names(code) | _names(body) if name != cls.__name__}
        early = self.packer.chosen(names, space)
        late = self.packer.chosen(_global_names(code) - names - {cls.__name__}, space)
        return _make_class, (source, file, cls.__name__, cls.__module__, early), late, None, None, _set_class


def _has_a_home(thing: Any) -> bool:
    """Whether another process finds `thing` under its name: it belongs to Python, an installed package or ours."""
    name = getattr(thing, "__module__", None) or ""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    module = sys.modules.get(name)
    if module is None or top == "__main__":
        return False
    found: Any = module
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not thing:  # made in a function, or replaced since
        return False
    file = getattr(module, "__file__", None)
    return file is None or top == OURS or any(part in _INSTALLED for part in Path(file).parts)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _names(code: types.CodeType) -> set[str]:
    """The names this code looks up outside itself."""
    wanted = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    return {step.argval for step in dis.get_instructions(code) if step.opname in wanted}


def _global_names(code: types.CodeType) -> set[str]:
    return {name for part in _codes(code) for name in _names(part)}


def _class_source(cls: type) -> tuple[str, str]:
    """The text of the class statement, and the name of the file or cell it stands in."""
    module = sys.modules.get(cls.__module__)
    cells = getattr(module, "In", None) if cls.__module__ == "__main__" else None
    if cells:  # a notebook: the last cell that defines it
        texts = [(cell, f"cell {number}") for number, cell in enumerate(cells)][::-1]
    else:
        file = getattr(module, "__file__", None) or "?"
        texts = [("".join(linecache.getlines(file)), file)]
    for text, file in texts:
        try:
            tree = ast.parse(text)
        except SyntaxError:  # a cell with a magic in it
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                # Blank lines in front keep the line numbers of the cell.
                lines = text.splitlines()[first - 1 : node.end_lineno]
                return "\n" * (first - 1) + "\n".join(lines) + "\n", file
    raise TypeError(f"the class {cls.__name__} has no source to be found; define it in a cell of its own")


def _contents(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _space(module: str) -> dict[str, Any]:
    """The names of a module that stands in for the one it came from; a dataclass looks for its module."""
    if module not in _spaces:
        stand_in = types.ModuleType(f"learner_{len(_spaces)}")
        sys.modules[stand_in.__name__] = stand_in
        _spaces[module] = vars(stand_in)
        _spaces[module]["__builtins__"] = builtins
    return _spaces[module]


def _make_function(code: bytes, name: str, module: str, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells)) or None
    return types.FunctionType(marshal.loads(code), _space(module), name, None, closure)


def _set_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    for cell, contents in zip(function.__closure__ or (), state["cells"], strict=True):
        for value in contents:
            cell.cell_contents = value
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__qualname__ = state["qualname"]
    vars(function).update(state["dict"])


def _make_class(source: str, file: str, name: str, module: str, needed: dict[str, Any]) -> type:
    space = _space(module)
    space.update(needed)
    exec(compile(source, file, "exec"), space)
    made: type = space[name]
    return made


def _set_class(cls: type, needed: dict[str, Any]) -> None:
    for function in vars(cls).values():
        if isinstance(function, types.FunctionType):
            function.__globals__.update(needed)


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)
