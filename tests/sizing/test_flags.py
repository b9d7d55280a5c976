"""From plan to run: the command is one that the command line takes, and flags say what the plan says."""

import argparse
import re
from types import SimpleNamespace

import pytest

import gpipe_edu as ge
from gpipe_edu.cli import main
from gpipe_edu.sizing import Job, Machine, Plan, transformer
from gpipe_edu.sizing.flags import DEEPSPEED, MEGATRON, TORCHTITAN, command, flags, lacking
from gpipe_edu.sizing.plan import RECOMPUTES, SCHEDULES, ZERO
from gpipe_edu.split.megatron_layout import balance_of_layout
from tests.each import each

pytestmark = pytest.mark.slow

JOB = Job(transformer(14, 64, 32, 500, heads=4, fused=False), 32, Machine(16, 1e9, 1e12, node=8))


def said(plan):
    return {system: " ".join(flag.text for flag in found) for system, found in flags(plan).items()}


SIZES = {"1f1b": (4, 1), "gpipe": (1, 1), "zero_bubble": (2, 6)}


@each("schedule, D, K", [(schedule, *SIZES.get(schedule, (2, 2))) for schedule in SCHEDULES])
def test_torchrun_and_train_take_the_command(schedule, D, K, monkeypatch):
    pytest.importorskip("torch", reason="train with torchrun needs torch")
    from torch.distributed.run import get_args_parser

    from gpipe_edu.cli import train_ranks

    given = []

    def join_job(device, job, build):
        given.append(job)
        raise ValueError("enough")

    monkeypatch.setattr(train_ranks, "join_job", join_job)
    monkeypatch.setenv("WORLD_SIZE", str(D * K))
    for zero, recompute in zip(ZERO, RECOMPUTES, strict=True):
        plan = Plan(JOB, D, K, 4, recompute, schedule=schedule, zero=zero)
        words = command(plan).words
        assert words[0] == "torchrun"
        started = get_args_parser().parse_args(words[1:])
        assert (started.module, started.training_script) == (True, "gpipe_edu")
        assert int(started.nproc_per_node) * int(started.nnodes.split(":")[0]) == D * K
        assert int(started.nproc_per_node) <= 8
        with pytest.raises(SystemExit):
            main(started.training_script_args)
        job = given.pop()  # a command that is not taken ends before
        assert (job["partitions"], job["micro_batches"], job["zero"]) == (K, 4, zero > 0 and D > 1)
        assert job["checkpoint"] == ("never" if recompute == "none" else "always")
        assert job["batch"] == 32
        assert job["layers"] >= len(plan.balance)


def test_it_says_what_train_can_not():
    assert command(Plan(JOB, 2, 2, 4, "stage", zero=1)).differs == ()
    plan = Plan(JOB, 2, 2, 4, "full", zero=3, tensor=2, context=2, schedule="interleaved", V=4)
    assert command(plan).differs == (
        *("tensor groups of 2", "sequences cut 2 ways", "ZeRO-3 (it has ZeRO-1)"),
        *("recompute full (it recomputes stages)", "V=4 (it has 2)"),
    )


def test_a_mini_batch_that_is_cut_unevenly_is_rounded_up_everywhere_and_said_to_be():
    plan = Plan(JOB, 3, 1, 3)  # of 32 samples, so micro-batches have 3 or 4
    found = said(plan)
    for system, batch in (
        (MEGATRON, "--global-batch-size 36; 32 samples are not cut unevenly"),
        (
            TORCHTITAN,
            "--training.global_batch_size 36 --training.local_batch_size 4; 32 samples are not cut unevenly",
        ),
        (DEEPSPEED, '"train_batch_size": 36,'),
    ):
        assert batch in found[system]
        assert found[system].count("32 samples are not cut unevenly") == 1
    assert "unevenly" not in " ".join(said(Plan(JOB, 2, 1, 4)).values())


