"""The experts that a config.json tells of: in which blocks, how many, how wide; `expert_models.toml` has the keys."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gpipe_edu.base.validate import whole

from .mixture import Experts, Latent

MOST_EXPERTS: Final = 65_536

COUNT: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
"""What the number of experts is called in different models."""

_TOP: Final = ("num_experts_per_tok", "moe_top_k", "moe_k")

_RANKS: Final = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


class Keys(NamedTuple):
    """By which keys a kind of mixture tells of its experts; see `expert_models.toml`."""

    width: str = ""
    shared: str = ""
    shared_width: str = ""
    always: bool = False
    gate: bool = False
    biases: bool = False
    dense: str = ""
    first: str = ""
    last: str = ""
    every: str = ""
    only: str = ""
    listed: str = ""
    latent: bool = False
    near: tuple[str, str] | None = None


def read_experts(config: dict[str, Any], keys: Keys, hidden: int) -> Experts:
    """hidden: numbers of a hidden layer where experts have no key of their own. Raises ValueError if impossible."""
    count = _size(config, *COUNT, most=MOST_EXPERTS)
    top = _size(config, *_TOP, most=count)
    width = _size(config, keys.width) if keys.width else hidden
    shared = width if keys.always else width * whole(keys.shared, config.get(keys.shared) or 0, 0) if keys.shared else 0
    if keys.shared_width:
        shared = whole(keys.shared_width, config.get(keys.shared_width) or 0, 0)
    groups, reached = (config.get(key) or 0 for key in keys.near) if keys.near else (0, 0)
    return Experts(count, top, width, shared, nodes=whole("topk_group", reached, 0) if reached < groups else 0)


def _size(config: dict[str, Any], *keys: str, most: int = 10**7) -> int:
    told = next((key for key in keys if config.get(key) is not None), None)
    if told is None:
        raise ValueError(f"the file lacks {' or '.join(keys)}")
    return whole(told, config[told], 1, most)


def read_latent(config: dict[str, Any]) -> Latent:
    """Its latent attention. Raises ValueError where a size is missing."""
    rank, plain, rotary, value = (_size(config, key) for key in _RANKS)
    return Latent(whole("q_lora_rank", config.get("q_lora_rank") or 0, 0, 10**6), rank, plain, rotary, value)


def blocks_with_experts(config: dict[str, Any], keys: Keys, blocks: int) -> list[bool]:
    """Of each block, whether it has experts."""
    listed = config.get(keys.listed) if keys.listed else None
    if listed is not None:
        return [block in listed for block in range(blocks)]
    first = whole(keys.first, config.get(keys.first) or 0, 0) if keys.first else 0
    end = config.get(keys.last) if keys.last else None
    last = blocks - 1 if end in (None, -1) else whole(keys.last, end, 0)
    every = whole(keys.every, config.get(keys.every) or 1, 1) if keys.every else 1
    dense = (config.get(keys.only) or []) if keys.only else []
    return [first <= block <= last and (block + 1) % every == 0 and block not in dense for block in range(blocks)]


def more_parameters(keys: Keys, experts: Experts, width: int, heads: int) -> tuple[int, int]:
    """Of a block with experts: parameters that are no matrix of theirs, and, of these, the routed experts' own.

    gpt-oss has biases there, and in every block one number per head that draws attention away.
    """
    count, _, hidden, shared, _ = experts
    own = count * (2 * hidden + width) * keys.biases
    return own + count * keys.biases + heads * keys.biases + width * (keys.gate and shared > 0), own
