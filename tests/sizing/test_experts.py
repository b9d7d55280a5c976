"""Mixtures of experts: parameters as transformers counts them and as their authors publish them."""

import json
import math
import re
from pathlib import Path

import pytest

from gpipe_edu.sizing.hugging_face import expert_models, of_config
from gpipe_edu.sizing.mixture import Latent
from gpipe_edu.sizing.model import decoder_block
from gpipe_edu.sizing.presets import model, presets

COUNTED_BY, *COUNTED = json.loads(Path(__file__).with_name("expert_configs.json").read_text(encoding="utf-8"))

PICTURES = 871_932_416
"""Parameters of what reads pictures in both models of Llama 4, as transformers 5.24 counts it; no part of the plan."""

PUBLISHED = {
    # Total and active in billions as printed, each with what it leaves out, and where. "embedding": it is looked up,
    # not multiplied with; "ends": neither it nor the head is counted; "further": the head of a further token is not.
    "mixtral-8x7b": ("46.7", "", "12.9", "", "mistral.ai/news/mixtral-of-experts"),
    "mixtral-8x22b": ("141", "", "39", "", "mistral.ai/news/mixtral-8x22b"),
    "qwen3-30b-a3b": ("30.5", "", "3.3", "", "huggingface.co/Qwen/Qwen3-30B-A3B, model card"),
    "qwen3-235b-a22b": ("235", "", "22", "", "huggingface.co/Qwen/Qwen3-235B-A22B, model card"),
    "deepseek-v2-lite": ("15.7", "", "2.4", "embedding", "arXiv 2405.04434, appendix B"),
    "deepseek-v3": ("671", "further", "36.7", "embedding further", "deepseek-ai/DeepSeek-V3, README_WEIGHTS.md"),
    # The report, arXiv 2507.20534, prints 1.04 T, which is what all 61 blocks with experts would have; one has none.
    "kimi-k2": ("1000", "", "32", "embedding", "huggingface.co/moonshotai/Kimi-K2-Base, model card: 1T, 32B"),
    "llama4-scout": ("109", "pictures", "17", "", "huggingface.co/meta-llama/Llama-4-Scout-17B-16E, model card"),
    "llama4-maverick": ("400", "pictures", "17", "", "meta-llama/Llama-4-Maverick-17B-128E, model card"),
    "gpt-oss-20b": ("20.91", "", "3.61", "embedding", "arXiv 2508.10925, table 1"),
    "gpt-oss-120b": ("116.83", "", "5.13", "embedding", "arXiv 2508.10925, table 1"),
    "glm-4.5": ("355", "ends", "32", "ends", "arXiv 2508.06471, table 1"),
    "glm-4.5-air": ("106", "ends further", "12", "ends further", "arXiv 2508.06471, table 1"),
    "olmoe": ("6.9", "", "1.3", "", "arXiv 2409.02060, table 1"),
    "dbrx": ("132", "", "36", "", "databricks.com/blog/introducing-dbrx-new-state-art-open-llm"),
    "phi-3.5-moe": ("41.9", "", "6.6", "", "huggingface.co/microsoft/Phi-3.5-MoE-instruct, model card"),
    "ernie-4.5-21b-a3b": ("21", "embedding", "3", "embedding", "huggingface.co/baidu/ERNIE-4.5-21B-A3B-PT, model card"),
    "ernie-4.5-300b-a47b": ("300", "", "47", "embedding", "huggingface.co/baidu/ERNIE-4.5-300B-A47B-PT, model card"),
}


def idle(layer):
    return layer.routed.parameters * (layer.routed.experts - layer.routed.top) // layer.routed.experts


def without(found, left_out, passive):
    """The model's parameters but for what a source does not count. passive: of a further head, its idle experts."""
    counts = {
        "embedding": found.layers[0].parameters,
        "ends": found.layers[0].parameters + found.layers[-1].parameters,
        "further": sum(one.parameters - passive(one) for one in found.layers if one.name == "further head"),
        "pictures": -PICTURES,
    }
    return sum(counts[what] for what in left_out.split())


def test_every_known_mixture_has_the_parameters_that_transformers_counts():
    assert COUNTED_BY.startswith("transformers ")
    assert {*expert_models()} - {config["model_type"] for _, config in COUNTED} == {"kimi_k2"}
    for parameters, config in COUNTED:
        found = of_config(config).model  # transformers has no head for a further token
        assert found.parameters - without(found, "further", lambda _: 0) == parameters, config


def test_published_mixtures_have_what_their_authors_print():
    assert {name for name, told in presets("models").items() if "config" in told} == {*PUBLISHED}
    for name, (total, not_total, active, not_active, source) in PUBLISHED.items():
        found = model(name)
        assert source
        for printed, count in (
            (total, found.parameters - without(found, not_total, lambda _: 0)),
            (active, found.active - without(found, not_active, idle)),
        ):
            half = 10.0 ** -len(printed.partition(".")[2]) / 2 if printed != "1000" else 50  # a trillion, in one digit
            low, high = float(printed) - half, float(printed) + half
            assert low * 0.995 <= count / 1e9 <= high * 1.005, (name, printed, count)