def test_flags_have_the_plan_s_numbers():
    job = JOB._replace(model=transformer(16, 64, 32, 500, heads=4, fused=False))
    cut = {"schedule": "interleaved", "V": 4, "balance": (3, 2, 2, 2, 2, 2, 2, 3)}
    plan = Plan(job, 2, 2, 4, "full", zero=1, tensor=2, context=2, **cut)
    found = said(plan)
    parser = argparse.ArgumentParser()
    for name in ("micro-batch-size", "global-batch-size", "tensor-model-parallel-size", "context-parallel-size"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--pipeline-model-parallel-size", type=int)
    parser.add_argument("--num-virtual-stages-per-pipeline-rank", type=int)
    told, _ = parser.parse_known_args(found[MEGATRON].split())
    assert vars(told) == {
        "micro_batch_size": 4,
        "global_batch_size": 32,
        "tensor_model_parallel_size": 2,
        "context_parallel_size": 2,
        "pipeline_model_parallel_size": 2,
        "num_virtual_stages_per_pipeline_rank": 4,
    }
    for words in ("--sequence-parallel", "--use-distributed-optimizer", "--recompute-granularity full"):
        assert words in found[MEGATRON]
    for words in (
        *("pipeline_parallel_degree 2", "tensor_parallel_degree 2", "context_parallel_degree 2", "checkpoint:full"),
        *(
            "seq_len 32 --training.global_batch_size 32 --training.local_batch_size 16 ",
            "pipeline_parallel_microbatch_size 4",
            "pipeline_parallel_schedule Interleaved1F1B",
            "fsdp_reshard_after_forward never",
        ),
    ):
        assert words in found[TORCHTITAN]
    for words in ('"train_batch_size": 32', '"gradient_accumulation_steps": 4', "num_stages=2", '"stage": 1'):
        assert words in found[DEEPSPEED]


def test_sharded_replicas_without_a_pipeline():
    found = said(Plan(JOB, 4, 1, 2, zero=3))
    assert "--data-parallel-sharding-strategy optim_grads_params" in found[MEGATRON]
    assert "data_parallel_shard_degree 4 --parallelism.fsdp_reshard_after_forward always" in found[TORCHTITAN]
    assert "--training.global_batch_size 32 --training.local_batch_size 4 " in found[TORCHTITAN]
    assert '"stage": 3' in found[DEEPSPEED]
    # Whoever has a pipeline today, or recomputes, is told to leave that.
    assert "--pipeline-model-parallel-size 1" in found[MEGATRON]
    assert "without --recompute-granularity" in found[MEGATRON]
    assert "--ckpt-format fsdp_dtensor" in found[MEGATRON]  # which it asserts
    assert "--parallelism.pipeline_parallel_degree 1" in found[TORCHTITAN]
    assert "activation-checkpoint:none" in found[TORCHTITAN]
    assert "without PipelineModule" in found[DEEPSPEED]
    assert "without activation checkpointing" in found[DEEPSPEED]
    # Neither has them beside a pipeline.
    beside = said(Plan(JOB, 4, 2, 2, zero=3))
    assert "--use-distributed-optimizer, which is ZeRO-1" in beside[MEGATRON]
    assert '"stage": 1}; more is not to be had' in beside[DEEPSPEED]


def test_schedules_have_pytorch_s_names():
    torch = pytest.importorskip("torch", reason="asks PyTorch")
    assert torch
    from torch.distributed.pipelining.schedules import get_schedule_class

    for schedule in SCHEDULES:
        text = said(Plan(JOB, 1, 2, 4, schedule=schedule))[TORCHTITAN]
        name = re.search(r"pipeline_parallel_schedule (\w+)", text)
        assert name
        assert get_schedule_class(name[1])
        assert ("pipeline_parallel_schedule_csv" in text) == (schedule == "zero_bubble")


@each("schedule", ["interleaved", "interleaved_zero_bubble"])
def test_where_pytorch_refuses_uneven_groups_torchtitan_is_said_to_lack_them(schedule):
    torch = pytest.importorskip("torch", reason="asks PyTorch")
    from torch.distributed.pipelining.schedules import get_schedule_class

    about = {"group_size": 3, "group_rank": 0, "num_stages": 6, "is_first": True, "is_last": False}
    stages = [SimpleNamespace(submod=torch.nn.Identity(), has_backward=True, stage_index=k, **about) for k in (0, 3)]
    job = JOB._replace(machine=JOB.machine._replace(devices=6, node=6))
    for M in range(1, 16):
        plan = Plan(job, 1, 3, M, schedule=schedule)
        lacks = lacking(plan)[TORCHTITAN]
        assert lacks in ([], [f"{schedule} with M={M}"])
        name = {"interleaved": "Interleaved1F1B", "interleaved_zero_bubble": "InterleavedZeroBubble"}[schedule]
        if lacks:
            with pytest.raises(ValueError, match="multiple of the number of rounds"):
                get_schedule_class(name)(stages, M)
        else:
            assert get_schedule_class(name)(stages, M)
            assert name in said(plan)[TORCHTITAN]


def test_a_schedule_that_torchtitan_has_no_name_for_is_a_file_that_a_command_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for plan in (Plan(JOB, 2, 4, 4, schedule="zero_bubble"), Plan(JOB, 1, 4, 2, schedule="1f1b")):
        [flag] = [flag for flag in flags(plan)[TORCHTITAN] if flag.knob == "schedule"]
        assert not flag.lacks
        assert flag.text.startswith("--parallelism.pipeline_parallel_schedule PipelineScheduleSingle ")
        [file] = re.findall(r"pipeline_parallel_schedule_csv (\S+),", flag.text)
        [written] = re.findall("`gpipe-edu (.*)` writes", flag.text)
        with pytest.raises(SystemExit):
            main(written.split())
        expected = (ge.zero_bubble if plan.recipe == "zero_bubble" else ge.one_f_one_b)(plan.K, plan.M)
        assert (tmp_path / file).read_text() == expected.to_csv()
    for system in (MEGATRON, DEEPSPEED):
        assert "csv" not in said(plan)[system]


@each("K, M", [(2, 2), (2, 8), (3, 5), (4, 4), (4, 7), (4, 8), (6, 6), (6, 12)])
def test_zero_bubble_is_pytorch_s_interleaved_one_with_one_stage_a_rank(K, M):
    torch = pytest.importorskip("torch", reason="asks PyTorch")
    from torch.distributed.pipelining.schedules import get_schedule_class

    about = {"group_size": K, "group_rank": 0, "num_stages": K, "stage_index": 0, "is_first": True, "is_last": False}
    stage = SimpleNamespace(submod=torch.nn.Identity(), has_backward=True, **about)
    theirs = get_schedule_class("InterleavedZeroBubble")([stage], M).pipeline_order
    for rank, row in enumerate(ge.zero_bubble(K, M).rows):
        assert [f"{op.stage}{op.kind}{op.micro_batch}" for op in row] == [str(one) for one in theirs[rank] if one]


def test_what_a_system_lacks_is_told():
    assert lacking(Plan(JOB, 2, 2, 4, schedule="zero_bubble", zero=2, tensor=2)) == {
        MEGATRON: ["ZeRO-2 beside a pipeline", "zero_bubble"],
        TORCHTITAN: ["ZeRO-2 beside a pipeline"],
        DEEPSPEED: ["ZeRO-2 beside a pipeline", "zero_bubble"],
    }
    assert lacking(Plan(JOB, 2, 2, 4, schedule="breadth_first", zero=2))[TORCHTITAN] == []
    assert lacking(Plan(JOB, 2, 2, 4, "stage", zero=1, context=2)) == {
        MEGATRON: [],
        TORCHTITAN: ["recompute stage"],
        DEEPSPEED: ["cut sequences beside a pipeline"],
    }
    assert lacking(Plan(JOB, 4, 1, 2, zero=1))[TORCHTITAN] == ["ZeRO-1"]
    alone = Plan(JOB, 2, 1, 4, tensor=2, context=2)
    assert lacking(alone)[DEEPSPEED] == []
    assert '"tensor_parallel": {"autotp_size": 2}' in said(alone)[DEEPSPEED]
    assert '"sequence_parallel_size": 2' in said(alone)[DEEPSPEED]
    assert not any(map(any, lacking(Plan(JOB, 4, 1, 2, zero=3)).values()))


def test_stages_that_a_system_would_not_cut_by_itself_are_told():
    uneven = Plan(JOB, 2, 4, 4, schedule="interleaved", V=2)  # 14 blocks, an embedding and a head in 8 stages
    blocks = (uneven.balance[0] - 1, *uneven.balance[1:-1], uneven.balance[-1] - 1)
    [layout] = re.findall('--pipeline-model-parallel-layout "(.*?)"', said(uneven)[MEGATRON])
    assert balance_of_layout(layout) == blocks
    assert "num-virtual-stages" not in said(uneven)[MEGATRON]
    even = Plan(JOB, 2, 2, 4, balance=(8, 8))
    assert "layout" not in said(even)[MEGATRON]
    # torchtitan: two stages a rank by itself; else a number of layers that makes as many, if there is one.
    assert "layers_per_stage" not in said(uneven)[TORCHTITAN]
    four = Plan(JOB, 2, 2, 4, schedule="interleaved", V=4)
    assert "layers_per_stage 2" in said(four)[TORCHTITAN]
    six = Plan(JOB, 2, 2, 4, schedule="interleaved", V=6)  # 16 layers by 1 are 16 stages, by 2 they are 8
    [parts] = re.findall("module_fqns_per_model_part ([^-]*) ", said(six)[TORCHTITAN])
    assert tuple(len(part.split(",")) for part in parts.split()[:-1]) == six.balance[:-1]
    modules = [name for part in parts.split() for name in part.split(",")]
    assert modules == ["tok_embeddings", *(f"layers.{block}" for block in range(14)), "norm", "lm_head"]


def test_torchtitan_takes_nothing_after_its_choice_of_what_to_recompute():
    for plan in (Plan(JOB, 2, 2, 4, "full", tensor=2, context=2), Plan(JOB, 4, 1, 2, zero=3)):
        assert flags(plan)[TORCHTITAN][-1].text.startswith("activation-checkpoint:")
