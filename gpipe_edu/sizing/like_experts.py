"""Experts as Megatron-LM's words tell them (Megatron Core 0.19): in which blocks, how many, how wide."""

from __future__ import annotations

import ast
from typing import Any, Final

from gpipe_edu.base.bounded import check_brackets
from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import plural, shown

from .hugging_face import MOST_BLOCKS
from .hugging_face_experts import MOST_EXPERTS
from .mixture import Experts, with_experts
from .model import Model, decoder_block, grouped_attention

SIZES: Final = ("experts", "top", "expert_hidden", "shared_hidden", "pattern", "groups", "reached")
"""What is told of a model's experts."""


def read_pattern(word: str, value: Any) -> int | tuple[int, ...]:
    """Which blocks have experts: each so manieth from the first, or a list such as ([0]*3+[1]*29), 1 where they are.

    Raises ValueError for anything else.
    """
    text = str(value)
    try:
        check_brackets(text, word)
        found = _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    if isinstance(found, int):
        return whole(word, found, 1, MOST_BLOCKS)
    if not found or not set(found) <= {0, 1}:
        raise ValueError(f"{word} is {shown(text)!r}; it must be a number, or a list of 0 and 1 such as ([0]*3+[1]*29)")
    return tuple(found)


def _evaluated(node: ast.expr) -> int | list[int]:
    """A sum of lists and of their multiples."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.List(elts=parts):
            found = [_evaluated(part) for part in parts]
            if any(isinstance(one, list) for one in found):
                raise ValueError("a list in a list")
            return [one for one in found if isinstance(one, int)]
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() as op, right=right):
            one, other = _evaluated(left), _evaluated(right)
            if isinstance(op, ast.Add) and isinstance(one, list) and isinstance(other, list):
                return one + other
            if isinstance(op, ast.Mult) and isinstance(one, list) and isinstance(other, int):
                if not 0 <= other * len(one) <= MOST_BLOCKS:
                    raise ValueError("too many blocks")
                return one * other
    raise ValueError("no list")


def give_experts(dense: Model, sizes: dict[str, Any]) -> Model:
    """The model with experts in its blocks. sizes: what is told of it, its blocks and heads among them.

    Raises ValueError for experts that are not gated, and for numbers that do not fit one another.
    """
    blocks, width, tokens = sizes["blocks"], sizes["width"], sizes["context"]
    if not sizes.get("gated"):
        raise ValueError("--num-experts without --swiglu has experts of two matrices, which are not planned")
    number = whole("--num-experts", sizes["experts"], 1, MOST_EXPERTS)
    top = whole("--moe-router-topk", sizes.get("top", 2), 1, number)
    groups, reached = sizes.get("groups", 0), sizes.get("reached", 0)
    experts = Experts(
        *(number, top, sizes.get("expert_hidden", sizes["hidden"]), sizes.get("shared_hidden", 0)),
        nodes=reached if reached < groups else 0,
    )
    pattern = sizes.get("pattern", 1)
    if isinstance(pattern, int):
        pattern = tuple(int(block % pattern == 0) for block in range(blocks))
    if len(pattern) != blocks:
        raise ValueError(f"--moe-layer-freq lists {plural(len(pattern), 'block')}, and --num-layers is {blocks}")
    heads = sizes["heads"]
    wide = heads * sizes["head"] if "head" in sizes else width
    attention = grouped_attention(width, heads, wide, wide * sizes.get("shared_heads", heads) // heads)
    routed = with_experts(decoder_block(tokens, width, attention, experts.shared), tokens, width, experts)
    embedding, *mine, head = dense.layers
    own = [routed._replace(name=block.name) if there else block for block, there in zip(mine, pattern, strict=True)]
    return dense._replace(name=f"{dense.name} with experts", layers=(embedding, *own, head))
