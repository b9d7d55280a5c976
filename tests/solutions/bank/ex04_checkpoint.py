"""Exercise 04, re-materialization in PyTorch."""

from dataclasses import dataclass
from enum import Enum
from functools import partial, reduce
from typing import NamedTuple

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.solutions.bank import Bank

BANK = Bank("ex04/checkpoint")


def loop(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=False) if more else stage(x)
    return x


@BANK.right
def recursive(stages, x, again):
    if not stages:
        return x
    run = partial(checkpoint, stages[0], use_reentrant=False) if again[0] else stages[0]
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
    return checkpoint(torch.nn.Sequential(*stages), x, use_reentrant=False) if any(again) else loop(stages, x, again)


@BANK.wrong("last-spared")
def ready_made(stages, x, again):
    return checkpoint_sequential(torch.nn.Sequential(*stages), len(stages), x, use_reentrant=False)


@BANK.wrong("same-every-step")
def with_a_seed(stages, x, again):
    def seeded(stage, h):
        torch.manual_seed(0)
        return stage(h)

    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(seeded, stage, x, use_reentrant=False) if more else stage(x)
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


@BANK.wrong("other-draws")
def a_seed_for_each_stage(stages, x, again):
    def seeded(stage, seed, h):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return stage(h)

    for stage, more in zip(stages, again, strict=True):
        seed = int(torch.randint(10**6, ()))
        x = checkpoint(seeded, stage, seed, x, use_reentrant=False) if more else stage(x)
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


KEPT = []


@BANK.wrong("held-after")
def draws_the_boundaries_later(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=False) if more else stage(x)
        KEPT.append(x.detach())
    return x


