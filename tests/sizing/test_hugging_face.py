"""Models from config.json: counted as transformers counts them, or refused by name."""

import json
import re
from pathlib import Path

import pytest

from gpipe_edu.sizing import Job, Machine, Plan, transformer
from gpipe_edu.sizing.hugging_face import LONGEST, dense_models, of_config, read
from gpipe_edu.sizing.presets import model as published

HERE = Path(__file__).parent
COUNTED_BY, *COUNTED = json.loads((HERE / "configs.json").read_text(encoding="utf-8"))
DENSE = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 500,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 128,
}


def test_every_known_model_has_the_parameters_that_transformers_counts():
    assert COUNTED_BY.startswith("transformers ")
    counted = {config["model_type"] for _, config in COUNTED}
    # What reads pictures is no model of its own there, and has the language model's blocks.
    assert {kind for kind in set(dense_models()) - counted if "_vl" not in kind} == set()
    off = {
        (config["model_type"], parameters, counted)
        for parameters, config in COUNTED
        if (counted := of_config(config).model.parameters) != parameters
    }
    assert not off


def test_llama_from_its_file_is_llama_as_published():
    config = next(config for parameters, config in COUNTED if parameters == 8030261248)
    mine, theirs = of_config(config, context=8192, vocabulary=128000).model, published("llama3-8b")
    assert mine == theirs._replace(name=mine.name, kind="llama")


def test_heads_may_together_be_wider_than_the_model():
    wide = transformer(1, 64, 32, 100, hidden=96, gated=True, heads=4, shared_heads=2, head=32)
    assert wide.head == 32
    block = wide.layers[1]
    assert block.parameters == 2 * 64 * 128 + 2 * 64 * 64 + 3 * 64 * 96 + 2 * 64
    assert block.keys == 2 * 32 * 64
    assert block.work == 2 * 32 * (block.parameters - 2 * 64) + 4 * 32 * 32 * 128
    same = transformer(1, 64, 32, 100, heads=4, head=16)
    assert same == transformer(1, 64, 32, 100, heads=4)


def test_a_tied_head_is_counted_once_and_held_once_more_on_another_stage():
    tied, free = (transformer(4, 64, 32, 500, tied=each) for each in (True, False))
    assert free.parameters - tied.parameters == 500 * 64

    def job(model):
        return Job(model, 8, Machine(4, 1e9, 1e12, bandwidth=1e12))

    def held(model, K, **knobs):
        return sum(Plan(job(model), 1, K, 4, **knobs).weights) / 4

    assert held(tied, 1) == tied.parameters
    assert held(tied, 2) == free.parameters == held(free, 2)
    # A V ends on the device where it begins, which has one copy.
    assert held(tied, 2, schedule="zero_bubble_v") == tied.parameters
    assert held(tied, 2, schedule="interleaved", V=2) == free.parameters
    # Its gradient is added up for both uses.
    added = [Plan(job(model), 1, 1, 4).parts["memory"] for model in (tied, free)]
    assert added[0] == pytest.approx(added[1], rel=1e-12)


