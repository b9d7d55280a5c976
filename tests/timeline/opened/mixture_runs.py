"""What each of four ranks does with a mixture of experts: two stages, each shared by two ranks that exchange tokens."""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

MICRO_BATCHES, TOKENS, WIDTH = 4, 192, 96


class Exchange(torch.autograd.Function):
    """An all-to-all of rows; its backward sends the gradients back."""

    @staticmethod
    def forward(ctx, rows, sent, received, group):
        ctx.about = sent, received, group
        out = rows.new_empty(sum(received), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), received, sent, group=group)
        return out

    @staticmethod
    def backward(ctx, gradient):
        sent, received, group = ctx.about
        return Exchange.apply(gradient, received, sent, group), None, None, None


def routing(rank, micro_batch, stage, favoured):
    """The rank of its group to which each token goes: the second one with this probability."""
    draw = torch.Generator().manual_seed(1000 * rank + 10 * micro_batch + stage)
    return (torch.rand(TOKENS, generator=draw) < favoured).long()


def layer(x, experts, goes_to, group):
    """The tokens' experts, on whichever rank these are."""
    order = torch.argsort(goes_to, stable=True)
    counts = torch.bincount(goes_to, minlength=2)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=group)
    sent, received = counts.tolist(), theirs.tolist()
    back = Exchange.apply(experts(Exchange.apply(x[order], sent, received, group)), received, sent, group)
    return x + back[torch.argsort(order)]


def profile_mixture(folder, favoured, shapes):
    """Two steps of GPipe's order, profiled; and how many tokens each rank is sent by its routing, as JSON."""
    from gpipe_edu.distributed.rank import this_watch

    this_watch().diary = None  # PyTorch's messages are no learner's
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank = dist.get_rank()
    stage, place = divmod(rank, 2)
    groups = [dist.new_group(ranks, group_desc="experts") for ranks in ([0, 1], [2, 3])]
    for ranks in ([0, 2], [1, 3]):
        dist.new_group(ranks, group_desc="mesh_pp")
    experts = nn.Sequential(nn.Linear(WIDTH, 8 * WIDTH), nn.ReLU(), nn.Linear(8 * WIDTH, WIDTH))
    dense = nn.Linear(WIDTH, WIDTH)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=shapes) as found:
        for _ in range(2):
            inputs, outputs = [], []
            for m in range(MICRO_BATCHES):
                with record_function(f"PP:{stage}F{m}"):
                    x = torch.ones(TOKENS, WIDTH)
                    if stage:
                        dist.recv(x, rank - 2)
                    inputs.append(x.requires_grad_())
                    outputs.append(layer(dense(x), experts, routing(rank, m, stage, favoured), groups[stage]))
                    if not stage:
                        dist.send(outputs[-1].detach(), rank + 2)
            for m in range(MICRO_BATCHES):
                with record_function(f"PP:{stage}B{m}"):
                    gradient = torch.ones(TOKENS, WIDTH)
                    if not stage:
                        dist.recv(gradient, rank + 2)
                    outputs[m].backward(gradient)
                    if stage:
                        dist.send(inputs[m].grad, rank - 2)
    found.export_chrome_trace(f"{folder}/rank{rank}_trace.json")
    both = [
        [int((routing(2 * stage + one, m, stage, favoured) == place).sum()) for one in range(2)]
        for m in range(MICRO_BATCHES)
    ]
    with open(f"{folder}/got_{rank}.txt", "w", encoding="utf-8") as file:
        json.dump(both, file)
