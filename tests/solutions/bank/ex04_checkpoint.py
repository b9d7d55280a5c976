"""Exercise 04, re-materialization in PyTorch."""

import functools

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.solutions.bank import Bank

BANK = Bank("ex04/checkpoint")


@BANK.right
def recursive(stages, x, again):
    if not stages:
        return x
    run = functools.partial(checkpoint, stages[0], use_reentrant=False) if again[0] else stages[0]
    return recursive(stages[1:], run(x), again[1:])


@BANK.right
def by_hand(stages, x, again):
    """The graph's own way to say what a backward does."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, stage, x, *weights):
            ctx.stage, ctx.state = stage, torch.get_rng_state()
            ctx.save_for_backward(x)
            return stage(x)

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
            with torch.enable_grad(), torch.random.fork_rng(devices=[]):
                torch.set_rng_state(ctx.state)
                y = ctx.stage(x)
            return None, *torch.autograd.grad(y, [x, *ctx.stage.parameters()], dy)

    for k in range(len(stages)):
        x = Again.apply(stages[k], x, *stages[k].parameters()) if again[k] else stages[k](x)
    return x


@BANK.right
def older_kind_with_a_dummy(stages, x, again):
    """The way before use_reentrant=False was there."""
    dummy = torch.zeros(1, requires_grad=True)
    for stage, more in zip(stages, again, strict=True):
        if more:
            x = checkpoint(lambda _, h, stage=stage: stage(h), dummy, x, use_reentrant=True)
        else:
            x = stage(x)
    return x


@BANK.wrong("nothing")
def plain(stages, x, again):
    for stage in stages:
        x = stage(x)
    return x


@BANK.wrong("called-too-early")
def calls_the_stage(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage(x), use_reentrant=False) if more else stage(x)
    return x


@BANK.wrong("needs-input-gradient")
def older_kind(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=True) if more else stage(x)
    return x


@BANK.wrong("input-changed")
def makes_the_images_follow(stages, x, again):
    x.requires_grad_()
    return older_kind(stages, x, again)


@BANK.wrong("no-input-gradient")
def starts_a_graph_of_its_own(stages, x, again):
    return (
        older_kind(stages, x.detach().requires_grad_(), again) if torch.is_grad_enabled() else plain(stages, x, again)
    )


@BANK.wrong("detached")
def detaches_what_it_keeps(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x.detach(), use_reentrant=False) if more else stage(x)
    return x


@BANK.wrong("no-grad-for-good")
def without_a_graph(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not more):
            x = stage(x)
    return x


@BANK.wrong("per-layer")
def layer_by_layer(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        for layer in stage:
            x = checkpoint(layer, x, use_reentrant=False) if more else layer(x)
    return x


@BANK.wrong("one-checkpoint")
def all_in_one(stages, x, again):
    return checkpoint(torch.nn.Sequential(*stages), x, use_reentrant=False) if any(again) else plain(stages, x, again)


@BANK.wrong("last-spared")
def ready_made(stages, x, again):
    return checkpoint_sequential(torch.nn.Sequential(*stages), len(stages), x, use_reentrant=False)


@BANK.wrong("stage-spared")
def needs_a_gradient_of_the_input(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=False) if more and x.requires_grad else stage(x)
    return x


@BANK.wrong("some-spared")
def keeps_the_last_layer(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = stage[-1](checkpoint(stage[:-1], x, use_reentrant=False)) if more else stage(x)
    return x


@BANK.wrong("list-ignored")
def every_stage(stages, x, again):
    for stage in stages:
        x = checkpoint(stage, x, use_reentrant=False)
    return x


@BANK.wrong("reversed")
def takes_again_for_keep(stages, x, again):
    for stage, keep in zip(stages, again, strict=True):
        x = stage(x) if keep else checkpoint(stage, x, use_reentrant=False)
    return x


@BANK.wrong("other-dropout")
def faster_without_random_state(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=False, preserve_rng_state=False) if more else stage(x)
    return x


@BANK.wrong("dropout-off")
def without_dropout(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage.eval(), x, use_reentrant=False) if more else stage(x)
    return x


@BANK.wrong("same-every-step")
def with_a_seed(stages, x, again):
    def seeded(stage, h):
        torch.manual_seed(0)
        return stage(h)

    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(seeded, stage, x, use_reentrant=False) if more else stage(x)
    return x


@BANK.wrong("late-binding")
def lambda_in_a_loop(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(lambda h: stage(h), x, use_reentrant=False) if more else stage(x)  # noqa: B023
    return x


@BANK.wrong("other-recompute")
def lambda_of_everything(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(lambda: stage(x), use_reentrant=False) if more else stage(x)  # noqa: B023
    return x


@BANK.wrong("twice-forward")
def runs_it_again_at_once(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        if more:
            with torch.no_grad():
                stage(x)
        x = checkpoint(stage, x, use_reentrant=False) if more else stage(x)
    return x


@BANK.wrong("nested")
def stages_and_layers(stages, x, again):
    def by_layer(stage):
        def run(h):
            for layer in stage:
                h = checkpoint(layer, h, use_reentrant=False)
            return h

        return run

    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(by_layer(stage), x, use_reentrant=False) if more else stage(x)
    return x


@BANK.wrong("graph-in-evaluation")
def always_with_a_graph(stages, x, again):
    with torch.enable_grad():
        return recursive(stages, x, again)


@BANK.wrong("no-tensor")
def all_outputs(stages, x, again):
    outputs = [x]
    for stage, more in zip(stages, again, strict=True):
        outputs.append(checkpoint(stage, outputs[-1], use_reentrant=False) if more else stage(outputs[-1]))
    return outputs[1:]


@BANK.wrong("other-output")
def only_those_of_the_list(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        if more:
            x = checkpoint(stage, x, use_reentrant=False)
    return x


SEEN = []


@BANK.wrong("interior-kept")
def looks_at_them_later(stages, x, again):
    def run(stage, h):
        for layer in stage:
            h = layer(h)
            SEEN.append(h.detach())
        return h

    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(run, stage, x, use_reentrant=False) if more else stage(x)
    return x
