"""The words of a command, or of a file that starts a training, with their values.

A shell script has them in arrays, in quoted variables, over several lines; other files have keys, with dots between a
key and those under it.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpipe_edu.base.terminal import needing

BARE: Final = object()
"""The value of a word that has none."""

CHOICE: Final = "activation-checkpoint:"
"""How torchtitan's command begins a choice of one of several, which has no value."""

_ASSIGNED: Final = re.compile(r"\w+\+?=\(?(?=[\"'(-]|$)")

_SET: Final = re.compile(
    r"""(?<![^\s;({"'])(\w+)\+?=(?:("[^"\s()`]+"|'[^'\s]+'|[^\s"'();`]+)(?=[ \t]*(?:[;#]|$)))?""", re.MULTILINE
)
"""What sets a variable, with its value if that is one word, and if the line sets nothing else."""

_USED: Final = re.compile(r"\$\{(\w+)(?::?-([^{}$]*))?\}|\$([A-Za-z_]\w*)")

_JSON_COMMENT: Final = re.compile(r"""("(?:\\.|[^"\\])*")|//[^\n]*|#[^\n]*|/\*.*?\*/""", re.DOTALL)
_LAST_COMMA: Final = re.compile(r"""("(?:\\.|[^"\\])*")|,\s*([}\]])""", re.DOTALL)


def words_of(text: str) -> dict[str, Any]:
    """The words of a command, or of the file of that name.

    Raises ValueError for a file that can't be read as what its name says, or for quotes that are not closed. OSError
    for a file that cannot be read.
    """
    path = Path(text)
    if "--" in text or not (re.fullmatch(r"\S+\.\w+", text) or path.is_file()):
        return dict(_of_command(text, "the command"))
    content = path.read_text(encoding="utf-8-sig")
    if path.suffix not in (".json", ".toml", ".yaml", ".yml"):
        return dict(_of_command(content, repr(text)))
    return dict(_flat("", _parsed(path, content)))


def _parsed(path: Path, content: str) -> Any:
    failed: tuple[type[Exception], ...] = (ValueError,)
    try:
        if path.suffix == ".json":
            return json.loads(_bare_json(content))
        if path.suffix == ".toml":
            return tomllib.loads(content)
        with needing("lab", f"a file that ends in {path.suffix}"):
            import yaml  # type: ignore[import-untyped]  # its types are a package of their own
        failed = (ValueError, yaml.YAMLError)
        return yaml.safe_load(content)
    except failed as error:
        raise ValueError(f"{str(path)!r} does not read as {path.suffix[1:].upper()}: {error}") from None


def _bare_json(text: str) -> str:
    """Without comments, and without a comma after the last item: DeepSpeed reads its settings as Hjson."""
    without = _JSON_COMMENT.sub(lambda match: match[1] or " ", text)
    return _LAST_COMMA.sub(lambda match: match[1] or match[2], without)


def _with_variables(text: str) -> str:
    """With the values of variables that the text always sets to the same word, or else the defaults that it gives."""
    values: dict[str, set[str]] = {}
    for match in _SET.finditer(text):
        values.setdefault(match[1], set()).add((match[2] or "").strip("\"'"))
    known = {name: told for name, found in values.items() if len(found) == 1 and (told := found.pop())}

    def value(match: re.Match[str], own: str = "") -> str:
        name, default = match[1] or match[3], match[2]
        return known.get(name, default or match[0]) if name != own else default or match[0]

    for _ in range(3):  # for a variable that is set to another
        known = {name: _USED.sub(partial(value, own=name), told) for name, told in known.items()}
    return _USED.sub(value, text)


def _of_command(text: str, named: str) -> Iterator[tuple[str, Any]]:
    try:
        words = list(_tokens(_with_variables(text).replace("\\\n", " ")))
    except ValueError as error:
        raise ValueError(f"{named} does not read as a shell's words ({error}): close its quotes") from None
    for index, word in enumerate(words):
        if word.startswith(CHOICE):
            yield (word, BARE)
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        after = words[index + 1] if index + 1 < len(words) else "--"
        found: Any = value if equals else BARE if after.startswith(("--", CHOICE)) else after
        yield (name, found)
        yield (name[2:].replace("-", "_"), found)  # torchtitan's are keys of a file as well, in either spelling


def _tokens(text: str) -> Iterator[str]:
    """Words, including those in quotes and in arrays."""
    for token in shlex.split(text, comments=True):
        inner = _ASSIGNED.sub("", token, count=1)
        if inner.count(")") > inner.count("("):
            inner = inner.rstrip(")")  # the end of an array
        if re.search(r"(^|\s)--\w", inner) and re.search(r"\s", inner.strip()):
            yield from _tokens(inner)
        elif inner.strip("()"):
            yield inner


def _flat(above: str, content: Any) -> Iterator[tuple[str, Any]]:
    yield (above, content)
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _flat(f"{above}.{key}" if above else str(key), value)
