"""`python -m tests.sizing.count_with_transformers`: parameters as transformers counts them, for
`configs.json` and `expert_configs.json`.

It wants transformers and torch, and no weights: models are built on PyTorch's device meta. Two small ones of each
model_type that is known, drawn at random with all switches that its class has; and ones of the sizes in which they
were published, as far as they are known by heart. The tests read what this wrote.
"""

import json
import random
import tempfile
from pathlib import Path

FILE = Path(__file__).with_name("configs.json")
MIXTURES = Path(__file__).with_name("expert_configs.json")
SEED = 5
SMALL = 2

SWITCHES = (
    *("attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "attention_out_bias", "enable_bias", "bias"),
    *("multi_query", "new_decoder_architecture", "parallel_attn"),
)

LLAMA = {"hidden_act": "silu", "rms_norm_eps": 1e-6}
PUBLISHED = [
    ("llama", 128256, 4096, 14336, 32, 32, 8, {}),
    ("llama", 128256, 2048, 8192, 16, 32, 8, {"tie_word_embeddings": True, "head_dim": 64}),
    ("llama", 49152, 576, 1536, 30, 9, 3, {"tie_word_embeddings": True}),
    ("mistral", 32000, 4096, 14336, 32, 32, 8, {}),
    ("mistral", 131072, 5120, 14336, 40, 32, 8, {"head_dim": 128}),
    ("qwen2", 151936, 896, 4864, 24, 14, 2, {"tie_word_embeddings": True}),
    ("qwen2", 152064, 3584, 18944, 28, 28, 4, {}),
    ("qwen3", 151936, 1024, 3072, 28, 16, 8, {"tie_word_embeddings": True, "head_dim": 128}),
    ("qwen3", 151936, 5120, 25600, 64, 64, 8, {"head_dim": 128}),
    ("gemma", 256000, 2048, 16384, 18, 8, 1, {"head_dim": 256}),
    ("gemma2", 256000, 2304, 9216, 26, 8, 4, {"head_dim": 256}),
    ("gemma3_text", 262144, 1152, 6912, 26, 4, 1, {"head_dim": 256}),
    (
        *("gemma4_text", 262144, 5376, 21504, 60, 32, 16),
        {"head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 4, "attention_k_eq_v": True}
        | {"hidden_size_per_layer_input": 0},
    ),
    ("phi3", 32064, 3072, 8192, 32, 32, 32, {}),
    ("phi", 51200, 2560, 10240, 32, 32, 32, {}),
    ("olmo2", 100352, 4096, 11008, 32, 32, 32, {}),
    ("starcoder2", 49152, 3072, 12288, 30, 24, 2, {"tie_word_embeddings": True}),
    ("gpt_neox", 50304, 2048, 8192, 16, 8, 8, {}),
    ("nemotron", 256000, 6144, 24576, 32, 48, 8, {}),
]


def small(kind, draw):
    """A small model of that type, with what its class knows of all that is asked."""
    heads = draw.choice([2, 4, 8])
    width = heads * draw.choice([8, 16])
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": draw.choice([2, 4]),
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice([count for count in (1, 2, 4, 8) if heads % count == 0]),
        "intermediate_size": draw.choice([96, 160]),
        "vocab_size": draw.choice([320, 500]),
        "max_position_embeddings": draw.choice([64, 128]),
        "head_dim": draw.choice([width // heads, 24]),
        "tie_word_embeddings": draw.random() < 0.5,
    }
    sizes |= {name: draw.random() < 0.5 for name in SWITCHES if draw.random() < 0.4}
    own = {
        "opt": {"ffn_dim": 96, "word_embed_proj_dim": width},
        "xglm": {"ffn_dim": 96, "d_model": width, "attention_heads": heads},
        "gpt_neo": {"attention_types": [[["global", "local"], sizes["num_hidden_layers"] // 2]]},
        "exaone4": {"layer_types": ["full_attention"] * sizes["num_hidden_layers"]},
        "internlm3": {"qkv_bias": sizes.get("bias", False)},
        "codegen": {"rotary_dim": 8},
        "helium": {"head_dim": width // heads},
        "gemma4_text": {
            "hidden_size_per_layer_input": 0,
            "global_head_dim": 32,
            "attention_k_eq_v": draw.random() < 0.5,
        }
        | {"num_hidden_layers": draw.choice([6, 7]), "num_global_key_value_heads": 1},
        "hyperclovax": {"use_post_norm": True},
    }
    return sizes | own.get(kind, {})


def small_mixture(kind, draw):
    """The same of a mixture of experts."""
    top, experts = draw.choice([1, 2]), draw.choice([4, 8])
    inner = draw.choice([24, 40])
    sizes = small(kind, draw) | {
        **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"), experts),
        **dict.fromkeys(("num_experts_per_tok", "moe_k"), top),
        **{"moe_intermediate_size": inner, "shared_expert_intermediate_size": 56, "intermediate_size_mlp": 72},
        **{"n_shared_experts": draw.choice([1, 2]), "moe_num_shared_experts": draw.choice([0, 2])},
        **{"first_k_dense_replace": 1, "moe_layer_start_index": 1, "moe_layer_interval": draw.choice([1, 2])},
        **{"interleave_moe_layer_step": draw.choice([1, 2]), "decoder_sparse_step": draw.choice([1, 2])},
        **{"q_lora_rank": draw.choice([None, 20]), "kv_lora_rank": 12, "qk_nope_head_dim": 10, "n_group": 1},
        **{"qk_rope_head_dim": 6, "v_head_dim": 14, "topk_group": 1, "use_qk_norm": draw.random() < 0.5},
        **{"lm_head_bias": draw.random() < 0.5, "qkv_bias": draw.random() < 0.5},
    }
    if kind in ("deepseek_v2", "deepseek_v3"):
        sizes |= {"head_dim": 6, "attention_bias": False, "mlp_bias": False}
    if kind in ("llama4_text", "gpt_oss"):
        sizes["layer_types"] = ["full_attention"] * sizes["num_hidden_layers"]
    if kind == "dbrx":
        attention = {"kv_n_heads": sizes["num_key_value_heads"], "rope_theta": 10000}
        inside = {"ffn_hidden_size": inner, "moe_num_experts": experts, "moe_top_k": top}
        inside["hidden_size"] = sizes["hidden_size"]
        names = {"d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
        own = {name: sizes[other] for name, other in names.items()}
        return own | {"vocab_size": sizes["vocab_size"], "attn_config": attention, "ffn_config": inside}
    return sizes


def count(kind, asked):
    """What its config.json would hold, and the parameters that are trained."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    plain = AutoConfig.for_model(kind)
    known = {*plain.to_dict(), *plain.attribute_map, "tie_word_embeddings"}
    known |= {"global_head_dim", "num_global_key_value_heads"}  # it takes them, and keeps them otherwise
    known |= {"head_dim"} if kind in ("glm4_moe", "qwen3_moe") else set()
    config = AutoConfig.for_model(kind, **{key: value for key, value in asked.items() if key in known}, pad_token_id=0)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    parameters = sum({id(weight): weight.numel() for weight in model.parameters() if weight.requires_grad}.values())
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        kept = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    told = (
        "rope",
        "dropout",
        "pdrop",
        "drop",
        "token_id",
        "eps",
        "dtype",
        "initializer",
        "scaling",
        "summary",
        "cache",
    )
    return {
        key: value for key, value in kept.items() if "qk_" in key or not any(word in key for word in told)
    }, parameters


def main():
    """Write the files."""
    from gpipe_edu.sizing.hugging_face import NAMES, dense_models

    rows, draw = [], random.Random(SEED)
    for kind in sorted(kind for kind in dense_models() if "_vl" not in kind):
        rows += [count(kind, small(kind, draw)) for _ in range(SMALL)]
    names = [name for name in NAMES if name not in ("head_dim", "max_position_embeddings")]
    order = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    assert {*order, "num_key_value_heads"} == set(names)
    for kind, *sizes, shared, more in PUBLISHED:
        rows.append(count(kind, dict(zip(order, sizes, strict=True)) | {"num_key_value_heads": shared} | more))
    _write(FILE, rows)
    _write(MIXTURES, mixtures())


def mixtures():
    """Small ones of each type that is known, and ones as published."""
    from gpipe_edu.sizing.hugging_face import expert_models
    from gpipe_edu.sizing.presets import presets

    draw = random.Random(SEED)
    there = [kind for kind in expert_models() if kind != "kimi_k2"]  # which is DeepSeek-V3's, by another name
    rows = [count(kind, small_mixture(kind, draw)) for kind in there for _ in range(SMALL)]
    for config in (told["config"] for told in presets("models").values() if "config" in told):
        kind = config["model_type"].replace("kimi_k2", "deepseek_v3")
        rows.append(count(kind, {name: value for name, value in config.items() if name != "model_type"}))
    return rows


def _write(file, rows):
    import transformers

    lines = ",\n".join(json.dumps([parameters, config], sort_keys=True) for config, parameters in rows)
    file.write_text(f'["transformers {transformers.__version__}",\n{lines}\n]\n', encoding="utf-8")


if __name__ == "__main__":
    main()
