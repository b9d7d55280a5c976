"""What each rank of a real run does: a step by every schedule class of torch.distributed.pipelining, profiled."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.profiler import ProfilerActivity, profile, record_function

MICRO_BATCHES, WIDTH = 4, 64

LOADS = 0.3
"""Seconds for which rank 0 loads data before its second step."""

CLASSES = (
    "ScheduleGPipe",
    "Schedule1F1B",
    "ScheduleLoopedBFS",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleZBVZeroBubble",
    "ScheduleDualPipeV",
)


def stages_of(name, rank, ranks):
    """The stages of a rank under a schedule class."""
    if name in ("ScheduleGPipe", "Schedule1F1B"):
        return [rank]
    return (
        [rank, 2 * ranks - 1 - rank] if name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV") else [rank, rank + ranks]
    )


def profile_all(folder):
    """Two steps by every class, rank 0 late for the second; each rank's trace in the folder of the class."""
    from gpipe_edu.distributed.rank import this_watch

    this_watch().diary = None  # PyTorch's messages are no learner's
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = torch.ones(8 * MICRO_BATCHES, WIDTH)
    for name in CLASSES:
        mine = stages_of(name, rank, ranks)
        count = ranks * len(mine)
        stages = [_stage(index, count) for index in mine]
        kind = getattr(schedules, name)
        loss = {"loss_fn": nn.MSELoss(), "scale_grads": False}
        schedule = kind(stages[0] if len(stages) == 1 else stages, MICRO_BATCHES, **loss)
        given = (x,) if 0 in mine else ()
        target = {"target": torch.zeros_like(x)} if count - 1 in mine else {}
        with profile(activities=[ProfilerActivity.CPU]) as found:
            schedule.step(*given, **target)
            time.sleep(LOADS if rank == 0 else 0)
            schedule.step(*given, **target)
        found.export_chrome_trace(f"{folder}/{name}/rank{rank}_trace.json")


def _stage(index, count):
    sample = torch.ones(8, WIDTH)
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    return PipelineStage(
        module,
        index,
        count,
        torch.device("cpu"),
        input_args=(sample.clone().requires_grad_(index > 0),),
        output_args=(sample.clone().requires_grad_(),),
    )


def one_f_one_b_by_csv(folder):
    """What is offered for Schedule1F1B: its order from a CSV, by the runtime that names ops."""
    from gpipe_edu.distributed.rank import this_watch

    this_watch().diary = None
    rank = dist.get_rank()
    x = torch.ones(8 * MICRO_BATCHES, WIDTH)
    stage, loss_fn = _stage(rank, dist.get_world_size()), nn.MSELoss()
    runtime = schedules._PipelineScheduleRuntime([stage], MICRO_BATCHES, loss_fn=loss_fn)
    runtime._load_csv(f"{folder}/1f1b.csv", format="compute_only")
    with profile(activities=[ProfilerActivity.CPU]) as found:
        runtime.step(*([x] if rank == 0 else []), **({"target": torch.zeros_like(x)} if stage.is_last else {}))
    found.export_chrome_trace(f"{folder}/rank{rank}_trace.json")


def loops_of_ones_own(folder):
    """What is offered for loops of one's own, such as Megatron's: a name around the forward and the backward."""
    rank, net = dist.get_rank(), nn.Linear(WIDTH, WIDTH)
    stage = rank
    kept = []
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for m in range(2):
            with record_function(f"PP:{stage}F{m}"):
                x = torch.ones(8, WIDTH)
                if rank:
                    dist.recv(x, 0)
                kept.append(net(x))
            if not rank:
                dist.send(kept[-1].detach(), 1)
        for m in range(2):
            with record_function(f"PP:{stage}B{m}"):
                kept[m].sum().backward()
    found.export_chrome_trace(f"{folder}/rank{rank}_trace.json")
