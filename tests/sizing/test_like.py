"""A split in another system's words is the plan that this system makes of them, and stands beside the best."""

import json
import re
from itertools import pairwise

import pytest

from gpipe_edu.base.bounded import TooMuchError
from gpipe_edu.sizing import Job, Machine, Planner, SearchSpace, hugging_face, like, transformer
from gpipe_edu.sizing.flags import DEEPSPEED, MEGATRON, TORCHTITAN, flags
from gpipe_edu.sizing.plan import Plan
from gpipe_edu.sizing.shell_words import words_of_script

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


MIXTRAL_WORDS = """
MODEL_ARGS=(
    --disable-bias-linear --seq-length 4096 --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --swiglu
    --num-attention-heads 32 --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 8
)
MOE_ARGS=(
    --num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall --overlap-grad-reduce
)
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8
    --use-distributed-optimizer --sequence-parallel --micro-batch-size 1 --global-batch-size 256
)
torchrun pretrain_gpt.py ${MODEL_ARGS[@]} ${MOE_ARGS[@]} ${MODEL_PARALLEL_ARGS[@]}
"""
"""The words of Megatron-LM's examples/mixtral/train_mixtral_8x7b_distributed.sh (Megatron Core 0.19)."""

CONFIG = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
CONFIG |= {"vocab_size": 32000, "intermediate_size": 14336, "tie_word_embeddings": False}


def test_megatrons_script_of_mixtral_tells_the_model_that_its_config_tells():
    found = like.read(MIXTRAL_WORDS)
    assert (found.lacks, found.notes) == (("--vocab-size",), ())
    found = like.completed(found, {"vocabulary": 32000})
    mixtral = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    expected = hugging_face.of_config(CONFIG | mixtral, context=4096).model
    assert found.model._replace(name="", kind="") == expected._replace(name="", kind="")
    assert found.model.parameters == 46_702_792_704
    job = Job(found.model, 256, MACHINE)
    plan = like.plan_like(found, job)
    assert plan.knobs == "D=8, K=4, M=32, experts=8, ZeRO-1, 1f1b, recompute none"
    assert plan.balance == (9, 8, 8, 9)
    turned = {words: other.experts.ranks for words, other in like.turned(plan)}
    assert turned["experts=4"] == 4
    assert turned["M=16"] == turned["tensor=2, D=4"] == 8
    assert "experts=16" not in turned  # there are 8
    for more, knobs in (
        ("--tensor-model-parallel-size 2", "tensor=2, experts=4, expert_tensor=2, ZeRO-1"),
        ("--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1", "tensor=2, experts=4, ZeRO-1"),
        ("--moe-token-dispatcher-type flex", "experts=4, once, ZeRO-1"),
        (
            "--num-virtual-stages-per-pipeline-rank 2 --overlap-moe-expert-parallel-comm",
            "experts=4, hide=pairs, ZeRO-1, interleaved V=2",
        ),
        ("--num-experts 1 --expert-model-parallel-size 1", "D=8, K=4, M=32, ZeRO-1, 1f1b, recompute none"),
    ):
        given = like.read(f"{MIXTRAL_WORDS} --expert-model-parallel-size 4 {more} --vocab-size 32000")
        assert knobs in like.plan_like(given, Job(given.model, 256, MACHINE)).knobs
        assert given.notes == ()
    with pytest.raises(ValueError, match="experts take 8 devices of a stage; with 4 stages a stage has 2 of 8 devices"):
        like.plan_like(found, Job(found.model, 256, MACHINE._replace(devices=8)))
    titan = (
        "--parallelism.pipeline_parallel_degree 4 --parallelism.expert_parallel_degree 8 --training.local_batch_size 32"
    )
    assert "D=8, K=4, M=32, experts=8" in like.plan_like(like.read(titan), job).knobs


