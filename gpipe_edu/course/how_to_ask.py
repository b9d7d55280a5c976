"""How a learner asks for more: with a call in a notebook, with a command in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gpipe_edu.base.words import program

_typed: ContextVar[bool] = ContextVar("typed", default=False)


@contextmanager
def from_a_terminal() -> Iterator[None]:
    """While this lasts, learners are told commands."""
    token = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(token)


def hint(key: str) -> str:
    """How to ask for a hint."""
    return f"`{program()} hint {key}`" if _typed.get() else f'`hint("{key}")`'


def solution(key: str, give_up: bool = False) -> str:
    """How to ask for a solution."""
    if _typed.get():
        return f"`{program()} solution {key}{' --give-up' if give_up else ''}`"
    return f'`solution("{key}"{", give_up=True" if give_up else ""})`'


def check(key: str, function: str, seed: int) -> str:
    """How to check with the same inputs again."""
    if _typed.get():
        return f"`{program()} check {key} --seed {seed}`"
    return f'`check("{key}", {function}, seed={seed})`'
