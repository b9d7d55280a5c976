"""Plain data between two processes: it always comes out as data, never as code.

Answers come from a process that runs a learner's code, so they are not unpickled. Numbers, text, lists, tuples, dicts,
arrays and ops keep their exact type; anything else arrives as `Other`, which is enough to say what it was.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpipe_edu.base.words import shorten, with_article
from gpipe_edu.schedule import Op, Schedule

_DEEPEST: Final = 20
_LONGEST: Final = 200

_MOST_KEYS: Final = 10_000
"""In one dict: keys with the same hash take time that grows with the square of their number."""


@dataclass(frozen=True, repr=False)
class Other:
    """Something that is not plain data: the name of its type, and its repr."""

    type: str
    text: str

    def __repr__(self) -> str:
        return self.text


def encode(value: Any) -> bytes:
    """`value` as bytes."""
    return json.dumps(_encode(value, 0)).encode()


def decode(data: bytes) -> Any:
    """The inverse of `encode`. Raises ValueError for bytes that `encode` did not write."""
    try:
        return _decode(json.loads(data))
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"no plain data: {type(error).__name__}") from None


def name_of(value: Any) -> str:
    """The type of a decoded value, in a learner's words."""
    if isinstance(value, Other):
        return value.type
    return "array" if isinstance(value, np.ndarray) else type(value).__name__


def a_name_of(value: Any) -> str:
    """The same with its article."""
    return with_article(name_of(value))


def _encode(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return {"other": ["value", "something that is nested too deeply"]}
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int:
        return value if abs(value) < 2**63 else {"int": hex(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Op):
        return {"op": [value.kind, int(value.micro_batch), int(value.stage)]}
    if isinstance(value, Schedule):
        return {"schedule": [[_encode(op, depth + 1) for op in row] for row in value.rows]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.str, list(value.shape), data]}
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return {"number": _encode(np.asarray(value), depth)["array"]}
    if isinstance(value, Other):
        return {"other": [value.type, value.text]}
    if isinstance(value, np.ndarray):
        return {"other": [f"array of type {value.dtype}", _show(value)]}
    if isinstance(value, list):
        return {"list": [_encode(item, depth + 1) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key, depth + 1), _encode(item, depth + 1)] for key, item in value.items()]}
    if isinstance(value, int | float):
        return _encode(int(value) if isinstance(value, int) else float(value), depth)
    return {"other": [shorten(type(value).__name__, _LONGEST), _show(value)]}


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a learner's own __repr__
        text = "..."
    return shorten(text, _LONGEST)


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "list":
        return [_decode(item) for item in content]
    if tag == "tuple":
        return tuple(_decode(item) for item in content)
    if tag == "dict":
        if len(content) > _MOST_KEYS:
            raise ValueError(f"a dict of {len(content)} keys")
        return {_decode(key): _decode(item) for key, item in content}
    if tag in ("array", "number"):
        dtype, shape, data = content
        array = np.frombuffer(base64.b64decode(data), dtype=np.dtype(str(dtype))).reshape(shape).copy()
        return array if tag == "array" else array[()]
    if tag == "op":
        return Op(*content)
    if tag == "schedule":
        return Schedule([[_decode(op) for op in row] for row in content])
    if tag == "int":
        return int(content, 16)
    if tag == "float":
        return float(content)
    if tag == "other":
        return Other(*(shorten(str(text), _LONGEST) for text in content))
    raise KeyError(tag)
