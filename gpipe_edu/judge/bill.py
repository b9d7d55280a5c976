"""What each device of a pipeline holds at its peak, and what people count instead.

The sizes: a block has 12 h^2 weights, and keeps 34 bytes for each token and feature, without attention scores
(Korthikanti et al. 2022, arXiv 2205.05198); weights, gradients in fp32 and Adam's state take 2 + 4 + 12 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final, NamedTuple


class Model(NamedTuple):
    """A Transformer. tokens: in one sample."""

    blocks: int
    width: int
    vocabulary: int
    tokens: int


class Plan(NamedTuple):
    """How it is trained. samples: in one micro-batch. recompute: "none" or "full"."""

    T: int
    D: int
    K: int
    V: int
    M: int
    samples: int
    recompute: str


def state(model: Model, plan: Plan, k: int, **belief: Any) -> float:
    """Bytes of weights, gradients and optimizer state on device k. belief: what somebody believes instead."""
    its: dict[str, Any] = {"each": (2, 4, 12), "sharded": (False, False, True), "over": plan.D, "blocks": 1 / plan.K}
    its |= {"embedding": k == 0, "head": k == plan.K - 1, "cut": "all"} | _of(belief, model, plan, k)
    cut = {"all": (plan.T, plan.T), "blocks": (plan.T, 1), "nothing": (1, 1)}[its["cut"]]
    weights = 12 * model.width**2 * model.blocks / cut[0] * its["blocks"]
    weights += model.vocabulary * model.width / cut[1] * (its["embedding"] + its["head"])
    bytes_each = zip(its["each"], its["sharded"], strict=True)
    return float(weights * sum(size / (its["over"] if sharded else 1) for size, sharded in bytes_each))


def activations(model: Model, plan: Plan, k: int, **belief: Any) -> float:
    """Bytes of activations on device k at its peak, logits included. belief: as for `state`."""
    its: dict[str, Any] = {"held": in_flight(plan, k), "blocks": model.blocks / (plan.K * plan.V)}
    its |= {"kept": 34, "input": its["blocks"], "inside": 34, "samples": plan.samples, "cut": plan.T}
    its |= {"recompute": plan.recompute, "logits": 4 * (k == plan.K - 1), "uncut": 1} | _of(belief, model, plan, k)
    of_width = model.tokens * its["samples"] * model.width / its["cut"]
    of_words = model.tokens * its["samples"] * model.vocabulary / its["cut"] * its["uncut"]
    held = its["blocks"] * its["kept"]
    if its["recompute"] == "full":
        held = 2 * its["input"]
    inside = its["inside"] if its["recompute"] == "full" else 0
    return float(of_width * (its["held"] * held + inside) + its["logits"] * of_words)


def in_flight(plan: Plan, k: int) -> int:
    """How many stage inputs, with what belongs to them, device k holds at its peak under 1F1B, interleaved if V > 1."""
    return min(plan.V * plan.M, _ahead(plan, k) + 1)


def _ahead(plan: Plan, k: int) -> int:
    return plan.K - 1 - k if plan.V == 1 else _interleaved(plan, k)


def _interleaved(plan: Plan, k: int) -> int:
    return 2 * (plan.K - 1 - k) + (plan.V - 1) * plan.K


def _of(belief: Mapping[str, Any], model: Model, plan: Plan, k: int) -> dict[str, Any]:
    return {name: value(model, plan, k) if callable(value) else value for name, value in belief.items()}


Count = Callable[..., float]
"""`state` or `activations`."""

Beliefs = dict[str, tuple[dict[str, Any], ...]]
"""A slip -> the ways of counting that amount to it."""

OF_STATE: Final[Beliefs] = {
    "sixteen": ({"each": (2, 2, 12)},),
    "weights-alone": ({"each": (2, 0, 0)}, {"each": (2, 4, 0)}),
    "no-copy": ({"each": (2, 4, 8)},),
    "no-zero": ({"over": 1},),
    "zero-3": ({"sharded": (True, True, True)},),
    "zero-2": ({"sharded": (False, True, True)},),
    "over-all-devices": (
        {"over": lambda model, plan, k: plan.D * plan.K},
        {"over": lambda model, plan, k: plan.D * plan.T},
        {"over": lambda model, plan, k: plan.D * plan.K * plan.T},
    ),
    "no-tables": ({"embedding": False, "head": False},),
    "no-embedding": ({"embedding": False},),
    "no-head": ({"head": False},),
    "one-table": (
        {"head": lambda model, plan, k: k == plan.K - 1 > 0},
        {"embedding": lambda model, plan, k: k == 0 < plan.K - 1},
    ),
    "both-on-the-first": ({"embedding": lambda model, plan, k: 2 * (k == 0), "head": False},),
    "tables-everywhere": ({"embedding": True, "head": True}, {"embedding": True}),
    "cut-nothing": ({"cut": "nothing"},),
    "tables-whole": ({"cut": "blocks"},),
    "whole-model": ({"blocks": 1},),
    "other-block": tuple(
        {"blocks": lambda model, plan, k, share=share: share / plan.K} for share in (1 / 3, 2 / 3, 13 / 12)
    ),
    "rounded-down": (
        {"each": lambda model, plan, k: (2, 4, 12 // plan.D), "over": 1},
        {"each": lambda model, plan, k: (2, 4, round(12 / plan.D)), "over": 1},
    ),
    "one-stage": ({"blocks": lambda model, plan, k: 1 / (plan.K * plan.V)},),
}

OF_ACTIVATIONS: Final[Beliefs] = {
    "all-in-flight": (
        {"held": lambda model, plan, k: plan.V * plan.M},
        {"held": lambda model, plan, k: plan.M},
    ),
    "upside-down": (
        {"held": lambda model, plan, k: in_flight(plan, plan.K - 1 - k)},
        {"held": lambda model, plan, k: in_flight(plan, plan.K - 1 - k if plan.V == 1 else k)},
        {"held": lambda model, plan, k: in_flight(plan, plan.K - 1 - k if plan.V > 1 else k)},
    ),
    "as-the-first": ({"held": lambda model, plan, k: in_flight(plan, 0)},),
    "one-in-flight": ({"held": 1},),
    "more-than-m": (
        {"held": lambda model, plan, k: _ahead(plan, k) + 1},
        {"held": lambda model, plan, k: min(plan.V * plan.M, _ahead(plan, k)) + 1},
    ),
    "never-more-than-m": ({"held": lambda model, plan, k: min(plan.M, _ahead(plan, k) + 1)},),
    "always-interleaved": ({"held": lambda model, plan, k: min(plan.V * plan.M, _interleaved(plan, k) + 1)},),
    "short-warm-up": (
        {"held": lambda model, plan, k: min(plan.V * plan.M, plan.K - 1 - k + (plan.V - 1) * plan.K + 1)},
    ),
    "not-interleaved": (
        {
            "held": lambda model, plan, k: min(plan.K - k, plan.M),
            "blocks": lambda model, plan, k: model.blocks / plan.K,
            "input": lambda model, plan, k: model.blocks / plan.K,
        },
        {"held": lambda model, plan, k: min(plan.K - k, plan.M)},
        {"held": lambda model, plan, k: min(plan.K - k, plan.V * plan.M)},
    ),
    "whole-device": (
        {
            "blocks": lambda model, plan, k: model.blocks / plan.K,
            "input": lambda model, plan, k: model.blocks / plan.K,
        },
    ),
    "without-the-last": (
        {"held": lambda model, plan, k: max(1, min(plan.V * plan.M, _ahead(plan, k)))},
        {"held": lambda model, plan, k: min(plan.V * plan.M, _ahead(plan, k))},
        {"held": lambda model, plan, k: min(plan.V * plan.M, _ahead(plan, k) + (plan.V > 1))},
        {"held": lambda model, plan, k: min(plan.V * plan.M, _ahead(plan, k) + (plan.V == 1))},
    ),
    "one-sample": ({"samples": 1}, {"uncut": lambda model, plan, k: 1 / plan.samples}),
    "samples-of-all": ({"samples": lambda model, plan, k: plan.samples / plan.D},),
    "samples-of-a-step": ({"samples": lambda model, plan, k: plan.samples * plan.M},),
    "cut-nothing-kept": (
        {"cut": 1},
        {"cut": 1, "uncut": lambda model, plan, k: 1 / plan.T},
        {"kept": lambda model, plan, k: 34 * plan.T, "inside": lambda model, plan, k: 34 * plan.T},
        {"kept": lambda model, plan, k: 34 * plan.T},
        {"inside": lambda model, plan, k: 34 * plan.T},
    ),
    "recompute-ignored": ({"recompute": "none"},),
    "always-recompute": ({"recompute": "full"},),
    "no-inside": ({"inside": 0},),
    "inside-without-input": ({"inside": 32},),
    "inside-in-flight": ({"inside": lambda model, plan, k: 34 * in_flight(plan, k)},),
    "inside-of-all": (
        {"inside": lambda model, plan, k: 34 * model.blocks / (plan.K * plan.V)},
        {"inside": lambda model, plan, k: 34 * model.blocks / plan.K},
    ),
    "no-input": ({"input": 0},),
    "input-of-stages": ({"input": 1},),
    "no-logits": ({"logits": 0},),
    "logits-in-16": ({"logits": lambda model, plan, k: 2 * (k == plan.K - 1)},),
    "logits-everywhere": ({"logits": 4},),
    "logits-in-flight": (
        {"logits": lambda model, plan, k: 4 * (k == plan.K - 1) * in_flight(plan, k)},
        {"logits": lambda model, plan, k: 4 * (k == plan.K - 1) * plan.M},
    ),
    "logits-on-the-first": ({"logits": lambda model, plan, k: 4 * (k == 0)},),
    "logits-whole": ({"uncut": lambda model, plan, k: plan.T},),
    "no-inside-kept": ({"kept": 2}, {"kept": 32}, {"kept": 16}, {"kept": 17}),
}


def ways(beliefs: Beliefs) -> Iterator[tuple[str, dict[str, Any]]]:
    """A slip and a way of counting; then two slips at a time, named after the first."""
    single = [(slip, way) for slip, variants in beliefs.items() for way in variants]
    yield from single
    for (slip, way), (_, other) in combinations(single, 2):
        if not way.keys() & other.keys():
            yield slip, way | other
