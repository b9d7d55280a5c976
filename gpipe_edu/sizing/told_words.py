"""The words of a command, or of a file that starts a training, with their values.

A shell script has them in its commands and variables (`shell_words.py`); other files have keys, with dots between a key
and those under it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gpipe_edu.base.bounded import (
    TooMuchError,
    check_brackets,
    check_values,
    in_one_sentence,
    parse_json,
    parse_toml,
    read_text,
)
from gpipe_edu.base.terminal import needing
from gpipe_edu.base.words import shown

from .shell_words import words_of_script

BARE: Final = object()
"""The value of a word that has none."""

CHOICE: Final = "activation-checkpoint:"
"""How torchtitan's command begins a choice of one of several, which has no value."""

_JSON_COMMENT: Final = re.compile(
    r"""("(?:\\.|[^"\\])*+"?)|//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?""", re.DOTALL
)
_LAST_COMMA: Final = re.compile(r"""("(?:\\.|[^"\\])*+"?)|,\s*+([}\]])""", re.DOTALL)

_LAYOUT: Final = re.compile(r"""(--(?:pipeline-model-parallel-layout|moe-layer-freq)[ =])([^\s"'$]+)""")
"""Their strokes and brackets stand in quotes in a script, which are gone where the words are typed."""

_MOST_YAML: Final = 100_000
"""Letters: PyYAML reads some tens of thousands in a second."""


def words_of(text: str) -> dict[str, Any]:
    """The words of a command, or of the file of that name.

    Raises ValueError for a file that can't be read as what its name says, or for quotes that are not closed. OSError
    for a file that cannot be read.
    """
    if "--" in text or not (re.fullmatch(r"\S+\.\w+", text) or _is_file(text)):
        return dict(_of_command(text, "the command"))
    path, told = Path(text), shown(text, 100)
    content = read_text(path)
    if path.suffix not in (".json", ".toml", ".yaml", ".yml"):
        return dict(_of_command(content, repr(told)))
    with in_one_sentence(repr(told)):
        parsed = _parsed(path, content)
        check_values(parsed, repr(told))
        return dict(_flat("", parsed))


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _parsed(path: Path, content: str) -> Any:
    failed: tuple[type[Exception], ...] = (ValueError,)
    try:
        if path.suffix == ".json":
            return parse_json(_bare_json(content), path.name)
        if path.suffix == ".toml":
            return parse_toml(content, path.name)
        check_brackets(content, path.name)
        if len(content) > _MOST_YAML:
            raise TooMuchError(f"it has {len(content):,} letters, and {_MOST_YAML:,} are the most")
        with needing("lab", f"a file that ends in {path.suffix}"):
            import yaml  # type: ignore[import-untyped]  # its types are a package of their own
        failed = (ValueError, yaml.YAMLError)
        return yaml.safe_load(content)
    except failed as error:
        told = shown(str(path), 100)
        raise ValueError(f"{told!r} does not read as {path.suffix[1:].upper()}: {shown(str(error), 200)}") from None


def _bare_json(text: str) -> str:
    """Without comments, and without a comma after the last item: DeepSpeed reads its settings as Hjson."""
    without = _JSON_COMMENT.sub(lambda match: match[1] or " ", text)
    return _LAST_COMMA.sub(lambda match: match[1] or match[2], without)


def _of_command(text: str, named: str) -> Iterator[tuple[str, Any]]:
    with in_one_sentence(named):
        words = words_of_script(_LAYOUT.sub(r"\1'\2'", text), named)
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


def _flat(above: str, content: Any) -> Iterator[tuple[str, Any]]:
    yield (above, content)
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _flat(f"{above}.{key}" if above else str(key), value)
