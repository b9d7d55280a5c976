"""A learner's function, packed so that another process can run it.

A function of a notebook lives in no file that could be imported, and importing a learner's file would run all of it.
So functions and classes are pickled by value: their code and all that they use of the notebook, down to the helpers of
helpers. What belongs to an installed package is pickled by name, and so arrives without any changes that the notebook
has made to it.

`cloudpickle` pickles functions and classes. Added here: a learner's file is treated like a notebook, what cannot be
pickled is left out and named, and the sources and a digest of all code that travels are kept.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import importlib
import io
import linecache
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import cloudpickle
from cloudpickle.cloudpickle import _dynamic_class_reduce

from .lines import Line, lines_of

_OURS: Final = ("gpipe_edu", "cloudpickle")  # wherever they lie
_INSTALLED: Final = ("site-packages", "dist-packages")
_STANDARD_LIBRARY: Final = Path(dataclasses.__file__).parent
_PLAIN: Final = (bool, int, float, str, bytes, type(None))


class Packed(NamedTuple):
    """A function on its way.

    body: what `unpack` takes. sources: the text of the learner's files and cells that it comes from. missing: what
    could not be packed, by name, with its type. digest: the same for the same code, in any file and at any time.
    """

    name: str
    body: bytes
    sources: dict[str, str]
    missing: dict[str, str]
    digest: str

    def as_message(self) -> dict[str, Any]:
        """As plain data, for another process."""
        return {**self._asdict(), "body": base64.b64encode(self.body).decode()}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Packed:
        """The inverse of `as_message`."""
        return cls(**{**message, "body": base64.b64decode(message["body"])})

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]:
        """Those lines (file, number, function) that are the learner's own, with their texts."""
        return tuple(self._with_text(Line(*line)) for line in found if line[0] in self.sources)

    def _with_text(self, line: Line) -> Line:
        texts, number = lines_of(self.sources[line.file]), int(line.number)
        text = texts[number - 1].strip() if 0 < number <= len(texts) else ""
        return Line(line.file, number, str(line.function), text)


def pack(function: Callable[..., Any]) -> Packed:
    """Pack `function` with everything that it uses.

    Raises TypeError if the function itself can't be packed; of what it uses, values that can't be are left out, and
    named if they turn out to be needed.
    """
    try:
        packer = _Packer()
        body = packer.bytes_of(function)
    except Exception:  # a lock, an open file, a generator somewhere in the notebook: find it and leave it out
        packer = _Packer(careful=True)
        try:
            body = packer.bytes_of(function)
        except Exception as error:
            raise TypeError(f"this function cannot be taken to a process of its own: {error}") from None
    name = getattr(function, "__name__", type(function).__name__)
    return Packed(name, body, packer.sources, packer.missing, packer.digest())


def unpack(body: bytes) -> Callable[..., Any]:
    """The inverse of `pack`, in another process of the same Python. It runs the learner's code."""
    function: Callable[..., Any] = pickle.loads(body)
    return function


def unpack_a_copy(body: bytes) -> Callable[..., Any]:
    """As `unpack`, in the very process that has packed the function: its classes become copies, too.

    cloudpickle recognizes a class that it has seen before, returns it and sets its attributes anew, which would change
    the notebook's own class.
    """
    known = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID = weakref.WeakValueDictionary()
    try:
        return unpack(body)
    finally:
        cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID = known


