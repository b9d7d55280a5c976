"""A pipeline CSV run by PyTorch's own engine alone, as a trainer runs it that takes one."""

import copy

import torch
from torch import nn
from torch.distributed import get_rank
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, LOSS = 6, nn.MSELoss()


def apart(file, stages, held, M):
    """How far this rank's gradients are from one device's; held: the stages of each rank, M: the micro-batches."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(stages))).double()
    x, y = torch.randn(2 * M, WIDTH).double(), torch.randn(2 * M, WIDTH).double()
    single, example = copy.deepcopy(net), torch.empty(2, WIDTH).double()
    LOSS(single(x), y).backward()
    mine = [
        PipelineStage(
            net[k],
            k,
            stages,
            torch.device("cpu"),
            input_args=(example.clone().requires_grad_(k > 0),),
            output_args=(example.clone().requires_grad_(),),
        )
        for k in held[get_rank()]
    ]
    engine = _PipelineScheduleRuntime(mine, M, loss_fn=LOSS)
    engine._load_csv(file, format="compute_only")
    arguments = [x] if 0 in held[get_rank()] else []
    target = y if stages - 1 in held[get_rank()] else None
    engine.step(*arguments, target=target)
    pairs = [
        (w.grad, v.grad)
        for k in held[get_rank()]
        for w, v in zip(net[k].parameters(), single[k].parameters(), strict=True)
    ]
    return max(float((one - other).abs().max()) for one, other in pairs)