def test_what_is_no_dense_decoder_is_refused_by_name():
    for more, says in (
        ({"model_type": "mixtral"}, "the file lacks num_local_experts or num_experts"),
        ({"model_type": "somebodys", "num_experts": 128}, "a mixture of experts (num_experts is 128)"),
        ({"model_type": "qwen9_moe"}, "model_type 'qwen9_moe' is a mixture of experts"),
        ({"model_type": "dbrx"}, "the file lacks num_local_experts"),
        ({"model_type": "nas", "intermediate_size": None}, "model_type 'nas' is not known here"),
        ({"model_type": "opt", "word_embed_proj_dim": 32}, "word_embed_proj_dim unequal to hidden_size"),
        ({"model_type": "minicpm3", "kv_lora_rank": 512}, "latent attention (kv_lora_rank is 512)"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "a layer is 'linear_attention'"),
        ({"model_type": "mamba", "state_size": 16}, "a hybrid or a state-space model (state_size is 16)"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "an encoder with a decoder"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "model_type 'bert' is not known here"),
        ({"model_type": "cohere", "use_qk_norm": True}, "of cohere with use_qk_norm True"),
        ({"num_hidden_layers": None}, "lacks num_hidden_layers or n_layer or n_layers or num_layers"),
        ({"num_attention_heads": 5}, "hidden_size 64 is no multiple of num_attention_heads 5"),
        ({"vocab_size": 0}, "vocab_size is 0"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            of_config(DENSE | more)


def test_an_unknown_name_with_llamas_norms_and_activation_is_counted_as_llama_and_says_so():
    model, notes = of_config(DENSE | {"model_type": "somebodys"})
    assert model.parameters == of_config(DENSE).model.parameters
    assert notes == (
        "model_type 'somebodys' is not known here: its blocks are counted as Llama's, to which its norms and "
        "activation point.",
    )
    assert of_config(DENSE).notes == ()


def test_gemma_4_is_planned_as_far_as_its_blocks_are_known():
    dense = {
        **{"hidden_size": 5376, "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16},
        **{"head_dim": 256, "intermediate_size": 21504, "vocab_size": 262144, "hidden_size_per_layer_input": 0},
        **{"model_type": "gemma4_text", "attention_k_eq_v": True, "layer_types": None},
        **{"global_head_dim": 512, "num_global_key_value_heads": 4},
    }
    published = of_config({"model_type": "gemma4", "text_config": dense}).model
    assert published.parameters == 30_697_345_280  # as transformers 5.24 counts it
    sliding, full = published.layers[1], published.layers[6]
    assert sliding.parameters != full.parameters
    assert [published.layers[place].parameters for place in (5, 60)] == [sliding.parameters, full.parameters]
    with pytest.raises(ValueError, match="of gemma4_text with hidden_size_per_layer_input 256 the parameters are not"):
        of_config(dense | {"hidden_size_per_layer_input": 256})


def test_a_file_that_holds_too_much_is_refused_in_a_sentence(tmp_path):
    file = tmp_path / "config.json"
    told = json.dumps(DENSE)
    for text, says in (
        (told[:-1] + ', "x": ' + "[" * 1500 + "]" * 1500 + "}", "is nested more than 64 deep"),
        ("[" * 100_000, "is nested more than 64 deep"),
        (
            json.dumps(DENSE | {"num_hidden_layers": 10**9}),
            "is 1,000,000,000; it must be at most 2,048",
        ),
        (json.dumps(DENSE | {"hidden_size": 10**400}), "a number of 401 digits is in it"),
        (json.dumps(DENSE | {"hidden_size": "q" * 200_000}), "hidden_size is 'q+..."),
        (json.dumps(DENSE | {"layer_types": 5}), "has a value of another kind than is wanted there"),
        (json.dumps(DENSE | {"model_type": "\x1b[31m" + "q" * 9000, "hidden_act": "x"}), r"model_type '\\\\x1b\[31mq+"),
        (json.dumps([{"": 0}] * 150_000), "has more than 1,048,576 bytes"),
        (json.dumps([0] * 150_000), "has more than 100,000 values"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=says) as caught:
            read(file)
        assert len(str(caught.value)) <= 500
    file.write_bytes(told.encode("utf-16"))
    with pytest.raises(ValueError, match=r"config\.json is a text in UTF-16: save it as UTF-8"):
        read(file)


def test_of_a_model_that_sees_the_language_model_is_planned():
    inner = {key: value for key, value in DENSE.items() if key != "model_type"} | {"model_type": "qwen2"}
    model, notes = of_config({"model_type": "sees", "text_config": inner, "tie_word_embeddings": True})
    assert model.parameters == of_config(inner | {"tie_word_embeddings": True}).model.parameters
    assert notes == ("Of sees the language model alone is planned; what reads pictures or sound is not counted.",)


def test_samples_are_as_long_as_one_trains_unless_told():
    long = DENSE | {"max_position_embeddings": 131072}
    model, notes = of_config(long)
    assert model.tokens == LONGEST
    assert notes == ("Samples of 4,096 tokens; the file allows 131,072 (--context).",)
    model, notes = of_config(long, context=8192, blocks=2, vocabulary=1000)
    assert (model.tokens, len(model.layers), model.layers[0].parameters, notes) == (8192, 4, 64000, ())


def test_an_adapter_names_the_model_that_is_wanted(tmp_path):
    file = tmp_path / "adapter_config.json"
    file.write_text('{"peft_type": "LORA", "base_model_name_or_path": "some/model", "r": 8}', encoding="utf-8")
    with pytest.raises(
        ValueError, match="with what LORA adds to some/model, and no sizes of that model: give its config"
    ):
        read(file)


def test_settings_of_a_training_are_no_model(tmp_path):
    file = tmp_path / "ds_config.json"
    file.write_text('{"train_batch_size": 8, "pipeline": {"stages": 4}}', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"ds_config.json: it has none of a model's sizes.* split of another system to --"
    ):
        read(file)


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(DENSE), encoding="utf-8-sig")
    assert read(file).model == of_config(DENSE).model


def test_what_names_no_model_type_is_told_so():
    state_space = {"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {}}
    with pytest.raises(ValueError, match="a file without a model_type is a hybrid or a state-space model"):
        of_config(state_space)
    del state_space["ssm_cfg"]
    with pytest.raises(ValueError, match="the file names no model_type, and nothing says that its blocks are Llama's"):
        of_config(state_space)


def test_a_file_that_is_none_says_what_to_give(tmp_path):
    broken, listed = tmp_path / "broken.json", tmp_path / "list.json"
    broken.write_text("{", encoding="utf-8")
    listed.write_text("[1]", encoding="utf-8")
    for file, says in ((broken, "is no JSON"), (listed, "holds no object")):
        with pytest.raises(ValueError, match=says) as caught:
            read(file)
        assert str(file) in str(caught.value)
        assert "give the config.json of a Hugging Face model" in str(caught.value)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.json")
