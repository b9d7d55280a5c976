"""A model of one's own, from the config.json that Hugging Face's transformers keeps with it.

Dense decoders and mixtures of experts, counted to the last parameter: `dense_models.toml` and `expert_models.toml` say
what their blocks have. What else a file may describe is refused by name: nothing here knows what a recurrence costs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.base.bounded import TooMuchError, check_values, in_one_sentence, parse_json, read_text
from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import join_words, shown

from .hugging_face_experts import COUNT, Keys, blocks_with_experts, more_parameters, read_experts, read_latent
from .mixture import Latent, further_head, with_experts
from .model import LayerSize, Model, decoder_block, grouped_attention, transformer

SUFFIX: Final = ".json"

LONGEST: Final = 4096
"""Tokens of a sample unless told otherwise: what a file allows is seldom what one trains with."""

NAMES: Final = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab_size": ("vocab_size",),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"),
}
"""What a size is called in different models."""

NEEDED: Final = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")

MOST_BLOCKS: Final = 2048
"""The paper's deepest model has 1,663; each is planned by itself."""

_MOST: Final = {
    "num_hidden_layers": MOST_BLOCKS,
    "hidden_size": 10**7,
    "num_attention_heads": 65_536,
    "head_dim": 10**6,
}

TIED: Final = "tie_word_embeddings"

FURTHER: Final = "num_nextn_predict_layers"
"""How many heads predict further tokens."""

HYBRIDS: Final = ("jamba", "nemotron_h")
"""Mixtures with a recurrence, whatever their file leaves out."""

ATTENTION: Final = ("full_attention", "sliding_attention", "chunked_attention")
"""Kinds of layers that have the same weights."""


class Opened(NamedTuple):
    """A model, and what one has to know about how it was read, one sentence each."""

    model: Model
    notes: tuple[str, ...]


class Dense(NamedTuple):
    """What a block has; see `dense_models.toml`."""

    gated: bool = True
    norms: int = 2
    norm: int = 1
    heads_norm: str | list[Any] = ""
    qkv: bool | list[Any] = False
    out: bool | list[Any] = False
    hidden: bool | list[Any] = False
    last: bool | list[Any] = False
    positions: int | None = None
    tied: bool = False
    more: int = 0
    embedding_norm: bool = False
    two_kinds: bool = False
    wants: dict[str, Any] = {}  # noqa: RUF012 (nothing changes it)
    sizes: dict[str, int] = {}  # noqa: RUF012
    experts: Keys | None = None


class Sizes(NamedTuple):
    """Numbers, not bytes."""

    width: int
    blocks: int
    heads: int
    shared_heads: int
    head: int
    hidden: int
    words: int
    positions: int | None


class Attention(NamedTuple):
    """Of a block: numbers of a head, heads of keys and values, and whether keys are the values, too."""

    head: int
    shared_heads: int
    keys_are_values: bool = False


@cache
def dense_models() -> dict[str, Dense]:
    """What is known of dense decoders, by model_type."""
    return {kind: Dense(**entry) for kind, entry in _table("dense_models.toml")}


@cache
def expert_models() -> dict[str, Dense]:
    """The same of mixtures of experts."""
    return {
        kind: Dense(**entry | {"experts": Keys(**entry["experts"])}) for kind, entry in _table("expert_models.toml")
    }