def test_which_blocks_have_experts_and_which_every_token_goes_to():
    text = MIXTRAL_WORDS.replace("--num-layers 32", "--num-layers 6") + " --vocab-size 32000 --moe-ffn-hidden-size 1408"
    for words, routed in (
        ("", [1] * 6),
        ("--moe-layer-freq 2", [1, 0, 1, 0, 1, 0]),
        ("--moe-layer-freq 4", [1, 0, 0, 0, 1, 0]),
        ("--moe-layer-freq ([0]+[1,0]*2+[1])", [0, 1, 0, 1, 0, 1]),
        ('--moe-layer-freq "([1]*2+[0])*2"', [1, 1, 0, 1, 1, 0]),
    ):
        layers = like.read(f"{text} {words}").model.layers
        assert [int(layer.routed is not None) for layer in layers[1:-1]] == routed
    for words, says in (
        ("[1]*5", "--moe-layer-freq lists 5 blocks, and --num-layers is 6"),
        ("[2]*6", "it must be a number, or a list of 0 and 1"),
        ("[[1]]*6", "it must be a number, or a list"),
        ("[1]*9999999999", "it must be a number, or a list"),
        ("__import__('os')", "it must be a number, or a list"),
        ("0", "--moe-layer-freq is 0; it must be"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            like.read(f'{text} --moe-layer-freq "{words}"')
    shared = "--moe-shared-expert-intermediate-size 1408 --moe-layer-freq [0]*1+[1]*5 --kv-channels 128"
    glm = {"model_type": "glm4_moe", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1408}
    glm |= {"n_shared_experts": 1, "first_k_dense_replace": 1, "num_hidden_layers": 6, "head_dim": 128}
    expected = hugging_face.of_config(CONFIG | glm, context=4096).model
    assert like.read(f"{text} {shared}").model._replace(name="", kind="") == expected._replace(name="", kind="")
    groups = "--moe-router-num-groups 4 --moe-router-group-topk 2"
    assert like.read(f"{text} {groups}").model.layers[1].routed.nodes == 2


def test_what_of_experts_is_not_planned_is_told():
    text = MIXTRAL_WORDS + " --vocab-size 32000"
    for words, told in (
        ("--moe-expert-capacity-factor 1.2", "that --moe-expert-capacity-factor drops are planned as if none were"),
        ("--moe-token-dispatcher-type allgather", "sends every token to all devices; it is planned as alltoall"),
        ("--moe-latent-size 64 --moe-layer-recompute", "knows --moe-latent-size and --moe-layer-recompute: what is"),
    ):
        [note] = like.read(f"{text} {words}").notes
        assert told in note
    for words, says in (
        ("--moe-router-topk 9", "--moe-router-topk is 9"),
        ("--num-experts 99999999", "--num-experts is 99999999; planned is at most"),
    ):
        with pytest.raises(ValueError, match=says):
            like.read(f"{text} {words}")
    with pytest.raises(ValueError, match="--num-experts without --swiglu has experts of two matrices"):
        like.read(text.replace("--swiglu", ""))


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
    first, last, V = (
        "--decoder-first-pipeline-num-layers",
        "--decoder-last-pipeline-num-layers",
        "--num-virtual-stages-per-pipeline-rank",
    )
    for words, balance in (
        (f"{first} 4", (5, 11)),
        (f"{first} 4 {last} 10", (5, 11)),
        # A rank's blocks are those of all its stages: Megatron Core's get_num_layers_to_build divides them by V.
        (f"{V} 2 {first} 6", (4, 4, 3, 5)),
        (f"{V} 2 {last} 4", (6, 2, 5, 3)),
        (f"{V} 3 {first} 6 {last} 8", "8 blocks of a rank are not shared evenly by its 3 stages"),
        (f"{V} 2 {first} 5", "5 blocks of a rank are not shared evenly by its 2 stages"),
        (f"{first} 4 {last} 9", "of 14 blocks those of the first and last rank leave 1 to 0 ranks between them"),
        (f"{first} 15", "of 14 blocks those of the first and last rank leave -1 to 1 rank between them"),
        (f"{first} 4 --account-for-loss-in-pipeline-split", "leave out one or the other"),
        (f"{first} 4 --num-layers-per-virtual-pipeline-stage 1", f"takes {V}, and no --num-layers-per"),
        (
            "--num-layers-per-virtual-pipeline-stage 2",
            "--num-layers-per-virtual-pipeline-stage 2 makes 7 stages of this model, which 2 ranks do not share evenly",
        ),
    ):
        if isinstance(balance, str):
            with pytest.raises(ValueError, match=re.escape(balance)):
                planned(f"{two} {words}")
        else:
            assert planned(f"{two} {words}").balance == balance


def test_megatrons_units_of_recompute():
    """By uniform so many blocks at a time are recomputed, by block so many of each stage."""
    text = "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 32 --recompute-granularity full"
    alone = "Blocks recomputed {} at a time are planned as recomputed one by one, where a stage has more."
    all_of_them = "Of a stage with more than {} all are planned as recomputed, and not {}."
    for method, count, recompute, notes in (
        ("uniform", 1, "full", ()),
        ("uniform", 3, "full", (alone.format(3),)),
        ("uniform", 7, "stage", (alone.format(7),)),
        ("block", 0, "none", ()),
        ("block", 1, "full", (all_of_them.format("1 block", 1),)),
        ("block", 3, "full", (all_of_them.format("3 blocks", 3),)),
    ):
        words = f"{text} --recompute-method {method} --recompute-num-layers {count}"
        assert planned(words).recompute == recompute
        assert like.read(words).notes == notes
    assert planned(text.replace("-size 2", "-size 1", 1) + " --recompute-num-layers 14").recompute == "stage"


def test_torchtitans_words():
    text = (
        "--parallelism.pipeline_parallel_degree 4 --parallelism.pipeline_parallel_schedule Interleaved1F1B "
        "--parallelism.pipeline_parallel_layers_per_stage 2 --parallelism.num_pp_microbatches 4 "
        "--parallelism.data_parallel_shard_degree 4 --parallelism.tensor_parallel_degree 2"
    )
    found = like.read(text)
    assert (found.system, found.devices, found.model) == ("torchtitan", 32, None)
    plan = planned(text)
    assert plan.knobs == "D=4, K=4, M=4, tensor=2, ZeRO-1, interleaved V=2, recompute none"
    assert plan.balance == (2,) * 8
    for more, knobs in (
        ("--parallelism.fsdp_reshard_after_forward always", "ZeRO-1"),
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
    lost = ("With fsdp_reshard_after_forward always, PyTorch 2.13 loses gradients in this schedule: say never.",)
    for schedule, reshard, said in (
        ("InterleavedZeroBubble", "always", lost),
        ("ZBVZeroBubble", "always", lost),
        ("InterleavedZeroBubble", "never", ()),
        ("Interleaved1F1B", "always", ()),
    ):
        script = f"{text.replace('Interleaved1F1B', schedule)} --parallelism.fsdp_reshard_after_forward {reshard}"
        assert like.read(script).notes == said
    two = text.replace("--parallelism.pipeline_parallel_layers_per_stage 2 ", "")
    assert planned(two).V == 2  # as torchtitan gives schedules of several stages
    assert planned(two.replace("Interleaved1F1B", "1F1B")).balance == (4, 4, 4, 4)
    assert "interleaved_zero_bubble V=2" in planned(two.replace("Interleaved1F1B", "InterleavedZeroBubble")).knobs


def test_torchtitans_cut_of_blocks(tmp_path):
    """As its _generate_llm_fqn_per_model_part has it: the ends count as so many blocks, the first stages have more."""
    text = (
        "--parallelism.pipeline_parallel_degree {} --parallelism.data_parallel_shard_degree 8 "
        "--parallelism.num_pp_microbatches 4 --parallelism.pipeline_parallel_first_stage_less_layers {} "
        "--parallelism.pipeline-parallel-last-stage-less-layers {}"
    )
    for first, last, balance in (
        (1, 1, (4, 4, 4, 4)),
        (0, 0, (5, 4, 3, 4)),
        (1, 3, (5, 5, 4, 2)),
        (0, 5, "the first stage has 0 blocks less and the last one 5; with 4 stages of 14 blocks torchtitan takes 4"),
    ):
        if isinstance(balance, str):
            with pytest.raises(ValueError, match=balance):
                planned(text.format(4, first, last))
        else:
            assert planned(text.format(4, first, last)).balance == balance
    each = (
        " --parallelism.pipeline_parallel_schedule Interleaved1F1B --parallelism.pipeline_parallel_layers_per_stage 4"
    )
    assert planned(text.format(2, 0, 0) + each).balance == (5, 4, 3, 4)
    with pytest.raises(ValueError, match=r"^pipeline_parallel_layers_per_stage 4 makes 5 stages of this model"):
        planned(text.format(2, 2, 1) + each)


def test_torchtitans_lists_of_modules(tmp_path):
    def parts(*counts, first="tok_embeddings", last=("norm", "lm_head")):
        bounds = [sum(counts[:k]) for k in range(len(counts) + 1)]
        found = [[f"layers.{n}" for n in range(*bounds[k : k + 2])] for k in range(len(counts))]
        return [[first, *found[0]], *found[1:-1], [*found[-1], *last]]

    file = tmp_path / "train.toml"
    four = "[parallelism]\npipeline_parallel_degree = 4\ndata_parallel_shard_degree = 8\nnum_pp_microbatches = 4\n"
    file.write_text(f"{four}module_fqns_per_model_part = {json.dumps(parts(1, 5, 7, 1))}\n", encoding="utf-8")
    assert planned(str(file)).balance == (2, 5, 7, 2)
    words = "--parallelism.pipeline_parallel_degree 2 --parallelism.data_parallel_shard_degree 8 "
    words += '--parallelism.num_pp_microbatches 4 --parallelism.module_fqns_per_model_part "{}"'
    two = words + " --parallelism.pipeline_parallel_schedule Interleaved1F1B"
    assert planned(two.format(parts(1, 5, 7, 1))).balance == (2, 5, 7, 2)
    for names, says in (
        (parts(1, 5, 8), "the list of modules has 3 stages of this model, which 2 ranks do not share evenly"),
        (parts(7, 7, last=("norm",)), "the last part has no output or lm_head, and only such plans are made here"),
        (parts(7, 7, first="x"), "the first part has no tok_embeddings or embed_tokens"),
        (parts(7, 7)[::-1], "names blocks in another order than layers.0, layers.1, ..."),
        (["tok_embeddings", "lm_head"], "it must be a list for each stage, with the names of its modules"),
        ("layers.0", "is 'layers.0'; it must be a list for each stage, with the names of its modules"),
        (parts(3, 4), "with 9 layers in all; it must have 2 stages with 16"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            planned(words.format(names))


def test_no_word_of_a_split_is_passed_over_in_silence(tmp_path):
    pytest.importorskip("yaml", reason="nanotron's files are YAML, which comes with the lab")
    deep, nano = tmp_path / "ds_config.json", tmp_path / "run.yaml"
    config = {"train_micro_batch_size_per_gpu": 2, "pipeline": {"stages": 4, "seed_layers": True}, "steps_per_print": 9}
    config["zero_optimization"] = {"stage": 1, "offload_optimizer": {"device": "cpu"}, "overlap_comm": True}
    deep.write_text(json.dumps(config | {"bf16": {"enabled": True}}), encoding="utf-8")
    nano.write_text("parallelism: {dp: 2, pp: 4, tp: 1, tp_linear_async_communication: true}\n", encoding="utf-8")
    pipeline = "--pipeline-model-parallel-size 2 --micro-batch-size 1 --lr 1e-4 --bf16"
    for text, unread in (
        (
            f"{pipeline} --recompute-activations --recompute-modules mlp --mtp-num-layers 1 --log-interval 1",
            [
                "--recompute-modules",
                "--mtp-num-layers",
            ],
        ),
        (f"{pipeline} --use-distributed-optimizer --sequence-parallel --overlap-grad-reduce", []),
        (
            "--parallelism.pipeline_parallel_degree 2 --parallelism.spmd_backend x --parallelism.enable_async false "
            "--experimental.pipeline_parallel_split_points layers.2 --metrics.log_freq 1 "
            "--parallelism.pipeline_parallel_schedule_csv mine.csv "
            "--parallelism.pipeline_parallel_schedule PipelineScheduleSingle",
            ["parallelism.spmd_backend", "experimental.pipeline_parallel_split_points"],
        ),
        (str(deep), ["pipeline.seed_layers", "zero_optimization.offload_optimizer.device"]),
        (str(nano), ["parallelism.tp_linear_async_communication"]),
    ):
        notes = [note for note in like.read(text).notes if "Nothing here knows" in note]
        told = " and ".join(unread)
        assert notes == ([f"Nothing here knows {told}: what is planned may differ by that."] if unread else []), text


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
    assert found.model._replace(name="", kind="") == expected._replace(name="", kind="")
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
        assert planned(words).knobs == plan.knobs
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
        (f"{pipeline.replace('4', '0')}", "--pipeline-model-parallel-size is 0; it must be at least 1"),
        (f"{pipeline.replace('4', '9' * 5000)}", "...; planned is at most 4,096"),
        (f"{pipeline} --num-layers 1000000000", "--num-layers is 1000000000; planned is at most 2,048"),
        ("deepspeed train.py --deepspeed_config ds.json", "leaves the split to DeepSpeed's settings in ds.json: give"),
        (f"{pipeline} --hybrid-layer-pattern M*E", "--hybrid-layer-pattern M*E asks for a hybrid model"),
        (
            "--parallelism.pipeline_parallel_schedule DualPipe",
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
    for schedule, V in (("zero_bubble_v", None), ("interleaved", 2)):  # an uneven cut of mine is no other schedule
        mine = Plan(plan.job, 4, 4, 4, schedule=schedule, V=V, balance=(3, 2, 2, 2, 2, 2, 2, 1))
        for words, other in like.turned(mine):
            assert other.knobs != mine.knobs or words == "stages cut by their costs"
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


def words(text):
    return words_of_script(text, "the script")


def test_a_script_s_variables_have_the_values_that_a_shell_gives_them(tmp_path):
    script = tmp_path / "train.sh"
    script.write_text(
        "\ufeffexport PP=4  # stages\nMBS='2'\nSIZE=${MBS}; GBS=${GBS:-64}\nCUT=\"$PP\"\n"
        "torchrun train.py \\\n  --pipeline-model-parallel-size ${CUT} \\\n  --micro-batch-size $SIZE \\\n"
        '  --global-batch-size "$GBS" --tensor-model-parallel-size ${TP:-8}\n',
        encoding="utf-8",
    )
    told = {"K": 4, "samples": 2, "batch": 64, "tensor": 8}
    assert told.items() <= like.read(str(script)).knobs.items()
    for line, tensor in (
        ("TP=2\nTP=4", 4),
        ("# TP=2\nTP=4 # TP=8", 4),
        ("TP=$(nproc)\nTP=2", 2),
        ("TP=$((2 * 2))", 4),
        ("N=3\nTP=$((N * 2 - 4))", 2),
        ("TP=2 ./first.sh\nTP=4", 4),
        ("A=2\nB=$A\nTP=${B:-8}", 2),
        ("BIG=1\nif [ $BIG = 1 ]; then TP=4; else TP=2; fi", 4),
        ("BIG=${BIG:-0}\nif [[ $BIG == 1 ]]\nthen\n TP=4\nelif [ $BIG -gt 5 ]; then TP=8; else\n TP=2\nfi", 2),
        ('if [ -z "$TP" ]; then TP=4; fi', 4),
        ("SIZE=7b\ncase $SIZE in 7b) TP=2;; 13b|70b) TP=8;; esac", 2),
        ("use() { TP=$1; }\nuse 4", 4),
    ):
        script.write_text(f"{line}\n./run --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2\n")
        assert like.read(str(script)).knobs["tensor"] == tensor, line
    for line in ("TP=$(nproc)", "TP=$1", "TP=$TP", "", "if [ -f x ]; then TP=4; else TP=2; fi", "for TP in 1 2; do"):
        script.write_text(f"{line}\n./run --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2\n")
        with pytest.raises(ValueError, match="write the number itself: nothing in the text gives this one value"):
            like.read(str(script))


def test_commands_have_the_words_that_a_shell_makes():
    assert words("A=(--x 1 # no\n --y)\nA+=(--z '2 3')\nrun \"${A[@]}\" ${B[*]} --w=${C:=5}") == [
        *("run", "--x", "1", "--y", "--z", "2 3", "${B[*]}", "--w=5")
    ]
    assert words('A="--x 1\n --y"\nA="$A --z"\nrun $A >log 2>&1 && echo "done"') == [
        *("run", "--x", "1", "--y", "--z", "echo", "done")
    ]
    assert words('P=2\nsrun bash -c "torchrun a.py --pp $P --tp \\$T"') == [
        *("srun", "bash", "-c", "torchrun", "a.py", "--pp", "2", "--tp", "$T")
    ]
    assert words("CMD='run --x 1'\neval $CMD") == ["eval", "run", "--x", "1"]
    assert words("A=(--x 1)\nfor i in 1; do run --n $i; done") == ["--x", "1", "run", "--n", "1"]
    assert words('if [ -n "$DEBUG" ]; then A+=(--debug); fi\nA+=(--x)\nrun ${A[@]}')[-1] == "--x"
    with pytest.raises(ValueError, match="close its quotes"):
        words('run "--x')


def test_a_script_that_grows_without_end_is_given_up_at_a_count():
    doubled = "A=xxxxxxxxxx\n" + 'A="$A$A"\n' * 60
    tree = "\n".join(f"f{n}() {{ f{n + 1}; f{n + 1}; f{n + 1}; f{n + 1}; }}" for n in range(50)) + "\nf0\n"
    for text, says in (
        (doubled, "the variable A grows beyond 100,000 letters"),
        ("#" * 100_001, "the script has 100,001 letters"),
        (tree, "a script of more than 20,000 steps"),
    ):
        with pytest.raises(TooMuchError, match=says):
            words(text)


def test_a_vocabulary_that_a_tokenizer_has_may_be_given(tmp_path):
    text = "--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --vocab-file v.json"
    found = like.read(f"{text} --micro-batch-size 1 --tokenizer-type GPT2BPETokenizer")
    assert (found.model, found.lacks) == (None, ("--vocab-size",))
    assert like.completed(found, {"vocabulary": 500}).model == transformer(4, 128, 64, 500, heads=4, tied=True)
    assert like.completed(found, {"blocks": 8}).lacks == ("--vocab-size",)


def test_settings_that_hold_too_much_are_refused_in_a_sentence(tmp_path):
    laughs = "a: &a {x: 1}\n" + "".join(
        f"{b}: &{b} {{p: *{a}, q: *{a}, r: *{a}}}\n" for a, b in pairwise("abcdefghijklmnop")
    )
    for name, text, says in (
        ("a.yaml", laughs, "more than 100,000 values"),
        ("a.yaml", "a: &a [*a]", "does not read as YAML|nested"),
        ("a.yaml", "a: " + "[" * 5000, "nested more than 64 deep"),
        ("a.json", '{"train_batch_size": ' + "[" * 1500 + "]" * 1500 + "}", "nested more than 64 deep"),
        ("a.json", "/*" * 50_000, "does not read as JSON"),
        ("a.json", '{"' + '\\"' * 50_000, "does not read as JSON"),
        ("a.json", '{"train_batch_size": ' + "9" * 400 + "}", "a number of 400 digits"),
        ("a.toml", "a." * 50_000 + "b = 1", "a key of more than 64 parts"),
        ("a.toml", "a = " + "[" * 50_000, "nested more than 64 deep"),
        ("a.sh", "x" * 2_000_000, "more than 1,048,576 bytes"),
        (
            "a.sh",
            "--micro-batch-size 1 --num-experts '\x1b[31m" + "q" * 9000 + "'",
            r"\\x1b\[31mq+\.\.\.'; write the number",
        ),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=says) as caught:
            like.read(str(tmp_path / name))
        assert len(str(caught.value)) <= 500


def test_deepspeeds_settings_may_have_comments(tmp_path):
    file = tmp_path / "ds_config.json"
    file.write_text(
        '\ufeff{ // of "all"\n"train_batch_size": 64, /* {\n */ "pipeline": {"stages": 4,}, # "x": 1\n'
        '"tensorboard": {"output_path": "http://a#b,}"},\n}',
        encoding="utf-8",
    )
    assert {"K": 4, "batch": 64}.items() <= like.read(str(file)).knobs.items()
    file.write_text('{"train_batch_size": 64', encoding="utf-8")
    with pytest.raises(ValueError, match="does not read as JSON"):
        like.read(str(file))


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
    assert like.plan_like(found, Job(MODEL, 64, MACHINE)).knobs == "D=8, K=4, M=8, ZeRO-1, 1f1b, recompute none"
    dashed = "--parallelism.pipeline-parallel-degree 4 --parallelism.data-parallel-shard-degree 8"
    found = like.read(f"{dashed} activation-checkpoint:selective")
    assert (found.devices, found.knobs["recompute"], len(found.notes)) == (32, "full", 1)
