"""Many small cases in one test, where an item for each would cost more than what it looks at."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`pytest.mark.parametrize` as one item: all cases are tried, and those that fail are named.

    names: of the arguments, with commas between. cases: an argument, or a tuple of them, for each case. They share the
    test's fixtures.
    """
    arguments, cases = [name.strip() for name in names.split(",")], list(cases)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @without(arguments, function)
        def test(**fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            for case in cases:
                values = case if len(arguments) > 1 else (case,)
                try:
                    function(**fixtures, **dict(zip(arguments, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed[f"{case!s:.200}"] = error
            if failed:
                raise BaseExceptionGroup(f"failed: {'; '.join(failed)}", list(failed.values()))

        return test

    return decorate


def without(arguments: Collection[str], function: Callable[..., Any]) -> Callable[[Callable[..., None]], Any]:
    """As `functools.wraps`, for a test that finds these arguments of the function by itself."""

    def decorate(test: Any) -> Any:
        signature = inspect.signature(function)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        functools.update_wrapper(test, function).__signature__ = signature.replace(parameters=left)
        return test

    return decorate
