"""From plan to run: the command of this package that divides its work in the same way, and the same knobs elsewhere.

Only flags that the named release is known to have are given; where a system can't do something, or does it
differently, the text says so.
"""

from __future__ import annotations

import re
from itertools import accumulate, islice, pairwise
from typing import Final, NamedTuple

from gpipe_edu.base.words import join_words
from gpipe_edu.schedule.pipeline_csv import ONE_STAGE_A_RANK, torchtitan_schedule
from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.split.megatron_layout import layout_of_balance

from .mixture import FURTHER
from .model import without_ends
from .plan import Plan
from .systems import full_name, systems

MEGATRON, TORCHTITAN, DEEPSPEED = (full_name(system) for system in ("megatron", "torchtitan", "deepspeed"))

CSV_FLAG: Final = "pipeline_parallel_schedule_csv"

NONE: Final = "not there"

_MODEL: Final = "model"
"""The knob of a flag that says that a system has no such model."""


class Flag(NamedTuple):
    """What a knob is called in a system. lacks: what the system lacks for the plan, "" if nothing."""

    knob: str
    text: str
    lacks: str = ""


class Command(NamedTuple):
    """A command that can be typed, and how its run differs from the plan, apart from its model."""

    words: tuple[str, ...]
    differs: tuple[str, ...]


_TITAN_SCHEDULE: Final = "parallelism.pipeline_parallel_schedule"

_TITAN_SCHEDULES: Final = {
    sets["schedule"]: name
    for name, sets in systems()["torchtitan"]["words"][_TITAN_SCHEDULE]["values"].items()
    if "schedule" in sets
}
"""Names of PyTorch's schedules, which torchtitan takes; others it takes from a file."""