def test_which_blocks_have_experts():
    for name, expected in (
        ("mixtral-8x7b", [True] * 32),
        ("deepseek-v3", [False] * 3 + [True] * 58 + [True]),  # and that of the further head
        ("llama4-maverick", [False, True] * 24),
        ("ernie-4.5-300b-a47b", [False] * 3 + [True] * 51),
    ):
        assert [layer.routed is not None for layer in model(name).layers[1:-1]] == expected, name


def test_a_further_head_has_what_deepseek_says():
    """README_WEIGHTS: 11.5 billion parameters of its own, without the matrix that joins, whose 2 w^2 it leaves out."""
    found = model("deepseek-v3")
    further = found.layers[-2]
    assert further.name == "further head"
    assert "a further head" in found.name
    joined = 2 * 7168**2
    assert math.isclose(further.parameters - joined, 11.5e9, rel_tol=0.005)
    both_ends = found.layers[0].parameters + found.layers[-1].parameters
    assert math.isclose(further.parameters - idle(further) - joined + both_ends, 2.4e9, rel_tol=0.02)
    assert further.tied == 129280 * 7168


def test_what_is_no_known_mixture_is_refused_by_name():
    mixtral = presets("models")["mixtral-8x7b"]["config"]
    latent = presets("models")["deepseek-v3"]["config"]
    for config, says in (
        (
            mixtral | {"model_type": "somebodys"},
            "mixture of experts (num_local_experts is 8) whose blocks are not known",
        ),
        (mixtral | {"model_type": "hunyuan_v1_moe"}, "'hunyuan_v1_moe' is a mixture of experts"),
        (mixtral | {"model_type": "jamba"}, "'jamba' is a hybrid or a state-space model"),
        (mixtral | {"layer_types": ["linear_attention"]}, "a layer is 'linear_attention'"),
        (mixtral | {"num_experts_per_tok": 9}, "num_experts_per_tok is 9; it must be at most 8"),
        (mixtral | {"num_experts_per_tok": None}, "the file lacks num_experts_per_tok or moe_top_k or moe_k"),
        (latent | {"kv_lora_rank": None}, "the file lacks kv_lora_rank"),
        (latent | {"index_topk": 2048}, "of deepseek_v3 with index_topk 2048 the parameters are not known here"),
        (latent | {"moe_layer_freq": 2}, "of deepseek_v3 with moe_layer_freq 2"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            of_config(config)


def test_latent_attention_costs_what_deepseek_says():
    """DeepSeek-V2 (arXiv 2405.04434, table 1): a token keeps 4.5 head widths, in place of 2 for every head."""
    for query_rank in (0, 1536):
        latent, width, heads = Latent(query_rank, 512, 128, 64, 128), 7168, 128
        trained, absorbed = latent.attention(width, heads), latent.absorbed(width, heads)
        assert absorbed.kept == 4.5 * 128
        assert trained.kept == heads * (192 + 128)  # what generates without absorbing would keep
        assert trained.weights == absorbed.weights
        # Operations per token and token before it: 192 + 128 numbers of a head, or 576 + 512.
        assert (trained.compared + trained.read, absorbed.compared + absorbed.read) == (heads * 320, heads * 1088)
        block = decoder_block(10, width, trained, 0)
        assert block.weightless == 2 * 10 * 10 * heads * 320
        assert block.work == 2 * 10 * trained.weights + block.weightless


@pytest.mark.parametrize("query_rank", [0, 20])
def test_latent_attention_stores_what_pytorch_stores(query_rank):
    torch = pytest.importorskip("torch", reason="the count is held against PyTorch")
    from torch.nn import Linear, functional

    class Norm(torch.autograd.Function):
        """In one kernel, which keeps its input alone."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x / x.norm(dim=-1, keepdim=True)

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError

    tokens, width, heads, latent = (
        64,
        48,
        4,
        Latent(query_rank, 24, 10, 6, 16),
    )  # values as wide as keys: a fused kernel
    down, up = Linear(width, max(1, query_rank), bias=False), Linear(query_rank or width, heads * 16, bias=False)
    both, wide, out = Linear(width, 30, bias=False), Linear(24, heads * 26, bias=False), Linear(64, width, bias=False)

    def attend(x):
        queries = up(Norm.apply(down(x)) if query_rank else x)
        shared, turned = both(x).split([24, 6], dim=-1)
        keys, values = wide(Norm.apply(shared)).view(tokens, heads, 26).split([10, 16], dim=-1)
        keys = torch.cat([keys, turned[:, None].expand(-1, heads, -1)], dim=-1)
        parts = [part.transpose(0, 1)[None] for part in (queries.view(tokens, heads, 16), keys, values.contiguous())]
        return out(functional.scaled_dot_product_attention(*parts)[0].transpose(0, 1).reshape(tokens, 64))

    kept = {}
    matrices = {layer.weight.data_ptr() for layer in (down, up, both, wide, out)}

    def note(tensor):
        if tensor.untyped_storage().data_ptr() not in matrices:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    x = torch.randn(tokens, width, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        attend(x)
    sums = tokens * heads  # of each head's weights, which the fused kernel keeps
    print(sorted(v // tokens for v in kept.values()))
    assert sum(kept.values()) == x.numel() + tokens * latent.attention(width, heads).stored + sums
