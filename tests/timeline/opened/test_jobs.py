"""A file that tells a job, and no run, is refused with the command that takes it, and the command does."""

import json
import re
import shlex

import pytest

import gpipe_edu as ge
from gpipe_edu.sizing import hugging_face, like
from gpipe_edu.split import balance_of_layout
from gpipe_edu.timeline.opened import open_files

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": 500,
}
DEEPSPEED = {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "pipeline": {"stages": 4}}
MEGATRON = (
    "#!/bin/bash\nA=(\n --tensor-model-parallel-size 2\n --pipeline-model-parallel-size 4\n)\npython a.py ${A[@]}\n"
)
NANOTRON = "model:\n  ddp_bucket_cap_mb: 25\nparallelism: {dp: 2, pp: 4, tp: 1}\n"

JOBS = (
    ("my config.json", json.dumps(SIZES | {"model_type": "llama"}), "a model's sizes, as Hugging Face keeps them"),
    (
        "gpt2.json",
        '{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 9, "n_positions": 8}',
        "as Hugg",
    ),
    ("ds_config.json", json.dumps(DEEPSPEED), "DeepSpeed's settings"),
    ("train.sh", MEGATRON, "Megatron-LM's arguments"),
    (
        "flags.txt",
        "--parallelism.pipeline_parallel_degree 4 --parallelism.num_pp_microbatches 8",
        "torchtitan's settings",
    ),
    ("train.toml", "[training]\nsteps = 9\n\n[parallelism]\npipeline_parallel_degree = 4\n", "torchtitan's settings"),
    ("run.yaml", NANOTRON, "nanotron's settings"),
)


@pytest.mark.parametrize(("name", "content", "what"), JOBS, ids=[name for name, *_ in JOBS])
def test_a_job_is_refused_with_the_command_that_takes_it(name, content, what, tmp_path):
    if name.endswith("yaml"):
        pytest.importorskip("yaml", reason="nanotron's files are YAML, which comes with the lab")
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^{name} is .*{what}.*, and no run: `.*` plans .*$") as refused:
        ge.load(tmp_path / name)
    words = shlex.split(re.search("`(.*)`", str(refused.value))[1])
    after = words[words.index("plan") + 1 :]
    options = dict(zip(after[::2], after[1::2], strict=True))
    if "--like" not in options:
        assert options.keys() == {"--model"}
        assert hugging_face.read(options["--model"]).model.parameters
    else:
        found = like.read(options["--like"])
        assert found.knobs["K"] == 4
        assert what.startswith(found.system)
        # Where a file may tell the model, too, it is not asked for.
        assert options.get("--model", "config.json") == "config.json"
        assert ("--model" in options) == (found.system in ("DeepSpeed", "torchtitan"))


def test_a_layout_is_refused_with_what_reads_it(tmp_path):
    file = tmp_path / "layout.txt"
    file.write_text("Et*2 | (tt|)*5 t,|tmL\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"^layout.txt is a layout of Megatron-LM's, 8 stages, and no run: "
    ) as refused:
        ge.load(file)
    call, command = re.findall("`(.*?)`", str(refused.value))
    blocks = eval(call.removeprefix("gpipe_edu.split."), {"balance_of_layout": balance_of_layout})
    assert blocks == (2,) * 6 + (1, 1)
    words = shlex.split(command)
    found = like.read(words[words.index("--like") + 1].replace("size K", "size 4"))
    assert found.knobs == {"system": "megatron", "K": 4, "layout": "Et*2|(tt|)*5t,|tmL"}
    file.write_text("EttL|tt", encoding="utf-8")
    with pytest.raises(ValueError, match=r"is a layout of Megatron-LM's, and no run: layout 'EttL\|tt' has 1 E"):
        ge.load(file)


def test_an_adapter_s_file_names_whose_sizes_are_wanted(tmp_path):
    file = tmp_path / "adapter_config.json"
    file.write_text('{"peft_type": "LORA", "base_model_name_or_path": "some/model"}', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"adapts a model \(peft\), and no run: `.* plan --model` takes that model's config"
    ):
        ge.load(file)


def test_beside_a_run_a_job_is_left_out_and_said(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SIZES), encoding="utf-8")
    timeline = ge.simulate(ge.gpipe(2, 3))
    timeline.save_trace(tmp_path / "run.json")
    opened = open_files(tmp_path)
    assert opened.found == timeline
    assert opened.said[0] == "left out: config.json is a model's sizes, as Hugging Face keeps them"


def test_an_order_of_ops_is_an_order_whatever_its_comments_say(tmp_path):
    file = tmp_path / "order.txt"
    file.write_text("# as run with --pipeline-model-parallel-size 2\n" + str(ge.gpipe(2, 3)), encoding="utf-8")
    assert ge.load(file) == ge.gpipe(2, 3)


def test_settings_with_comments_are_a_job_and_no_file_that_was_cut_off(tmp_path):
    file = tmp_path / "ds_config.json"
    file.write_text('{\n  // all of them\n  "train_batch_size": 256, "pipeline": {"stages": 4}\n}')
    with pytest.raises(ValueError, match=r"ds_config\.json is DeepSpeed's settings, and no run"):
        ge.load(file)
    file.write_text('{\n  "batch": 256, "pipeline": {')
    with pytest.raises(ValueError, match="was cut off or changed, so copy or export it anew"):
        ge.load(file)
