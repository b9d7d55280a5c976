"""A split in another system's words is the plan that this system makes of them, and stands beside the best."""

import json
import re

import pytest

from gpipe_edu.sizing import Job, Machine, Planner, SearchSpace, like, transformer
from gpipe_edu.sizing.flags import DEEPSPEED, MEGATRON, TORCHTITAN, flags
from gpipe_edu.sizing.plan import Plan

MACHINE = Machine(32, 80e9, 4e14, bandwidth=2e12, link=2e11, node=8)
MODEL = transformer(14, 64, 32, 500, heads=4, fused=False)

MEGATRON_WORDS = """
MODEL_ARGS=(
    --num-layers 48 --hidden-size 6144 --ffn-hidden-size 16384 --num-attention-heads 48
    --group-query-attention --num-query-groups 8 --swiglu --seq-length 4096
    --untie-embeddings-and-output-weights --vocab-size 128000 --bf16  # as published
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 4 --sequence-parallel
    --pipeline-model-parallel-size=4 --num-virtual-stages-per-pipeline-rank 3 \\
    --micro-batch-size 1 --global-batch-size 256 --use-distributed-optimizer --recompute-granularity selective
)
torchrun --nproc-per-node 8 pretrain_gpt.py "${MODEL_ARGS[@]}" ${PARALLEL_ARGS[@]}
"""


def planned(text, model=MODEL, batch=32, machine=MACHINE):
    return like.plan_like(like.read(text), Job(model, batch, machine))


def test_megatrons_script_tells_model_batch_and_split(tmp_path):
    file = tmp_path / "train.sh"
    file.write_text(MEGATRON_WORDS, encoding="utf-8")
    found = like.read(str(file))
    assert (found.system, found.devices, found.context, found.notes) == ("Megatron-LM", None, 4096, ())
    assert like.batch_of(found, Job(found.model, 1, MACHINE)) == 256
    assert found.model == transformer(48, 6144, 4096, 128000, hidden=16384, gated=True, heads=48, shared_heads=8)
    plan = like.plan_like(found, Job(found.model, 256, MACHINE))
    assert plan.knobs == "D=2, K=4, M=128, tensor=4, ZeRO-1, interleaved V=3, recompute selective"
    assert plan.balance == (5, *(4,) * 10, 5)


def test_what_is_not_told_of_megatrons_model_is_as_megatron_has_it():
    told = "--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --vocab-size 500"
    plain, gated = (like.read(f"{told} {more} --micro-batch-size 1").model for more in ("", "--swiglu"))
    assert plain == transformer(4, 128, 64, 500, hidden=512, heads=4, tied=True)
    assert gated == transformer(4, 128, 64, 500, hidden=320, gated=True, heads=4, tied=True)  # 341 in steps of 64
    assert like.read("--num-layers 4 --micro-batch-size 1").model is None


def test_megatrons_cut_of_blocks():
    for words, balance in (
        ("", None),
        ("--pipeline-model-parallel-layout Ettt|(tttt|)*2tttL", (4, 4, 4, 4)),
        ("--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 4", (3, 4, 4, 5)),
        ("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", (4, 4, 4, 4)),
    ):
        text = f"--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 32 {words}"
        if balance is None:
            with pytest.raises(ValueError, match="14 blocks are not shared evenly by 4 stages"):
                planned(text)
        else:
            assert planned(text).balance == balance
    two = "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 32"
    assert planned(two).balance == (8, 8)
    assert planned(f"{two} --decoder-first-pipeline-num-layers 4").balance == (5, 11)


def test_torchtitans_words():
    text = (
        "--parallelism.pipeline_parallel_degree 4 --parallelism.pipeline_parallel_schedule Interleaved1F1B "
        "--parallelism.pipeline_parallel_layers_per_stage 2 --parallelism.num_pp_microbatches 4 "
        "--parallelism.data_parallel_shard_degree 4 --parallelism.tensor_parallel_degree 2"
    )
    found = like.read(text)
    assert (found.system, found.devices, found.model) == ("torchtitan", 32, None)
    plan = planned(text)
    assert plan.knobs == "D=4, K=4, M=4, tensor=2, ZeRO-2, interleaved V=2, recompute none"
    assert plan.balance == (2,) * 8
    for more, knobs in (
        ("--parallelism.fsdp_reshard_after_forward always", "ZeRO-3"),
        (
            "--parallelism.data_parallel_shard_degree=1 --parallelism.data_parallel_replicate_degree=4",
            "tensor=2, inter",
        ),
        ("--activation_checkpoint.mode full", "recompute full"),
        ("activation-checkpoint:full", "recompute full"),
    ):
        assert knobs in planned(f"{text} {more}").knobs
    selective = like.read(f"{text} --activation_checkpoint.mode selective")
    assert selective.notes == (
        "torchtitan's selective recompute keeps some products within a block; it is planned as full.",
    )
    two = text.replace("--parallelism.pipeline_parallel_layers_per_stage 2 ", "")
    assert planned(two).V == 2  # as torchtitan gives schedules of several stages
    assert planned(two.replace("Interleaved1F1B", "1F1B")).balance == (4, 4, 4, 4)