class Forwarded:
    """A packed function in a process that only passes it on: where it is unpickled, it becomes the function."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __reduce__(self) -> tuple[Any, ...]:
        return unpack, (self._body,)


class _Packer:
    """Packs one function; `careful` first tries every value by itself, which takes longer and leaves out what fails."""

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
        if lines and not is_in_a_library(code.co_filename):  # whose decorators bring such code along
            self.sources[code.co_filename] = "".join(lines)
        for part in _codes(code):
            plain = [_as_text(const) for const in part.co_consts if not isinstance(const, types.CodeType)]
            self._digest.update(part.co_code + repr((plain, part.co_names, part.co_varnames)).encode())

    def note_values(self, values: Mapping[str, Any]) -> None:
        """Remember the numbers and strings among `values` for the digest, since they are typed like code."""
        plain = {name: value for name, value in values.items() if type(value) in _PLAIN}
        self._digest.update(repr(sorted(plain.items())).encode())

    def choose(self, values: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
        """Those of `values`, by name, that can be pickled; the others are missing, as "name" or "owner.name"."""
        return {name: value for name, value in values.items() if not self.careful or self._travels(owner + name, value)}

    def _travels(self, name: str, value: Any) -> bool:
        if isinstance(value, types.FunctionType | types.ModuleType | type):  # what it uses is looked at by itself
            return True
        if name not in self.missing:
            try:
                _Packer().bytes_of(value)
            except Exception:
                self.missing[name] = type(value).__name__
        return name not in self.missing


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    def __init__(self, packer: _Packer, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.packer = packer

    def reducer_override(self, obj: Any) -> Any:
        """How to pack what pickle packs by name only."""
        if isinstance(obj, types.ModuleType) and obj.__name__ in sys.modules:
            return importlib.import_module, (obj.__name__,)
        if isinstance(obj, types.FunctionType):
            if (original := _original(obj)) is not None:
                return getattr, (importlib.import_module(original.__module__), original.__qualname__)
            if not _has_a_home(obj):
                return self._function(obj)
        if isinstance(obj, type) and not _has_a_home(obj):
            return self._class(obj)
        if isinstance(obj, functools._lru_cache_wrapper) and not _has_a_home(obj):
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, functools.cached_property):  # without its lock
            return functools.cached_property, (obj.func,), {"attrname": obj.attrname}
        if obj is dataclasses.MISSING:  # dataclasses ask whether a default *is* this one
            return "MISSING"
        return super().reducer_override(obj)

    def _function(self, function: types.FunctionType) -> Any:
        self.packer.note(function.__code__)
        self.packer.note_values(_defaults(function))
        make, arguments, (attributes, state), *rest = self._dynamic_function_reduce(function)
        # Its module does not exist there. Code that looks it up by name, as a dataclass does, finds this one.
        arguments[1]["__name__"] = "__main__"
        state["__globals__"] = self.packer.choose(state["__globals__"])
        return make, arguments, (attributes, state), *rest

    def _class(self, cls: type) -> Any:
        self.packer.note_values({name: value for name, value in vars(cls).items() if not name.startswith("__")})
        make, arguments, (attributes, state), *rest = _dynamic_class_reduce(cls)
        # A slot's descriptor cannot be pickled; without it the slot is an ordinary attribute.
        free = {name: value for name, value in attributes.items() if not isinstance(value, types.MemberDescriptorType)}
        return make, arguments, (self.packer.choose(free, f"{cls.__name__}."), state), *rest


def _has_a_home(thing: Any) -> bool:
    """Whether another process finds `thing` by name: it belongs to Python, an installed package or ours."""
    name = getattr(thing, "__module__", None) or ""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        # A learner's decorator may claim by functools.wraps that its function is Python's.
        return not isinstance(thing, types.FunctionType) or thing.__globals__.get("__name__") != "__main__"
    module = sys.modules.get(name)
    if module is None or top == "__main__":
        return False
    found: Any = module
    for part in thing.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not thing:  # made in a function, or replaced since
        return False
    file = getattr(module, "__file__", None)
    return file is None or top in _OURS or is_in_a_library(file)


def is_in_a_library(file: str) -> bool:
    """Whether a file of code is Python's own or belongs to an installed package."""
    return _STANDARD_LIBRARY in Path(file).parents or any(part in _INSTALLED for part in Path(file).parts)


def _original(function: types.FunctionType) -> Any:
    """What a library's function replaces, as IPython's `open` replaces Python's; None for any other."""
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is None or not any(part in _INSTALLED for part in Path(function.__code__.co_filename).parts):
        return None
    home = sys.modules.get(getattr(wrapped, "__module__", None) or "")
    return wrapped if getattr(home, getattr(wrapped, "__qualname__", ""), None) is wrapped is not function else None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _as_text(const: object) -> str:
    """A constant as text; a frozenset is sorted, since its order differs between processes."""
    return repr(sorted(map(repr, const))) if isinstance(const, frozenset) else repr(const)


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    by_place = {str(index): value for index, value in enumerate(function.__defaults__ or ())}
    return by_place | (function.__kwdefaults__ or {})


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)
