"""Is this what each device holds? The rules are the docstring's; what was counted instead is found by counting it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from gpipe_edu.base.words import tell_apart
from gpipe_edu.judge.bill import OF_ACTIVATIONS, OF_STATE, Beliefs, Count, Model, Plan, activations, state, ways
from gpipe_edu.judge.case import Case, Exam, Sign
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.forms import describe

_LLAMA: Final = Model(32, 4096, 128_000, 8192)

_PLANS: Final = (
    Plan(1, 1, 1, 1, 4, 1, "none"),
    Plan(1, 1, 4, 1, 8, 1, "none"),
    Plan(1, 4, 4, 1, 2, 1, "none"),
    Plan(4, 8, 2, 1, 16, 2, "none"),
    Plan(2, 2, 4, 2, 8, 1, "none"),
    Plan(8, 4, 4, 4, 4, 3, "none"),
    Plan(1, 1, 1, 1, 4, 1, "full"),
    Plan(2, 4, 4, 1, 8, 2, "full"),
    Plan(2, 4, 4, 2, 8, 2, "full"),
)


class _Asked(NamedTuple):
    """A bill: pairs of state and activations, one for each device."""

    case: Case
    model: Model
    plan: Plan
    rows: list[tuple[Any, Any]]


def examine(exam: Exam, rng: Random) -> Success:
    """Plans that tell the slips apart, and random ones. All are asked first: one number alone proves no slip."""
    jobs = [(_LLAMA, plan) for plan in _PLANS] + [_draw(rng) for _ in range(9)]
    asked = [_ask(exam, model, plan) for model, plan in jobs]
    _judge(asked, 0, "state", state, OF_STATE)
    _judge(asked, 1, "activations", activations, OF_ACTIVATIONS)
    with exam.blame_on("remembers"):
        for model, plan in jobs[:2]:
            again = [_ask(exam, model, plan)]
            for column, count in enumerate((state, activations)):
                _judge(again, column, ("state", "activations")[column], count, {})
    (first, *_), plan = asked[1].rows, asked[1].plan
    told = {"first": _gigabytes(sum(first)), "last": _gigabytes(sum(asked[1].rows[-1]))}
    return exam.success(K=plan.K, M=plan.M, **told)


def _draw(rng: Random) -> tuple[Model, Plan]:
    K, V = rng.choice((2, 3, 4, 8)), rng.choice((1, 1, 2, 3))
    words, tokens = 1000 * rng.randint(16, 200), 512 * rng.randint(1, 16)
    model = Model(K * V * rng.randint(1, 4), 256 * rng.randint(4, 40), words, tokens)
    M = K * rng.randint(1, 4) if V > 1 else rng.randint(1, 12)
    T, D, recompute = rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 4, 16)), rng.choice(("none", "full"))
    return model, Plan(T, D, K, V, M, rng.randint(1, 4), recompute)


def _ask(exam: Exam, model: Model, plan: Plan) -> _Asked:
    given = {"model": model._asdict(), "plan": plan._asdict()}
    case = exam.case(f"bill({_write(given['model'])}, {_write(given['plan'])})", _told(model, plan))
    rows, model_after, plan_after = case.ask(**given)
    case.came = describe(rows, 200)
    case.judge(_form(rows, plan))
    for before, after in zip(given.values(), (model_after, plan_after), strict=True):
        case.judge([Sign("input-changed", after != before, describe(before, 200), describe(after, 200))])
    rows = [tuple(row) for row in rows]
    case.came = _in_words(rows)
    return _Asked(case, model, plan, rows)


def _form(rows: Any, plan: Plan) -> Iterator[Sign]:
    yield Sign("no-return", rows is None, came="None")
    yield Sign("not-rows", not isinstance(rows, list))
    totals = len(rows) == plan.K and all(_is_number(row) for row in rows)
    yield Sign("one-number", totals)
    yield Sign("not-rows", not all(isinstance(row, list) and len(row) == 2 for row in rows) and len(rows) != 2)
    yield Sign(
        "columns", len(rows) == 2 != plan.K and all(isinstance(row, list) and len(row) == plan.K for row in rows)
    )
    yield Sign("rows", len(rows) != plan.K, difference=f"{len(rows)} rows, and K = {plan.K}")
    yield Sign("not-rows", not all(isinstance(row, list) and len(row) == 2 for row in rows))
    yield Sign("not-numbers", not all(_is_number(value) for row in rows for value in row))


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool | str) and float(value) == float(value) and abs(float(value)) != float("inf")
    except (TypeError, ValueError):
        return False


def _judge(asked: Sequence[_Asked], column: int, name: str, count: Count, beliefs: Beliefs) -> None:
    """Judge one column of all bills, at the first that is wrong; the slip explains all of them."""
    for bill in asked:
        wrong = [k for k in range(bill.plan.K) if not _is(bill, k, column, count(bill.model, bill.plan, k))]
        if wrong:
            k = wrong[0]
            mine, truth = bill.rows[k][column], count(bill.model, bill.plan, k)
            ours, theirs = tell_apart(float(mine) / 1e9, float(truth) / 1e9, 4)
            difference = f"{name} of device {k}: {ours} GB, and it is {theirs} GB"
            bill.case.difference = difference
            bill.case.judge(_reasons(asked, column, count, beliefs))
            bill.case.judge([Sign(f"{name}-off")])


def _reasons(asked: Sequence[_Asked], column: int, count: Count, beliefs: Beliefs) -> Iterator[Sign]:
    other = (state, activations)[1 - column]
    yield Sign("exchanged", _all(asked, column, lambda *of: other(*of)))
    for unit in (10**9, 2**30, 10**6):
        yield Sign("unit", _all(asked, column, lambda *of, unit=unit: count(*of) / unit))
    yield Sign("from-behind", _all(asked, column, lambda model, plan, k: count(model, plan, plan.K - 1 - k)))
    for slip, way in ways(beliefs):
        yield Sign(slip, _all(asked, column, lambda *of, way=way: count(*of, **way)))


def _all(asked: Sequence[_Asked], column: int, count: Any) -> bool:
    return all(_is(bill, k, column, count(bill.model, bill.plan, k)) for bill in asked for k in range(bill.plan.K))


def _is(bill: _Asked, k: int, column: int, truth: float) -> bool:
    return abs(float(bill.rows[k][column]) - float(truth)) <= 1e-6 * max(1.0, abs(float(truth)))


def _told(model: Model, plan: Plan) -> str:
    return _in_words([(state(model, plan, k), activations(model, plan, k)) for k in range(plan.K)])


def _in_words(rows: Sequence[tuple[Any, Any]]) -> str:
    """The rows in GB."""
    shown = [f"({_gigabytes(one)}, {_gigabytes(other)})" for one, other in rows[:4]]
    return ", ".join(shown) + (f", ... {len(rows)} rows" if len(rows) > 4 else "")


def _gigabytes(value: Any) -> str:
    return f"{float(value) / 1e9:.4g} GB"


def _write(given: dict[str, Any]) -> str:
    return f"dict({', '.join(f'{name}={value!r}' for name, value in given.items())})"