def command(plan: Plan) -> Command:
    """`gpipe_edu train`, with as many replicas, stages and micro-batches as the plan has.

    Its layers are those of an MLP, one for each of the plan's stages if the default is fewer.
    """
    processes, stages = plan.D * plan.K, len(plan.balance)
    node = plan.job.machine.node or processes
    machines = next(count for count in range(-(-processes // node), processes + 1) if processes % count == 0)
    start = "--standalone"
    if machines > 1:
        start = f"--nnodes {machines} --node-rank 0 --master-addr 10.0.0.1 --master-port 29500"
    start += f" --nproc-per-node {processes // machines}"
    words = ["torchrun", *start.split(), "-m", "gpipe_edu", "train", "--partitions", str(plan.K)]
    words += ["--micro-batches", str(plan.M), "--batch", str(_batch(plan))]
    words += ["--layers", str(max(8, stages)), "--schedule", plan.recipe]
    words += ["--checkpoint", "never" if plan.recompute == "none" else "always"]
    words += ["--zero"] if plan.zero and plan.D > 1 else []
    tensor, _, context = plan.group
    differs = [f"tensor groups of {tensor}"] if tensor > 1 else []
    differs += [f"sequences cut {context} ways"] if context > 1 else []
    differs += [f"experts on {plan.experts.ranks} devices"] if plan.experts.ranks > 1 else []
    differs += [f"ZeRO-{plan.zero} (it has ZeRO-1)"] if plan.zero > 1 else []
    differs += [f"recompute {plan.recompute} (it recomputes stages)"] if plan.recompute in ("selective", "full") else []
    differs += [f"V={plan.V} (it has 2)"] if plan.K > 1 and form_of(plan.recipe).takes_V and plan.V != 2 else []
    return Command(tuple(words), tuple(differs))


def flags(plan: Plan) -> dict[str, list[Flag]]:
    """By system, what sets the plan's knobs."""
    return {full_name(system): found(plan) for system, found in _FLAGS.items()}


def lacking(plan: Plan) -> dict[str, list[str]]:
    """By system, what it lacks for the plan; nothing where it can run it."""
    return {system: _lacks(found) for system, found in flags(plan).items()}


def lacks_on(plan: Plan, system: str) -> list[str]:
    """What the system, a key of `systems.toml`, lacks for the plan; nothing if it can run it."""
    return _lacks(_FLAGS[system](plan))


def _lacks(found: list[Flag]) -> list[str]:
    return [flag.lacks for flag in found if flag.lacks]


def where(plan: Plan) -> str:
    """Which systems run the plan, in words, and what the others lack."""
    runs, rest = [], []
    for system, found in flags(plan).items():
        only = " if it is given the schedule as a file" * any(CSV_FLAG in flag.text for flag in found)
        if any(flag.knob == _MODEL for flag in found):
            only += f" (which has no {plan.job.model.kind} among its own models)"
        if lacks := _lacks(found):
            rest.append(f"{system} lacks {join_words(lacks, last=' and ')}")
        else:
            runs.append(f"{system}{only}")
    there = f"runs in {join_words(runs, last=' and ')}" if runs else "runs in none of them"
    return "; ".join([there, *rest])


def _batch(plan: Plan) -> int:
    """The samples of a mini-batch, rounded up where D x M does not divide them: no system cuts unevenly."""
    return plan.D * plan.M * plan.samples


def _rounded(plan: Plan) -> str:
    return "" if _batch(plan) == plan.job.batch else f"; {plan.job.batch} samples are not cut unevenly"


def _beside_a_pipeline(plan: Plan) -> str:
    """What a system with no more than ZeRO-1 beside a pipeline lacks for the plan."""
    return f"ZeRO-{plan.zero} beside a pipeline" if plan.K > 1 and plan.zero > 1 else ""


def _layout(plan: Plan) -> str:
    """Which layers each stage has, as Megatron-LM is told: m for a head that predicts a further token, before the L."""
    further = _further(plan)
    letters, ends = "E" + "t" * (sum(plan.balance) - 2 - further) + "m" * further + "L", [0, *accumulate(plan.balance)]
    stages = [letters[start:end] for start, end in pairwise(ends)]
    return "|".join(re.sub("t{3,}", lambda found: f"t*{len(found[0])}", stage) for stage in stages)


def _further(plan: Plan) -> int:
    return sum(layer.name == FURTHER for layer in plan.job.model.layers)


def _schedule(plan: Plan, text: str | None) -> Flag:
    """text: how a system is asked for the plan's schedule, None if it does not have it."""
    if text is None:
        return Flag("schedule", f"{plan.recipe} is {NONE}", plan.recipe)
    return Flag("schedule", text)


def _as_csv(plan: Plan) -> str:
    """What runs a schedule of one stage a rank that PyTorch has no usable name for, from a file, and what writes it."""
    file = f"{plan.recipe}.csv"
    written = f"gpipe-edu schedule {plan.recipe} --partitions {plan.K} --micro-batches {plan.M} --csv {file}"
    return f"{torchtitan_schedule(ONE_STAGE_A_RANK, file)}, which `{written}` writes"


def _megatron(plan: Plan) -> list[Flag]:
    tensor, sequence, context = plan.group
    schedule = {
        "1f1b": "without virtual stages",
        "interleaved": f"--num-virtual-stages-per-pipeline-rank {plan.V}",
    }
    spread = "--use-distributed-optimizer"
    whole = f"--use-megatron-fsdp --ckpt-format fsdp_dtensor {spread} --data-parallel-sharding-strategy"
    zero = {0: f"without {spread}", 1: spread, 2: f"{whole} optim_grads", 3: f"{whole} optim_grads_params"}
    if plan.K > 1:
        zero |= dict.fromkeys((2, 3), f"{spread}, which is ZeRO-1")
    layers = plan.balance[0] if plan.recompute == "stage" else 1
    full = f"--recompute-granularity full --recompute-method uniform --recompute-num-layers {layers}"
    recompute = {"none": "without --recompute-granularity", "selective": "--recompute-granularity selective"}
    found = [
        Flag("D", "follows from the rest"),
        Flag("K", f"--pipeline-model-parallel-size {plan.K}"),
        Flag("M", f"--micro-batch-size {plan.samples} --global-batch-size {_batch(plan)}{_rounded(plan)}"),
        Flag("ZeRO", zero[plan.zero], _beside_a_pipeline(plan)),
        Flag("recompute", recompute.get(plan.recompute, full)),
    ]
    group = f"--tensor-model-parallel-size {tensor}" + " --sequence-parallel" * sequence
    found += [Flag("tensor", group)] * (tensor > 1)
    found += [Flag("context", f"--context-parallel-size {context}")] * (context > 1)
    found += _megatron_experts(plan)
    if plan.K > 1:
        blocks = without_ends(plan.balance)
        if _further(plan):
            found += [Flag("cut", f'--pipeline-model-parallel-layout "{_layout(plan)}"')]
            schedule["interleaved"] = "as the layout says"
        elif len(set(blocks)) > 1:  # by itself it cuts evenly, or not at all; a layout also gives the stages of a rank
            found += [Flag("cut", f'--pipeline-model-parallel-layout "{layout_of_balance(blocks)}"')]
            schedule["interleaved"] = "as the layout says"
        found += [_schedule(plan, schedule.get(plan.recipe))]
    return found


def _megatron_experts(plan: Plan) -> list[Flag]:
    ranks, tensor, hide, once = plan.experts
    if not plan.job.model.routed:
        return []
    found = [
        Flag("experts", f"--expert-model-parallel-size {ranks} --expert-tensor-parallel-size {tensor}"),
        Flag("exchange", f"--moe-token-dispatcher-type {'flex' if once else 'alltoall'} --moe-grouped-gemm"),
    ]
    hidden = {"shared": "--moe-shared-expert-overlap", "pairs": "--overlap-moe-expert-parallel-comm"}
    found += [Flag("hide", hidden[hide])] if hide in hidden else []
    found += [Flag("further", f"--mtp-num-layers {_further(plan)}")] if _further(plan) else []
    if plan.recompute == "selective":
        scores = "core_attn " * any(layer.scores for layer in plan.job.model.layers)
        found += [Flag("recomputed", f"--recompute-modules {scores}moe_act")]
    return found


def _torchtitan(plan: Plan) -> list[Flag]:
    tensor, _, context = plan.group
    recompute = {"none": "activation-checkpoint:none", "full": "activation-checkpoint:full"}
    each, batch = plan.samples, _batch(plan)
    sizes = f"--training.seq_len {plan.job.model.tokens} --training.global_batch_size {batch}"
    if plan.K > 1:
        sizes += f" --training.local_batch_size {each * plan.M} --parallelism.pipeline_parallel_microbatch_size {each}"
    else:
        sizes += f" --training.local_batch_size {each}"
    found = [
        *_titan_model(plan),
        _titan_replicas(plan),
        Flag("K", f"--parallelism.pipeline_parallel_degree {plan.K}"),
        Flag("M", sizes + _rounded(plan)),
    ]
    found += [Flag("tensor", f"--parallelism.tensor_parallel_degree {tensor}")] * (tensor > 1)
    found += [Flag("context", f"--parallelism.context_parallel_degree {context}")] * (context > 1)
    if plan.experts.ranks > 1:
        found += [_titan_experts(plan)]
    found += _hides_unknown(plan)
    found += [_titan_further(plan)] if _further(plan) else []
    if plan.K > 1:
        # PyTorch's own 1F1B refuses fewer micro-batches than stages.
        known = None if plan.recipe == "1f1b" and plan.M < plan.K else _TITAN_SCHEDULES.get(plan.recipe)
        schedule = f"--{_TITAN_SCHEDULE} {known}" if known else _as_csv(plan)
        found += [_uneven_groups(plan) or _schedule(plan, schedule)]
        if plan.V > 2 and not _further(plan):  # two stages a rank are its default
            found += [_stages(plan)]
    again = recompute.get(plan.recompute, f"{NONE}; nearest {recompute['full']}")
    lacks = f"recompute {plan.recompute}" * (plan.recompute not in recompute)
    return [*found, Flag("recompute", again, lacks)]  # it takes nothing after this


def _titan_model(plan: Plan) -> list[Flag]:
    """Where the model is none of its `_supported_models`."""
    kind = plan.job.model.kind
    if not kind or kind in systems()["torchtitan"]["models"]:
        return []
    backend = "its experiment transformers_modeling_backend takes models of transformers; whether this one was not seen"
    return [Flag(_MODEL, f"{kind} is none of its own; {backend}")]


def _hides_unknown(plan: Plan) -> list[Flag]:
    """Where no flag is known to hide messages with experts, as the plan does."""
    hides = plan.experts.hide != "none"
    return [Flag("hide", f"no flag for {plan.experts.hide} is known here", "a known flag that hides exchanges")] * hides


def _titan_experts(plan: Plan) -> Flag:
    """It spreads experts over devices that shard, cut sequences or share layers, none of which are copies."""
    ranks, tensor, _, _ = plan.experts
    spread = (plan.D if plan.zero else 1) * plan.group.tensor * plan.group.context
    lacks = (
        "experts shared by several devices" if tensor > 1 else "experts spread over copies" if spread % ranks else ""
    )
    return Flag("experts", f"--parallelism.expert_parallel_degree {ranks}", lacks)


def _titan_further(plan: Plan) -> Flag:
    """Its models with such heads (`MTPDecoder`) refuse pipelines and cut sequences."""
    beside = [thing for thing, there in (("a pipeline", plan.K), ("cut sequences", plan.group.context)) if there > 1]
    text = "num_mtp_layers in the model's own code"
    if not beside:
        return Flag("further", f"{text}: {_further(plan)}")
    lacks = f"a further head beside {join_words(beside, last=' and ')}"
    return Flag("further", f"{text}; it refuses {lacks}", lacks)


def _titan_replicas(plan: Plan) -> Flag:
    """Beside a pipeline PyTorch's engine reduces a stage's gradients once, after its last backward, and keeps weights
    until then: that is ZeRO-1, whatever is said of resharding, and ZeRO-2 where stages end one after another."""
    if plan.zero == 0:
        return Flag(
            "D, ZeRO",
            f"--parallelism.data_parallel_replicate_degree {plan.D} --parallelism.data_parallel_shard_degree 1",
        )
    spread = f"--parallelism.data_parallel_shard_degree {plan.D} --parallelism.fsdp_reshard_after_forward"
    if plan.K == 1:
        text = {1: f"{NONE}; nearest {spread} never", 2: f"{spread} never", 3: f"{spread} always"}[plan.zero]
        return Flag("D, ZeRO", text, "ZeRO-1" * (plan.zero == 1))
    lacks = "" if plan.zero == 2 and plan.recipe == "breadth_first" else _beside_a_pipeline(plan)
    return Flag("D, ZeRO", f"{spread} never" + ", which is ZeRO-1 beside a pipeline" * bool(lacks), lacks)


def _uneven_groups(plan: Plan) -> Flag | None:
    """PyTorch refuses M where its M // K groups are not equal."""
    groups = max(1, plan.M // plan.K)
    if plan.recipe not in ("interleaved", "interleaved_zero_bubble") or plan.M % groups == 0:
        return None
    text = f"{plan.recipe} is {NONE} for M={plan.M}: PyTorch wants {groups} equal groups of micro-batches"
    return Flag("schedule", text, f"{plan.recipe} with M={plan.M}")


def _stages(plan: Plan) -> Flag:
    """torchtitan divides layers by a number and makes as many stages as that gives, if ranks share them evenly; or it
    is told each stage's modules."""
    layers = len(plan.job.model.layers)
    each = [count for count in range(1, layers) if -(-layers // count) == plan.K * plan.V]
    if each:
        return Flag("V", f"--parallelism.pipeline_parallel_layers_per_stage {each[-1]}")
    names = iter(["tok_embeddings", *(f"layers.{block}" for block in range(layers - 2)), "norm,lm_head"])
    parts = " ".join(",".join(islice(names, count)) for count in plan.balance)
    return Flag("V", f"--parallelism.module_fqns_per_model_part {parts}")


def _deepspeed(plan: Plan) -> list[Flag]:
    tensor, sequence, context = plan.group
    barred = plan.K > 1 and plan.zero > 1
    zero = f'"zero_optimization": {{"stage": {min(plan.zero, 1) if barred else plan.zero}}}'
    interval = {"none": 0, "full": 1, "stage": plan.balance[0]}.get(plan.recompute)
    recompute = "without activation checkpointing" if plan.recompute == "none" else "in the model's own code"
    if plan.K > 1 and interval is not None:
        recompute = f"PipelineModule(activation_checkpoint_interval={interval})"
    found = [
        Flag("D", "follows from the rest"),
        Flag("K", f"PipelineModule(num_stages={plan.K})" if plan.K > 1 else "without PipelineModule"),
        Flag(
            "M",
            f'"train_batch_size": {_batch(plan)}, "train_micro_batch_size_per_gpu": {plan.samples}, '
            f'"gradient_accumulation_steps": {plan.M}{_rounded(plan)}',
        ),
        Flag("ZeRO", zero + "; more is not to be had beside a pipeline" * barred, _beside_a_pipeline(plan)),
        Flag("recompute", recompute),
    ]
    if plan.experts.ranks > 1:
        found += [Flag("experts", f"in the model's own code, MoE(ep_size={plan.experts.ranks})")]
    shared = "experts shared by several devices"
    found += [Flag("experts", f"{shared} are in the model's own code", shared)] * (plan.experts.tensor > 1)
    found += _hides_unknown(plan)
    found += [Flag("further", "in the model's own code")] if _further(plan) else []
    if plan.K > 1:  # there it makes all groups itself, and knows of stages and replicas alone
        found += [Flag("tensor", "in the model's own code")] * (tensor > 1)
        found += [Flag("context", f"{NONE} beside a pipeline", "cut sequences beside a pipeline")] * (context > 1)
        return [*found, _schedule(plan, "its own" if plan.recipe == "1f1b" else None)]
    whole = "; that it cuts the sequence as well is in the model's own code" * sequence
    found += [Flag("tensor", f'"tensor_parallel": {{"autotp_size": {tensor}}}{whole}')] * (tensor > 1)
    found += [Flag("context", f'"sequence_parallel_size": {context}, which is Ulysses')] * (context > 1)
    return found


_FLAGS: Final = {"megatron": _megatron, "torchtitan": _torchtitan, "deepspeed": _deepspeed}

SYSTEMS: Final = tuple(_FLAGS)
"""What a plan can be asked to run on."""