def test_files_of_deepspeed_and_nanotron(tmp_path):
    pytest.importorskip("yaml", reason="nanotron's files are YAML, which comes with the lab")
    deep, nano = tmp_path / "ds_config.json", tmp_path / "run.yaml"
    config = {
        "train_batch_size": 32,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 8,
        "zero_optimization": {"stage": 1},
        "pipeline": {"stages": 4, "partition": "uniform", "activation_checkpoint_interval": 1},
    }
    deep.write_text(json.dumps(config), encoding="utf-8")
    found = like.read(str(deep))
    assert (found.system, found.devices) == ("DeepSpeed", 8)
    plan = planned(str(deep))
    assert plan.knobs == "D=2, K=4, M=8, ZeRO-1, 1f1b, recompute full"
    assert plan.balance == (4, 4, 4, 4)
    nano.write_text(
        "model:\n  model_config: {hidden_size: 64, intermediate_size: 96, num_hidden_layers: 6, num_attention_heads: 4,"
        " vocab_size: 500, tie_word_embeddings: true}\n"
        "parallelism: {dp: 2, pp: 4, pp_engine: afab, tp: 2, tp_mode: ALL_REDUCE}\n"
        "tokens: {batch_accumulation_per_replica: 16, micro_batch_size: 1, sequence_length: 32}\n",
        encoding="utf-8",
    )
    found = like.read(str(nano))
    assert (found.system, found.devices) == ("nanotron", 16)
    assert like.batch_of(found, Job(found.model, 1, MACHINE)) == 32
    expected = transformer(6, 64, 32, 500, hidden=96, gated=True, heads=4, tied=True)
    assert found.model._replace(name="") == expected._replace(name="")
    plan = planned(str(nano), found.model)
    assert plan.knobs == "D=2, K=4, M=16, tensor=2 without sequence parallelism, gpipe, recompute none"


def test_our_own_flags_read_back_are_the_plan():
    plans = [
        Plan(Job(MODEL, 32, MACHINE), 4, 4, 4, schedule="1f1b", zero=1, balance=(4, 4, 4, 4)),
        Plan(Job(MODEL, 32, MACHINE), 2, 4, 8, "full", schedule="interleaved", V=2, tensor=2, balance=(2,) * 8),
    ]
    for plan in plans:
        found = flags(plan)
        words = " ".join(flag.text for flag in found[TORCHTITAN])
        assert planned(words).knobs.replace("ZeRO-2", "ZeRO-1") == plan.knobs
        script = " ".join(flag.text for flag in found[MEGATRON] if flag.text.startswith("--"))
        machine = MACHINE._replace(devices=plan.devices)
        even = f"{script} --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
        mine = planned(even, machine=machine)
        assert (mine.knobs, mine.balance) == (plan.knobs, plan.balance)
    assert DEEPSPEED in flags(plans[0])


