"""A model from the params.json that Meta, and Mistral, keep beside their weights: Llama's blocks under other names."""

from __future__ import annotations

from typing import Any, Final

from gpipe_edu.base.validate import whole

_SAME: Final = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "max_seq_len": "max_position_embeddings",
}
"""What config.json calls it."""


def is_params(content: dict[str, Any]) -> bool:
    """Whether this is the content of such a file."""
    return {"dim", "n_layers", "n_heads"} <= content.keys()


def as_config(params: dict[str, Any], **changes: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The content of a config.json of the same model, and what one has to know about how it was read.

    Raises ValueError for a mixture of experts, and for a vocabulary that the file leaves to the tokenizer, as Llama 2's
    does, unless `changes` has it.
    """
    if moe := next((key for key in ("moe", "moe_args") if params.get(key)), None):
        raise ValueError(f"this params.json is of a mixture of experts ({moe}), which is not planned here")
    config = {name: params[key] for key, name in _SAME.items() if params.get(key) is not None}
    words = changes.get("vocabulary", params.get("vocab_size", -1))
    if words < 1:
        raise ValueError(
            "this params.json leaves the size of the vocabulary to the tokenizer; give it, such as --vocabulary 32000"
        )
    notes = ("The file does not say whether embedding and head share their weights; both are counted.",)
    return config | {"model_type": "llama", "vocab_size": words, "intermediate_size": _hidden(params)}, notes


def _hidden(params: dict[str, Any]) -> int:
    """As in Meta's own code: two thirds of four widths, times a factor, rounded up to a multiple."""
    if params.get("hidden_dim") is not None:
        return whole("hidden_dim", params["hidden_dim"], 1)
    multiple = whole("multiple_of", params.get("multiple_of", 256), 1)
    hidden = int(params.get("ffn_dim_multiplier", 1) * (2 * 4 * whole("dim", params["dim"], 1) // 3))
    return -(-hidden // multiple) * multiple
