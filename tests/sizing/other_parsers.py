"""What `plan --flags` prints, put through the parser of the system that it is for: `.ci/other_systems` runs this.

    python -m tests.sizing.other_parsers torchtitan FOLDER...    # where its package is unpacked, and what it imports

Ends with 1 where something that is said to run there is refused, or understood as another plan.
"""

import json
import os
import shlex
import sys
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from gpipe_edu.sizing import Job, Machine, Plan, transformer
from gpipe_edu.sizing.flags import flags, lacks_on
from gpipe_edu.sizing.hugging_face import of_config
from gpipe_edu.sizing.systems import full_name

JOB = Job(transformer(14, 64, 64, 500, heads=4, fused=False), 64, Machine(16, 1e9, 1e12, node=8))

MIXTURE = {
    **{"model_type": "qwen2_moe", "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32},
    **{"num_hidden_layers": 14, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 500},
    **{
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "shared_expert_intermediate_size": 48,
        "max_position_embeddings": 64,
    },
}
OF_EXPERTS = JOB._replace(model=of_config(MIXTURE).model)

PLANS = [
    Plan(JOB, 4, 1, 4),
    Plan(JOB, 4, 1, 4, "full", zero=3),
    Plan(JOB, 4, 1, 4, zero=2, tensor=4),
    Plan(JOB, 2, 1, 4, "selective", zero=1, context=2),
    Plan(JOB, 4, 4, 8, "full", zero=1),
    Plan(JOB, 2, 2, 8, zero=1, tensor=2, context=2),
    Plan(JOB, 2, 4, 8, zero=1, schedule="interleaved"),
    Plan(JOB, 2, 2, 8, schedule="interleaved", V=4, balance=(3, 2, 2, 2, 2, 2, 2, 1)),
    Plan(JOB, 2, 2, 8, schedule="interleaved", V=6),
    Plan(JOB, 4, 2, 4, zero=2, schedule="breadth_first"),
    Plan(JOB, 2, 4, 8, zero=1, schedule="zero_bubble"),
    Plan(JOB, 2, 4, 8, zero=1, schedule="zero_bubble_v"),
    Plan(JOB, 2, 4, 8, zero=1, schedule="dual_pipe_v"),
    Plan(OF_EXPERTS, 4, 2, 8, "selective", zero=1, experts=4, hide="shared"),
    Plan(OF_EXPERTS, 4, 2, 8, zero=1, schedule="interleaved", experts=4, hide="pairs", once=True),
    Plan(OF_EXPERTS, 4, 1, 8, zero=3, tensor=2, experts=4, expert_tensor=2),
    Plan(OF_EXPERTS, 8, 1, 8, zero=2, experts=8),
]


def words(plan: Plan, system: str) -> Iterator[str]:
    """What stands before the prose of each flag."""
    for flag in flags(plan)[full_name(system)]:
        yield flag.text.partition("; ")[0].partition(", which")[0]


def on_command_line(plan: Plan, system: str) -> list[str]:
    return [word for text in words(plan, system) if text.startswith(("-", "activation")) for word in shlex.split(text)]


def megatron(plan: Plan) -> dict[str, Any]:
    import torch

    typing.override = getattr(typing, "override", lambda function: function)  # Python 3.12's
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)  # it asks which GPU it has
    from megatron.training.arguments import parse_args, validate_args

    os.environ.update(WORLD_SIZE=str(plan.devices), RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    told = on_command_line(plan, "megatron")
    if "--use-megatron-fsdp" in told:
        del os.environ["CUDA_DEVICE_MAX_CONNECTIONS"]
    model = "--num-layers 14 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64"
    if plan.job.model.routed:
        model += " --num-experts 8 --moe-ffn-hidden-size 32 --moe-shared-expert-intermediate-size 48"
    rest = "--bf16 --tokenizer-type NullTokenizer --vocab-size 500 --lr 0.001 --train-iters 10"
    sys.argv[1:] = [*model.split(), *rest.split(), *told]
    found = parse_args()
    validate_args(found)
    M = found.global_batch_size // found.micro_batch_size // found.data_parallel_size
    return {"D": found.data_parallel_size, "K": found.pipeline_model_parallel_size, "M": M}


def torchtitan(plan: Plan) -> dict[str, Any]:
    from torchtitan.config.manager import ConfigManager

    arguments = ["--module", __spec__.name, "--config", "titan_job", *on_command_line(plan, "torchtitan")]
    found = ConfigManager().parse_args(arguments)
    split, batch = found.parallelism, found.training
    D = split.data_parallel_replicate_degree * max(1, split.data_parallel_shard_degree)
    M = batch.global_batch_size // batch.local_batch_size // D
    if split.pipeline_parallel_degree > 1:
        M *= batch.local_batch_size // split.pipeline_parallel_microbatch_size
    return {"D": D, "K": split.pipeline_parallel_degree, "M": M}


def titan_job() -> Any:
    """What torchtitan's command sets, without a model, which would need a GPU's packages."""
    from torchtitan.config.configs import ParallelismConfig, TrainingConfig
    from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig, FullAC

    @dataclass(kw_only=True)
    class Settings:
        hf_assets_path: str = "."
        training: TrainingConfig = field(default_factory=TrainingConfig)
        parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
        activation_checkpoint: ActivationCheckpointingConfig = field(default_factory=FullAC.Config)

    return Settings()


def deepspeed(plan: Plan) -> dict[str, Any]:
    os.environ["DS_ACCELERATOR"] = "cpu"
    from deepspeed.runtime import config

    config.dist.get_rank = lambda: 0
    settings = json.loads("{" + ", ".join(text for text in words(plan, "deepspeed") if text.startswith('"')) + "}")
    replicas = types.SimpleNamespace(get_data_parallel_world_size=lambda: plan.D)
    found = config.DeepSpeedConfig(settings, mpu=replicas)
    D = found.train_batch_size // found.train_micro_batch_size_per_gpu // found.gradient_accumulation_steps
    return {"D": D, "K": plan.K, "M": found.gradient_accumulation_steps}


PARSERS: dict[str, Callable[[Plan], dict[str, Any]]] = {
    "megatron": megatron,
    "torchtitan": torchtitan,
    "deepspeed": deepspeed,
}


def main(system: str, *folders: str) -> int:
    sys.path[:0] = folders
    wrong = 0
    for plan in PLANS:
        lacks = lacks_on(plan, system)
        try:
            with redirect_stdout(StringIO()):  # Megatron-LM prints all that it knows
                found, why = PARSERS[system](plan), ""
        except (Exception, SystemExit) as error:  # whatever a parser refuses with
            found, why = {}, f"{type(error).__name__}: {error}".splitlines()[0][:200]
        same = found == {"D": plan.D, "K": plan.K, "M": plan.M}
        wrong += not (lacks or same)
        told = "taken" if same else f"refused, {why}" if why else f"taken as {found}"
        print(
            f"{full_name(system)}: {plan.knobs}: {told}" + f" (said to lack {', '.join(lacks)})" * bool(lacks),
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
