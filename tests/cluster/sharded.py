"""What the processes of test_sharded.py do: two replicas of two ranks whose stages FSDP shards, in PyTorch's engine."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

from .jobs import then

K, D, M, WIDTH = 2, 2, 4, 8
"""Ranks of a pipeline, replicas, micro-batches, and the width of a stage's two layers."""


def held(cases):
    """For each case, a schedule's name, its stages on a rank, and whether weights go after each forward: bytes per
    weight of this rank of whole weights and of gradients, after each backward of the second step, and when it is
    over."""
    mesh = init_device_mesh("cpu", (K, D), mesh_dim_names=("stage", "replica"))
    return [_held(mesh, *case) for case in cases]


def _held(mesh, name, V, reshard):
    rank, engine = mesh.get_local_rank("stage"), get_schedule_class(name)
    mine = (rank, 2 * K - 1 - rank) if name in ("ZBVZeroBubble", "DualPipeV") else range(rank, K * V, K)
    stages = [_stage(mesh, k, K * V, reshard) for k in mine]
    first = stages[0] if issubclass(engine, PipelineScheduleSingle) else stages
    schedule = engine(first, M, loss_fn=nn.MSELoss(), scale_grads=False)
    weights = [weight for stage in stages for weight in _weights_of(stage.submod)]
    count, found = len(stages) * 2 * WIDTH**2, []

    def look():
        found.append((sum(map(_whole_bytes, weights)) / count, sum(map(_gradient_bytes, weights)) / count))

    for stage in stages:
        for call in ("backward_one_chunk", "backward_weight_one_chunk"):
            setattr(stage, call, then(getattr(stage, call), look))
    x, y = torch.randn(2, M, WIDTH)
    for _ in range(2):
        found.clear()
        ends = {"target": y} if K * V - 1 in mine else {}
        schedule.step(*[x] * (0 in mine), **ends, return_outputs=False)
        look()
        for stage in stages:
            stage.submod.zero_grad()
    return found


def _stage(mesh, k, count, reshard):
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)
    for part in (*net, net):
        fully_shard(part, mesh=mesh["replica"], mp_policy=policy, reshard_after_forward=reshard)
    given, made = (torch.empty(1, WIDTH).requires_grad_(needed) for needed in (k > 0, True))
    about = {"input_args": (given,), "output_args": (made,), "group": mesh.get_group("stage")}
    return PipelineStage(net, k, count, torch.device("cpu"), **about)


def _weights_of(net):
    states = [part._get_fsdp_state() for part in net.modules() if isinstance(part, FSDPModule)]
    return [weight for state in states for group in state._fsdp_param_groups for weight in group.fsdp_params]


def _whole_bytes(weight):
    return weight.unsharded_param.untyped_storage().size() if hasattr(weight, "_unsharded_param") else 0


def _gradient_bytes(weight):
    """Whole, or this rank's share."""
    whole, share = weight.unsharded_accumulated_grad, weight.sharded_param.grad
    if whole is None and hasattr(weight, "_unsharded_param"):
        whole = weight.unsharded_param.grad
    there = [whole, None if share is None else share.to_local()]
    return sum(one.untyped_storage().size() for one in there if one is not None)