of_the_loop = partial(BANK.changed, of=loop)
RUN = "checkpoint(stage, x, use_reentrant=False) if more else stage(x)"
LOOP = "for stage, more in zip(stages, again, strict=True):"
of_the_loop("grad-mode", "switches_autograd_on", "return x", "torch.set_grad_enabled(True)\n    return x")
of_the_loop("nothing", "plain", RUN, "stage(x)")
of_the_loop("called-too-early", "calls_the_stage", "checkpoint(stage, x,", "checkpoint(stage(x),")
of_the_loop("needs-input-gradient", "older_kind", "=False", "=True")
of_the_loop("input-changed", "makes_the_images_follow", "=False", "=True", LOOP, "x.requires_grad_()\n    " + LOOP)
of_the_loop(
    "no-input-gradient",
    "starts_a_graph_of_its_own",
    "=False",
    "=True",
    LOOP,
    "x = x.detach().requires_grad_(torch.is_grad_enabled())\n    " + LOOP,
)
of_the_loop("detached", "detaches_what_it_keeps", "(stage, x,", "(stage, x.detach(),")
of_the_loop("stage-spared", "needs_a_gradient_of_the_input", "if more", "if more and x.requires_grad")
of_the_loop(
    "some-spared",
    "keeps_the_last_layer",
    RUN,
    f"stage[-1]({RUN})".replace("(stage, x", "(stage[:-1], x").replace("else stage", "else stage[:-1]"),
)
of_the_loop("list-ignored", "every_stage", " if more else stage(x)", "")
of_the_loop("reversed", "takes_again_for_keep", "if more", "if not more")
of_the_loop("other-dropout", "faster_without_random_state", "=False", "=False, preserve_rng_state=False")
of_the_loop("dropout-off", "without_dropout", "(stage, x", "(stage.eval(), x")
of_the_loop("other-in-evaluation", "skips_them", RUN, f"x if more and not torch.is_grad_enabled() else {RUN}")
of_the_loop("late-binding", "lambda_in_a_loop", "(stage, x", "(lambda h: stage(h), x")
of_the_loop("other-recompute", "lambda_of_everything", "(stage, x,", "(lambda: stage(x),")
of_the_loop("skipped", "only_those_of_the_list", "else stage(x)", "else x")
of_the_loop("other-order", "last_stage_first", LOOP, "stages, again = stages[::-1], again[::-1]\n    " + LOOP)
of_the_loop("other-output", "halves_the_output", "return x", "return x / 2")
of_the_loop("rounded", "in_single_precision", "return x", "return x.float()")
of_the_loop(
    "input-overwritten", "clamps_the_images", LOOP, "with torch.no_grad():\n        x.clamp_(-1, 1)\n    " + LOOP
)
of_the_loop(
    "layer-mode", "gives_the_mode_back_to_all", "return x", "[s.train(s.training) for s in stages]\n    return x"
)
of_the_loop(
    "other-recompute",
    "evaluates_in_the_forward",
    f"        x = {RUN}",
    f"        was = stage.training\n        stage.train(was and not more)\n        x = {RUN}\n        stage.train(was)",
)
of_the_loop(
    "only-small", "at_most_six_stages", LOOP, "again = [more and k < 6 for k, more in enumerate(again)]\n    " + LOOP
)
of_the_loop("layer-mode", "the_same_mode_for_all_layers", "(stage, x", "(stage.train(stage.training), x")
of_the_loop("", "only_while_training", "if more", "if more and stage.training")  # as our engine does
of_the_loop("eval-mode", "all_while_evaluating", "if more", "if more or not stage.training")
of_the_loop("eval-mode", "the_first_while_evaluating", "if more", "if more and (stage.training or stage is stages[0])")
of_the_loop("lists-changed", "uses_them_up", LOOP, "while stages:\n        stage, more = stages.pop(0), again.pop(0)")
of_the_loop(
    "mode-changed",
    "evaluates_for_good",
    LOOP,
    "if not torch.is_grad_enabled():\n        [stage.eval() for stage in stages]\n    " + LOOP,
)
# A stage keeps its input, as in the first part; but there it was kept under m.
BANK.changed(
    "second-call",
    "one_input_a_stage",
    "ctx.save_for_backward(x)",
    "stage.kept = x",
    "(x,) = ctx.saved_tensors",
    "x = vars(ctx.stage).pop('kept')",
    "if again[k]",
    "if again[k] and torch.is_grad_enabled()",
    of=by_hand,
)
BANK.changed(
    "random-state",
    "sets_the_state_back",
    "with torch.enable_grad(), torch.random.fork_rng(devices=[]):",
    "with torch.enable_grad():",
    of=by_hand,
)
BANK.changed(
    "held-by-graph",
    "in_an_attribute",
    "ctx.save_for_backward(x)",
    "ctx.x = x",
    "(x,) = ctx.saved_tensors",
    "x = ctx.x",
    of=by_hand,
)
BANK.changed(
    "other-gradient", "begins_the_backward_at_1", "ctx.stage(x)", "ctx.stage(x).sum()", "()], dy)", "()])", of=by_hand
)


@dataclass
class Step:
    """A stage as it is to be run."""

    stage: torch.nn.Module
    again: bool

    def __call__(self, x):
        return checkpoint(self.stage, x, use_reentrant=False) if self.again else self.stage(x)


@BANK.right
def steps_that_are_called(stages, x, again):
    return reduce(lambda x, step: step(x), map(Step, stages, again), x)


class Keeps(Enum):
    ITS_INPUT = True
    EVERYTHING = False


class Planned(NamedTuple):
    stage: torch.nn.Module
    keeps: Keeps


@BANK.right
def by_what_each_stage_keeps(stages, x, again):
    for planned in [Planned(stage, Keeps(more)) for stage, more in zip(stages, again, strict=True)]:
        match planned.keeps:
            case Keeps.ITS_INPUT:
                x = checkpoint(planned.stage, x, use_reentrant=False)
            case Keeps.EVERYTHING:
                x = planned.stage(x)
    return x


DECIDED = {}


@BANK.wrong("second-call")
def decides_once_for_a_stage(stages, x, again):
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=False) if DECIDED.setdefault(id(stage), more) else stage(x)
    return x