def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path):
    broken = tmp_path / "ds_config.json"
    broken.write_text("{", encoding="utf-8")
    pipeline = "--pipeline-model-parallel-size 4 --micro-batch-size 1"
    for text, says in (
        ("--lr 1", "has no words by which a plan is told in Megatron-LM, torchtitan, DeepSpeed and nanotron"),
        (str(broken), "does not read as JSON"),
        ('--pipeline-model-parallel-size "4', "close its quotes"),
        ("--pipeline-model-parallel-size", "--pipeline-model-parallel-size has no number after it"),
        (f"{pipeline} --multi-latent-attention", "--multi-latent-attention asks for latent attention"),
        ("--pipeline-model-parallel-size $PP", "--pipeline-model-parallel-size is '$PP'; write the number itself"),
        (f"{pipeline} --num-experts 8", "--num-experts 8 asks for a mixture of experts"),
        (
            "--parallelism.pipeline_parallel_schedule DualPipeV",
            "planned here are GPipe, 1F1B, Interleaved1F1B, LoopedBFS",
        ),
        (f"{pipeline} --recompute-granularity some", "is 'some'; planned here are selective and full"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            like.read(text)
    with pytest.raises(FileNotFoundError):
        like.read(str(tmp_path / "none.sh"))
    for text, says in (
        ("--pipeline-model-parallel-size 3 --micro-batch-size 1", "take 3 devices, which do not divide 32 (--devices)"),
        ("--pipeline-model-parallel-size 2 --micro-batch-size 3", "32 samples are not cut evenly by 16 replicas"),
        (
            f"{pipeline} --pipeline-model-parallel-layout Et*14|L",
            "the layout has 2 stages of this model, which 4 ranks do not share",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            planned(text)


def test_every_knob_is_turned_alone():
    plan = Plan(Job(MODEL, 32, MACHINE), 4, 4, 4, "full", schedule="1f1b", zero=1, balance=(4, 4, 4, 4))
    found = dict(like.turned(plan))
    assert {"M=8", "M=2", "K=8, D=2", "K=2, D=8", "tensor=2, D=2", "ZeRO-0", "ZeRO-2", "ZeRO-3"} <= found.keys()
    assert {
        "recompute none",
        "recompute selective",
        "recompute stage",
        "zero_bubble",
        "interleaved V=4",
    } <= found.keys()
    assert {"ZeRO-1", "recompute full", "1f1b"}.isdisjoint(found)
    for words, other in found.items():
        assert other.devices == plan.devices
        assert other.knobs != plan.knobs or words == "stages cut by their costs"
    assert found["recompute none"].balance == plan.balance
    best = Planner(plan.job, SearchSpace()).best
    assert min(other.step for other in found.values() if other.fits) >= best.step * 0.99


def test_scripts_have_words_in_quotes_over_lines_and_in_arrays(tmp_path):
    words = ("--pipeline-model-parallel-size 2", "--micro-batch-size 2", "--global-batch-size 32")
    layout = '--pipeline-model-parallel-layout "Et*3|(tt|)*2t*7L"'
    for number, text in enumerate(
        (
            'ARGS="' + " \\\n ".join(words) + '"\ntorchrun pretrain_gpt.py $ARGS',
            f"ARGS=({' '.join(words)})\nMORE+=(\n    --bf16\n)",
            f"torchrun --nproc-per-node 8 pretrain_gpt.py {' '.join(words)} \\\n --bf16  # as it runs",
        )
    ):
        file = tmp_path / f"train{number}.slurm"
        file.write_text(text, encoding="utf-8")
        assert planned(str(file)).knobs == "D=16, K=2, M=1, 1f1b, recompute none"
    file = tmp_path / "layout.sh"
    file.write_text(f"ARGS=(\n {words[0].replace('2', '4')}\n {layout}\n {words[1]} {words[2]}\n)", encoding="utf-8")
    assert planned(str(file)).balance == (4, 2, 2, 8)


def test_what_is_left_to_the_system_is_as_if_it_were_not_told(tmp_path):
    file = tmp_path / "ds_config.json"
    config = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    file.write_text(json.dumps(config | {"pipeline": {"stages": 4}}), encoding="utf-8")
    found = like.read(str(file))
    assert like.batch_of(found, Job(MODEL, 1, MACHINE)) == 2 * 4 * 8
    assert like.plan_like(found, Job(MODEL, 64, MACHINE)).knobs == "D=8, K=4, M=4, 1f1b, recompute none"
    file.write_text(
        json.dumps(config | {"train_batch_size": 250, "train_micro_batch_size_per_gpu": 3}), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="a mini-batch of 250 is no multiple of 4 micro-batches of 3"):
        like.read(str(file))
    file.write_text(
        json.dumps(config | {"zero_optimization": {"stage": 2}, "pipeline": {"stages": 4}}), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="DeepSpeed has no ZeRO-2 beside a pipeline; ask for 1"):
        like.plan_like(like.read(str(file)), Job(MODEL, 64, MACHINE))


def test_torchtitans_words_of_yesterday(tmp_path):
    file = tmp_path / "train.toml"
    text = "[parallelism]\npipeline_parallel_degree = 4\ndata_parallel_shard_degree = 8\n"
    text += "[training]\nlocal_batch_size = 8\n"
    file.write_text(text, encoding="utf-8")
    found = like.read(str(file))
    assert like.batch_of(found, Job(MODEL, 1, MACHINE)) == 64
    assert like.plan_like(found, Job(MODEL, 64, MACHINE)).knobs == "D=8, K=4, M=8, ZeRO-2, 1f1b, recompute none"
    dashed = "--parallelism.pipeline-parallel-degree 4 --parallelism.data-parallel-shard-degree 8"
    found = like.read(f"{dashed} activation-checkpoint:selective")
    assert (found.devices, found.knobs["recompute"], len(found.notes)) == (32, "full", 1)
