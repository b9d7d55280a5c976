"""Files that say how a training is to be divided, and nothing of how it ran: what they are, and what takes them.

What their words mean is known to `plan`; here it is enough to know whose they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gpipe_edu.base.words import plural, program, shown
from gpipe_edu.split import balance_of_layout

_MODEL: Final = "`{program} plan --model {file}` plans its training"
_LIKE: Final = "`{program} plan --like {file}{model}` plans it beside the best"
_OF_A_MODEL: Final = " --model config.json"

_BY_KEYS: Final = (
    (
        {"peft_type"},
        "a file of what adapts a model (peft)",
        "`{program} plan --model` takes that model's config.json",
    ),
    ({"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"}, "DeepSpeed's settings", _LIKE),
    ({"model_type", "hidden_size", "architectures", "n_embd"}, "a model's sizes, as Hugging Face keeps them", _MODEL),
    ({"n_layers", "n_heads"}, "a model's sizes, as Meta keeps them", "`{program} plan --model` takes its config.json"),
)
"""For a JSON file with any of these keys: what it is, and what takes it."""

_BY_WORDS: Final = (
    (r"--parallelism\.|^\[parallelism\]", "torchtitan's settings", _OF_A_MODEL),
    (
        r"--(?:pipeline|tensor)-model-parallel-|--micro-batch-size\b",
        "Megatron-LM's arguments",
        "",
    ),
    (r"^parallelism:", "nanotron's settings", ""),
)
"""For a text in which this is found: what it is, and the option that gives the model, where the text does not."""

_LONGEST: Final = 250
"""Characters of a path in a sentence."""

_LAYOUT: Final = re.compile(r"\s*+E(?=[^|]*+\|)[EtmL|()*\d,\s]*+")


def job_of_object(path: Path, keys: Collection[str]) -> tuple[str, str] | None:
    """What a JSON object with these keys is, and a sentence on what takes it; None if it is no job."""
    for known, what, takes in _BY_KEYS:
        if not known.isdisjoint(keys):
            return what, _sentence(takes, path, _OF_A_MODEL)
    return None


def job_of_text(path: Path, text: str) -> tuple[str, str] | None:
    """The same for a text: a command or a script, TOML, YAML, or a layout of Megatron-LM's."""
    for known, what, model in _BY_WORDS:
        if re.search(known, text, re.MULTILINE):
            return what, _sentence(_LIKE, path, model)
    return _layout(text) if _LAYOUT.fullmatch(text) else None


def _sentence(takes: str, path: Path, model: str) -> str:
    return takes.format(program=program(), file=_typed(path), model=model)


def _typed(path: Path) -> str:
    """The file as a shell takes it; one that a terminal would not show as it is keeps its name to itself."""
    text = str(path)
    return shlex.quote(text) if text.isprintable() and len(text) <= _LONGEST else "FILE"


def _layout(text: str) -> tuple[str, str]:
    layout = "".join(text.split())
    brief = shown(layout, 120)
    try:
        stages = plural(len(balance_of_layout(layout)), "stage")
    except ValueError as error:
        return "a layout of Megatron-LM's", str(error)
    words = f"--pipeline-model-parallel-size K --pipeline-model-parallel-layout {brief}"
    return f"a layout of Megatron-LM's, {stages}", (
        f'`gpipe_edu.split.balance_of_layout("{brief}")` gives the blocks of each stage, and '
        f"`{program()} plan --like {shlex.quote(words)}{_OF_A_MODEL}` plans them beside the best"
    )