def _table(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    table = tomllib.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    for title, entry in table.items():
        for kind in entry.pop("types", [title]):
            yield kind, entry


def read(path: str | Path, **changes: int) -> Opened:
    """The model of a config.json. changes: blocks, context or vocabulary, where they should differ from the file.

    Raises ValueError for a file that is not a config.json, for one that lacks a size, and for a model that is not a
    dense decoder; it says which, and what to do. OSError for a file that cannot be read.
    """
    told = shown(str(path), 100)
    with in_one_sentence(told):
        config = _read_object(Path(path), told)
        try:
            return of_config(config, **changes)
        except (ValueError, TypeError) as error:
            if isinstance(error, TypeError) and "must be" not in str(error):
                raise
            raise ValueError(f"{told}: {error}") from None


def _read_object(path: Path, told: str) -> dict[str, Any]:
    text = read_text(path)
    try:
        config = parse_json(text, told)
    except TooMuchError:
        raise
    except ValueError as error:
        raise ValueError(f"{told!r} is no JSON ({error}); give the config.json of a Hugging Face model") from None
    check_values(config, told)
    if not isinstance(config, dict):
        raise ValueError(f"{told!r} holds no object; give the config.json of a Hugging Face model")
    return config


def of_config(config: dict[str, Any], **changes: int) -> Opened:
    """The same, from the file's content."""
    notes = []
    inner = config.get("text_config")
    if isinstance(inner, dict):
        outer = config.get("model_type", "the file")
        notes.append(f"Of {outer} the language model alone is planned; what reads pictures or sound is not counted.")
        config = {TIED: config[TIED], **inner} if TIED in config else inner
    kind = config.get("model_type", "")
    kind = shown(kind) if isinstance(kind, str) else ""
    if kind == "dbrx":  # it tells some sizes one level down
        config = {**(config.get("attn_config") or {}), **(config.get("ffn_config") or {}), **config}
    _refuse(config, kind)
    dense, known = _dense(config, kind)
    notes += [known] if known else []
    sizes = _sizes(config, dense, kind)
    sizes = sizes._replace(blocks=changes.get("blocks", sizes.blocks), words=changes.get("vocabulary", sizes.words))
    allowed = sizes.positions or LONGEST
    context = changes.get("context", min(allowed, LONGEST))
    if sizes.positions and context > sizes.positions:
        notes.append(f"Samples of {context:,} tokens are longer than the {sizes.positions:,} that the file allows.")
    if "context" not in changes and allowed > LONGEST:
        notes.append(f"Samples of {context:,} tokens; the file allows {allowed:,} (--context).")
    return Opened(_model(config, kind, dense, sizes, context), tuple(notes))


def _refuse(config: dict[str, Any], kind: str) -> None:
    """Raises ValueError for what is not a dense decoder, naming what shows it."""
    named = f"model_type {kind!r}" if kind else "a file without a model_type"

    if "peft_type" in config:
        base = config.get("base_model_name_or_path") or "its base model"
        raise ValueError(
            f"this is the adapter_config.json of peft, with what {config['peft_type']} adds to {base}, and no sizes of "
            "that model: give its config.json; what an adapter adds is not planned"
        )

    if not any(key in config for name in NEEDED for key in NAMES[name]):
        raise ValueError(
            "it has none of a model's sizes, such as hidden_size; give the config.json of a Hugging Face model, and a "
            "split of another system to --like"
        )

    def first(*keys: str) -> str | None:
        return next((key for key in keys if _number(config.get(key)) > 1), None)

    layers = config.get("layer_types") or config.get("layers_block_type") or ()
    strange = next((str(one) for one in layers if one not in ATTENTION), None)
    state = first("state_size", "mamba_d_state", "mamba_d_ssm", "ssm_state_size", "lru_width", "linear_num_key_heads")
    state = "ssm_cfg" if "ssm_cfg" in config else state
    if strange or state or kind in HYBRIDS:
        tells = f"a layer is {strange!r}" if strange else f"{state} is {config[str(state)]}" if state else "all are"
        raise ValueError(
            f"{named} is a hybrid or a state-space model ({tells}); only blocks of attention and two or three matrices "
            "are counted here"
        )
    if config.get("is_encoder_decoder"):
        raise ValueError(f"{named} is an encoder with a decoder; only decoders are planned here")
    if kind in expert_models():
        return
    experts = first(*COUNT)
    if experts or "moe" in kind:
        tells = f" ({experts} is {config[experts]})" if experts else ""
        known = join_words(sorted(expert_models()), last=" and ")
        raise ValueError(f"{named} is a mixture of experts{tells} whose blocks are not known here; known are {known}")
    latent = first("kv_lora_rank", "q_lora_rank")
    if latent:
        raise ValueError(
            f"{named} has latent attention ({latent} is {config[latent]}) in blocks that are not known here; plan a "
            "dense model of the same width and depth instead"
        )


def _dense(config: dict[str, Any], kind: str) -> tuple[Dense, str]:
    """What its blocks have, and a sentence where that is assumed."""
    known = dense_models() | expert_models()
    if kind in known:
        dense = known[kind]
        for key, value in dense.wants.items():
            if config.get(key, value) != value:
                raise ValueError(f"of {kind} with {key} {config[key]!r} the parameters are not known here")
        if kind == "opt" and config.get("word_embed_proj_dim", config.get("hidden_size")) != config.get("hidden_size"):
            raise ValueError("of opt with word_embed_proj_dim unequal to hidden_size the parameters are not known here")
        return dense, ""
    plain = config.get("intermediate_size") is not None and not config.get("block_configs")
    if config.get("hidden_act") == "silu" and "rms_norm_eps" in config and plain:
        told = f"model_type {kind!r} is not known here" if kind else "The file names no model_type"
        return known["llama"], f"{told}: its blocks are counted as Llama's, to which its norms and activation point."
    told = f"model_type {kind!r} is not known here" if kind else "the file names no model_type"
    raise ValueError(
        f"{told}, and nothing says that its blocks are Llama's; known are {join_words(sorted(known), last=' and ')}"
    )


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _size(config: dict[str, Any], dense: Dense, name: str) -> int | None:
    for key in NAMES[name]:
        if config.get(key) is not None:
            return whole(key, config[key], 1, _MOST.get(name))
    return dense.sizes.get(name)


def _sizes(config: dict[str, Any], dense: Dense, kind: str) -> Sizes:
    found = {name: _size(config, dense, name) for name in NAMES}
    missing = [" or ".join(NAMES[name]) for name in NEEDED if found[name] is None]
    if missing:
        raise ValueError(f"the file lacks {join_words(missing, last=' and ')}")
    width, blocks, heads, words = (int(found[name] or 0) for name in NEEDED)
    shared = found["num_key_value_heads"] or heads
    if kind == "falcon":
        new = bool(config.get("new_decoder_architecture"))
        shared = shared if new else 1 if config.get("multi_query", True) else heads
    elif kind == "gpt_bigcode":
        shared = 1 if config.get("multi_query", True) else heads
    elif kind in ("mpt", "dbrx"):
        shared = (config.get("attn_config") or {}).get("kv_n_heads", heads)
    if found["head_dim"] is None and width % heads:
        raise ValueError(f"hidden_size {width} is no multiple of num_attention_heads {heads}, and head_dim is missing")
    positions = found["max_position_embeddings"]
    if dense.positions is not None and positions is None:
        raise ValueError(f"the file lacks {' or '.join(NAMES['max_position_embeddings'])}")
    return Sizes(
        *(width, blocks, heads, shared),
        head=found["head_dim"] or width // heads,
        hidden=found["intermediate_size"] or 4 * width,
        words=words,
        positions=positions,
    )


def _attentions(config: dict[str, Any], dense: Dense, sizes: Sizes) -> list[Attention]:
    """The attention of each block; those that see everything may have heads of their own size."""
    narrow = Attention(sizes.head, sizes.shared_heads)
    if not dense.two_kinds:
        return [narrow] * sizes.blocks
    alike = bool(config.get("attention_k_eq_v", False))
    told = config.get("layer_types") or ["sliding_attention"] * 5 + ["full_attention"]
    kinds = [told[block % len(told)] for block in range(sizes.blocks - 1)]
    each = (
        config.get("per_layer_config") or {}
    )  # as transformers saves it; as it was published, two keys for all of them
    usual = {"head_dim": config.get("global_head_dim", 512)}
    if alike and config.get("num_global_key_value_heads") is not None:
        usual["num_key_value_heads"] = config["num_global_key_value_heads"]
    own = {int(block): told for block, told in each.items()} if each else {}

    def wide(block: int) -> Attention:
        told = own.get(block, {}) if each else usual
        head = whole("the head_dim of a block that sees all", told.get("head_dim", sizes.head), 1, _MOST["head_dim"])
        return Attention(
            head, whole("its heads", told.get("num_key_value_heads", sizes.shared_heads), 1, 65_536), alike
        )

    return [
        wide(block) if kind == "full_attention" else narrow for block, kind in enumerate((*kinds, "full_attention"))
    ]


def _model(config: dict[str, Any], kind: str, dense: Dense, sizes: Sizes, context: int) -> Model:
    """The layers, with their parameters as the file's model has them."""
    width, blocks, heads, shared_heads, head, hidden, words, positions = sizes
    tied = bool(config.get(TIED, dense.tied))
    keys = dense.experts
    experts = read_experts(config, keys, hidden) if keys else None
    latent = read_latent(config) if keys and keys.latent else None
    dense_hidden = whole(keys.dense, config.get(keys.dense), 1, 10**7) if keys and keys.dense else hidden

    def block_of(attention: Attention, routed: bool) -> LayerSize:
        built = experts if routed else None
        own = built.shared if built else dense_hidden
        block = _block(config, kind, dense, sizes, context, attention, latent, own)
        if keys is None or built is None:
            return block
        more, theirs = more_parameters(keys, built, width, heads)
        block = with_experts(block, context, width, built)
        return block._replace(
            parameters=block.parameters + more,
            routed=block.routed and block.routed._replace(parameters=block.routed.parameters + theirs),
        )

    attentions = _attentions(config, dense, sizes)
    routed = blocks_with_experts(config, keys, blocks) if keys else [False] * blocks
    kinds = list(zip(attentions, routed, strict=True))
    built = {one: block_of(*one) for one in dict.fromkeys(kinds)}
    frame = transformer(
        *(blocks, width, context, words),
        hidden=hidden,
        gated=dense.gated,
        heads=heads,
        shared_heads=shared_heads,
        head=head,
        tied=tied,
    )
    embedding, *_, last = frame.layers
    vectors = 0 if dense.positions is None else (positions or 0) + dense.positions
    after = dense.norm * width + words * _biased(config, dense.last)
    last = last._replace(parameters=after + (0 if tied else words * width))
    further = whole(FURTHER, config.get(FURTHER) or 0, 0, 16) if keys else 0
    layers = (
        embedding._replace(parameters=(words + vectors) * width + dense.norm * width * dense.embedding_norm),
        *(built[one]._replace(name=f"block {place}") for place, one in enumerate(kinds)),
        *[further_head(built[kinds[-1]], last, context, width)] * further,
        last,
    )
    return frame._replace(
        name=f"{kind or 'Transformer'} of {blocks} blocks" + " and a further head" * (further > 0),
        layers=layers,
        head=latent.plain + latent.rotary if latent else frame.head,
        kind=kind if kind in dense_models() | expert_models() else "",
    )


def _biased(config: dict[str, Any], rule: bool | list[Any]) -> bool:
    return bool(config.get(rule[0], rule[1])) if isinstance(rule, list) else rule


def _block(
    config: dict[str, Any],
    kind: str,
    dense: Dense,
    sizes: Sizes,
    context: int,
    attention: Attention,
    latent: Latent | None,
    hidden: int,
) -> LayerSize:
    """A block with this attention and a hidden layer of so many numbers, without experts."""
    width, heads, (head, shared, alike) = sizes.width, sizes.heads, attention
    ways = 2 if dense.gated else 1
    norms = dense.norms
    if kind == "falcon":
        one = config.get("parallel_attn", True) and not config.get("new_decoder_architecture")
        norms = 1 if one or config.get("num_ln_in_parallel_attn") == 1 else 2
    query, narrow = heads * head, shared * head
    size = latent.attention(width, heads) if latent else grouped_attention(width, heads, query, narrow)
    block = size.weights + (latent.gains if latent else 0) - alike * width * narrow + (ways + 1) * width * hidden
    block += (query + (2 - alike) * narrow) * _biased(config, dense.qkv) + width * _biased(config, dense.out)
    block += (ways * hidden + width * (hidden > 0)) * _biased(config, dense.hidden)
    block += norms * dense.norm * width + dense.more
    rule = dense.heads_norm
    normed = rule if isinstance(rule, str) else rule[2] if config.get(rule[0], rule[1]) else ""
    block += {"": 0, "head": 2 * head, "all": query + narrow}[normed] * max(1, dense.norm)
    model = decoder_block(context, width, size, hidden, dense.gated)
    spared = context * 2 * width * narrow * alike
    return model._replace(parameters=block, work=model.work - spared)
