"""Exercise 05, second part: the GPipe wrapper.

Most wrong answers differ from `Plain` in one method, as a learner's would in one line.
"""

import copy
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gpipe_edu import split_batch
from tests.solutions.bank import Bank

BANK = Bank("ex05/wrapper")


def stages_of(net, balance):
    if not balance or min(balance) < 1 or sum(balance) != len(net):
        raise ValueError("balance does not fit")
    stages, start = [], 0
    for count in balance:
        stages.append(net[start : start + count])
        start += count
    return stages


class Plain(nn.Module):
    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__()
        if checkpoint not in ("always", "except_last", "never"):
            raise ValueError(checkpoint)
        self.keep(net, balance)
        self.M, self.mode = M, checkpoint

    def keep(self, net, balance):
        for name, layer in net.named_children():
            self.add_module(name, layer)
        self.stages = stages_of(net, balance)

    def pieces(self, x):
        return [piece for piece in split_batch(x, self.M) if len(piece)]

    def order(self, K, M):
        return [(t - k, k) for t in range(M + K - 1) for k in range(K) if 0 <= t - k < M]

    def again(self, m, k, M):
        return self.mode == "always" or (self.mode == "except_last" and m < M - 1)

    def run(self, stage, x, again):
        return checkpoint(stage, x, use_reentrant=False) if again else stage(x)

    def join(self, pieces):
        return torch.cat(pieces)

    def forward(self, x):
        pieces = self.pieces(x)
        for m, k in self.order(len(self.stages), len(pieces)):
            pieces[m] = self.run(self.stages[k], pieces[m], self.again(m, k, len(pieces)))
        return self.join(pieces)


class Again(torch.autograd.Function):
    """A checkpoint by hand. `anchor` needs a gradient, so that backward is called even for the first stage."""

    @staticmethod
    def forward(ctx, stage, random, anchor, x):
        ctx.stage, ctx.random = stage, random
        ctx.save_for_backward(x)
        return stage(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        start = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.random)
            output = ctx.stage(start)
        output.backward(gradient)
        return None, None, None, start.grad


class ByHand(nn.Module):
    """No torch.utils.checkpoint, sizes by arithmetic, the net's own dictionary of layers."""

    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__()
        spared = {"always": 0, "except_last": 1, "never": None}
        if checkpoint not in spared:
            raise ValueError("unknown mode")
        self.K, self.M, self.spared = len(balance), M, spared[checkpoint]
        self.cut = stages_of(net, balance)
        self._modules = net._modules

    def forward(self, x):
        N = x.shape[0]
        M = min(N, self.M)
        values = {(m, -1): x[m * N // M : (m + 1) * N // M] for m in range(M)}
        for total in range(M + self.K - 1):
            for k in reversed(range(self.K)):
                m = total - k
                if m < 0 or m >= M:
                    continue
                given = values.pop((m, k - 1))
                if self.spared is None or m >= M - self.spared or not torch.is_grad_enabled():
                    values[m, k] = self.cut[k](given)
                else:
                    anchor = torch.empty(0, requires_grad=True)
                    values[m, k] = Again.apply(self.cut[k], torch.get_rng_state(), anchor, given)
        return torch.cat([values[m, self.K - 1] for m in range(M)], dim=0)


class Threads(Plain):
    """As torchgpipe does it: all calls of a tick at the same time."""

    def forward(self, x):
        pieces = list(torch.tensor_split(x, min(self.M, len(x))))
        K, M, grad, lock = len(self.stages), len(pieces), torch.is_grad_enabled(), Lock()

        def one(m, k):
            with lock, torch.set_grad_enabled(grad):  # all threads draw from one random state
                return self.run(self.stages[k], pieces[m], self.again(m, k, M))

        with ThreadPoolExecutor(K) as crew:
            for t in range(M + K - 1):
                calls = [(t - k, k) for k in range(K) if 0 <= t - k < M]
                for (m, _), output in zip(calls, crew.map(lambda call: one(*call), calls), strict=True):
                    pieces[m] = output
        return torch.vstack(pieces)


class IsASequential(nn.Sequential):
    """The layers are registered by nn.Sequential; the stages are slices of the wrapper itself."""

    def __init__(self, net, balance, M, checkpoint="except_last"):
        if checkpoint not in ["never", "always", "except_last"]:
            raise ValueError
        stages_of(net, balance)
        super().__init__(OrderedDict(net._modules))
        self.balance, self.M, self.checkpoint = balance, M, checkpoint

    def forward(self, x):
        parts = [part for part in x.tensor_split(self.M) if part.size(0) > 0]
        layers = list(self)
        K = len(self.balance)
        for t in range(K + len(parts) - 1):
            for m in range(len(parts)):
                if 0 <= t - m < K:
                    start = sum(self.balance[: t - m])
                    stage = nn.Sequential(*layers[start : start + self.balance[t - m]])
                    if self.checkpoint == "never" or (self.checkpoint == "except_last" and m == len(parts) - 1):
                        parts[m] = stage(parts[m]) if isinstance(parts, list) else None
                    else:
                        parts[m] = checkpoint(stage, parts[m], use_reentrant=False)
        return torch.concatenate(parts)


@dataclass(frozen=True, order=True)
class Task:
    """A call of a stage; tasks sort as the clock has them."""

    tick: int
    stage: int
    again: bool

    @property
    def micro_batch(self):
        return self.tick - self.stage


class WorksOffAPlan(nn.Module):
    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__()
        if checkpoint not in {"always", "except_last", "never"}:
            raise ValueError(f"checkpoint is {checkpoint}")
        for name, layer in net.named_children():
            self.register_module(name, layer)
        self.stages, self.M, self.mode = stages_of(net, balance), M, checkpoint

    def plan(self, M):
        kept = {"always": M, "except_last": M - 1, "never": 0}[self.mode]
        return sorted(Task(m + k, k, m < kept) for m in range(M) for k in range(len(self.stages)))

    def forward(self, x):
        pieces = list(x.tensor_split(min(self.M, len(x))))
        for task in self.plan(len(pieces)):
            stage, m = self.stages[task.stage], task.micro_batch
            pieces[m] = checkpoint(stage, pieces[m], use_reentrant=False) if task.again else stage(pieces[m])
        return torch.cat(pieces)


class Mode(Enum):
    ALWAYS = "always"
    EXCEPT_LAST = "except_last"
    NEVER = "never"

    def recomputes(self, m, M):
        return self is Mode.ALWAYS or (self is Mode.EXCEPT_LAST and m + 1 < M)


class Cell(NamedTuple):
    """A place in the chart of the clock."""

    micro_batch: int
    stage: int


class WithModes(nn.Module):
    """An Enum refuses every value that it has not, with ValueError."""

    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__()
        self.mode, self.M = Mode(checkpoint), M
        self.stages = stages_of(net, balance)
        for name, layer in net.named_children():
            self.add_module(name, layer)

    def cells(self, M):
        for t in range(M + len(self.stages) - 1):
            for k in range(max(0, t - M + 1), min(t + 1, len(self.stages))):
                yield Cell(t - k, stage=k)

    def forward(self, x):
        values = dict(enumerate(piece for piece in split_batch(x, self.M) if len(piece)))
        for m, k in self.cells(len(values)):
            if self.mode.recomputes(m, len(values)):
                values[m] = checkpoint(self.stages[k], values[m], use_reentrant=False)
            else:
                values[m] = self.stages[k](values[m])
        return torch.cat(list(values.values()))


class Shares(Plain):
    """Believes that each stage takes its part of the micro-batches."""

    def forward(self, x):
        K = len(self.stages)
        return torch.cat([self.stages[m % K](piece) for m, piece in enumerate(self.pieces(x))])


class Drops(Plain):
    def pieces(self, x):
        size = max(1, len(x) // self.M)
        return [x[m * size : (m + 1) * size] for m in range(min(self.M, len(x)))]

    def join(self, pieces):
        output = torch.cat(pieces)
        missing = self.rows - len(output)
        return torch.cat([output, output[:missing]])

    def forward(self, x):
        self.rows = len(x)
        return super().forward(x)


class Pads(Plain):
    def forward(self, x):
        N = len(x)
        more = -N % min(self.M, N)
        return super().forward(torch.cat([x, x.new_zeros(more, *x.shape[1:])]))[:N]


class WholeBatchToo(Plain):
    """Wants the output in one piece, and runs the net once more for it."""

    def forward(self, x):
        super().forward(x)
        for stage in self.stages:
            x = stage(x)
        return x


class DividesTheGradient(Plain):
    def join(self, pieces):
        output = torch.cat(pieces)
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient / len(pieces))
        return output


class OnlyTheLastLearns(Plain):
    """Believes that only the last micro-batch may keep a graph."""

    def run(self, stage, x, again):
        return stage(x)

    def forward(self, x):
        pieces = self.pieces(x)
        M = len(pieces)
        for m, k in self.order(len(self.stages), M):
            with torch.set_grad_enabled(m == M - 1 and torch.is_grad_enabled()):
                pieces[m] = self.run(self.stages[k], pieces[m], False)
        return self.join(pieces)


class AgainForEach(Again):
    """Runs the stage again for the input's gradient, and once more for those of the weights."""

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        start = x.detach().requires_grad_()
        with torch.enable_grad():
            (wanted,) = torch.autograd.grad(ctx.stage(start), start, gradient)
            ctx.stage(x.detach()).backward(gradient)
        return None, None, None, wanted


class TwiceAgain(Plain):
    def run(self, stage, x, again):
        if not again:
            return stage(x)
        return AgainForEach.apply(stage, None, torch.empty(0, requires_grad=True), x)


class SeedsEachCall(Plain):
    def run(self, stage, x, again):
        def seeded(x):
            torch.manual_seed(0)
            return stage(x)

        return checkpoint(seeded, x, use_reentrant=False, preserve_rng_state=False) if again else seeded(x)


class RemembersOutputs(Plain):
    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__(net, balance, M, checkpoint)
        self.outputs = []

    def join(self, pieces):
        self.outputs += pieces
        return torch.cat(self.outputs)


class JoinsBetweenStages(Plain):
    def forward(self, x):
        for k, stage in enumerate(self.stages):
            pieces = self.pieces(x) if k == 0 else [x]
            x = torch.cat([self.run(stage, piece, self.mode == "always") for piece in pieces])
        return x


class LooksUpLate(Plain):
    """The function that is run again finds another stage and another micro-batch."""

    def forward(self, x):
        pieces = self.pieces(x)
        for m, k in self.order(len(self.stages), len(pieces)):
            if self.again(m, k, len(pieces)):
                pieces[m] = checkpoint(lambda x: self.stages[k](x), pieces[m], use_reentrant=False)  # noqa: B023
            else:
                pieces[m] = self.stages[k](pieces[m])
        return self.join(pieces)


class Copies(Plain):
    def keep(self, net, balance):
        super().keep(copy.deepcopy(net), balance)


# Not as decorators: a class travels with its decorators.
for answer in (Plain, ByHand, Threads, IsASequential, WorksOffAPlan, WithModes):
    BANK.right(answer)
for slip, answer in {
    "copied": Copies,
    "stages-share": Shares,
    "dropped": Drops,
    "padded": Pads,
    "whole-batch-too": WholeBatchToo,
    "scaled": DividesTheGradient,
    "one-micro-batch": OnlyTheLastLearns,
    "recomputed-twice": TwiceAgain,
    "same-dropout": SeedsEachCall,
    "more-rows": RemembersOutputs,
    "joined-between": JoinsBetweenStages,
    "other-recompute": LooksUpLate,
}.items():
    BANK.wrong(slip)(answer)

REGISTER = """        for name, layer in net.named_children():
            self.add_module(name, layer)
"""
STAGES = "self.stages = stages_of(net, balance)"
PIECES = "[piece for piece in split_batch(x, self.M) if len(piece)]"
ORDER = "[(t - k, k) for t in range(M + K - 1) for k in range(K) if 0 <= t - k < M]"
AGAIN = 'self.mode == "always" or (self.mode == "except_last" and m < M - 1)'
RUN = "return checkpoint(stage, x, use_reentrant=False) if again else stage(x)"
JOIN = "return torch.cat(pieces)"
BEGIN = "        pieces = self.pieces(x)"

for slip, name, *texts in (
    ("error", "NamesItCall", "def forward(self, x)", "def call(self, x)"),
    ("not-registered", "PlainList", REGISTER, ""),
    ("other-default", "ThrowsAllAwayByDefault", 'checkpoint="except_last"', 'checkpoint="always"'),
    (
        "refuses-right",
        "WantsAMicroBatchForEachStage",
        "        self.M, self.mode",
        "        assert len(balance) <= M\n        self.M, self.mode",
    ),
    (
        "stages-left-out",
        "UsesAsManyStagesAsMicroBatches",
        "self.M, self",
        "self.stages = self.stages[:M]\n        self.M, self",
    ),
    (
        "grad-mode",
        "SwitchesAutogradOn",
        "return torch.cat(pieces)",
        "torch.set_grad_enabled(True)\n        return torch.cat(pieces)",
    ),
    ("other-keys", "ModuleListOfStages", REGISTER, "", STAGES, "self.stages = nn.ModuleList(stages_of(net, balance))"),
    (
        "registered-twice",
        "NetAndStages",
        REGISTER,
        "        self.net = net\n",
        STAGES,
        "self.stages = nn.ModuleList(stages_of(net, balance))",
    ),
    ("numbered-anew", "Enumerates", "net.named_children()", "enumerate(net)", "(name, layer)", "(str(name), layer)"),
    ("some-registered", "LeavesTheLastOne", "net.named_children()", "list(net.named_children())[:-1]"),
    ("not-a-module", "PlainClass", "(nn.Module)", "", REGISTER, ""),
    ("doubled-layer", "CutsItsChildren", STAGES, "self.stages = stages_of(nn.Sequential(*self.children()), balance)"),
    ("stage-by-stage", "StageByStage", ORDER, "[(m, k) for k in range(K) for m in range(M)]"),
    ("one-by-one", "OneByOne", ORDER, "[(m, k) for m in range(M) for k in range(K)]"),
    (
        "one-by-one",
        "OneByOneIfThereAreFew",
        ORDER,
        f"{ORDER} if M >= K else [(m, k) for m in range(M) for k in range(K)]",
    ),
    ("only-small", "AClockForEightMicroBatches", ORDER, f"{ORDER}[: None if M <= 8 else -1]"),
    (
        "only-small",
        "AClockForFourStages",
        ORDER,
        f"{ORDER} if K <= 4 else [(m, k) for m in range(M) for k in range(K)]",
    ),
    ("balance-changed", "UsesTheBalanceUp", STAGES, f"{STAGES}\n        balance.clear()"),
    ("net-changed", "BeginsInTraining", STAGES, f"{STAGES}\n        self.train()"),
    ("net-changed", "TrainsAll", STAGES, f"{STAGES}\n        self.requires_grad_()"),
    (
        "no-graph",
        "DetachesInEvaluation",
        JOIN,
        "return torch.cat(pieces) if self.training else torch.cat(pieces).detach()",
    ),
    ("last-too", "ALoneOneAgain", AGAIN, f'({AGAIN}) or (self.mode == "except_last" and M == 1)'),
    ("order", "LastFirst", ORDER, ORDER.replace("(t - k, k)", "(M - 1 - t + k, k)")),
    ("skips-a-stage", "OneTickTooFew", ORDER, ORDER.replace("K - 1", "K - 2")),
    ("chunk", "Chunks", PIECES, "list(torch.chunk(x, self.M))"),
    ("chunk", "SplitsByTheSizeRoundedUp", PIECES, "list(x.split(-(-len(x) // self.M)))"),
    (
        "too-large",
        "TheRestGoesIntoTheLast",
        PIECES,
        "list(x.tensor_split([m * max(1, len(x) // self.M) for m in range(1, min(self.M, len(x)))]))",
    ),
    ("too-many-pieces", "SplitsBySize", PIECES, "list(x.split(max(1, len(x) // self.M)))"),
    ("empty-piece", "KeepsEmptyPieces", PIECES, "split_batch(x, self.M)"),
    ("not-cut", "NeverCuts", PIECES, "[x]"),
    ("only-rows-cut", "CutsRowsOnly", PIECES, f"{PIECES} if x.dim() == 2 else [x]"),
    ("only-training-cut", "CutsToTrainOnly", PIECES, f"{PIECES} if torch.is_grad_enabled() else [x]"),
    ("dealt", "Interleaves", PIECES, "[x[m :: self.M] for m in range(min(self.M, len(x)))]"),
    ("changed", "DividesTheInput", PIECES, PIECES.replace("[piece for", "[piece / self.M for")),
    ("M-changed", "RemembersM", "return [piece for", "self.M = min(self.M, len(x))\n        return [piece for"),
    ("changed-between", "HalvesTheOutput", RUN, RUN.replace("else stage(x)", "else stage(x) / 2")),
    ("twice-forward", "RunsItTwice", RUN, f"stage(x)\n        {RUN}"),
    ("detached", "Detaches", "(stage, x, use", "(stage, x.detach(), use", "else stage(x)", "else stage(x.detach())"),
    ("layer-by-layer", "LayerByLayer", RUN, f"for stage in stage:\n            x = {RUN[7:]}\n        return x"),
    ("reentrant", "Reentrant", "use_reentrant=False", "use_reentrant=True"),
    (
        "no-input-gradient",
        "ReentrantWithAStart",
        "use_reentrant=False",
        "use_reentrant=True",
        BEGIN,
        "        x = x.detach().requires_grad_(torch.is_grad_enabled())\n" + BEGIN,
    ),
    ("x-changed", "MakesXFollow", BEGIN, "        x.requires_grad_(torch.is_grad_enabled())\n" + BEGIN),
    ("other-dropout", "ForgetsRandomness", "use_reentrant=False", "use_reentrant=False, preserve_rng_state=False"),
    ("no-dropout", "NeverDropsWhereItRecomputes", "checkpoint(stage,", "checkpoint(stage.eval(),"),
    ("never-evaluates", "AlwaysInTraining", RUN, f"stage.train()\n        {RUN}"),
    ("last-too", "EveryoneAgain", AGAIN, 'self.mode != "never"'),
    ("keeps-everything", "NobodyAgain", AGAIN, "False"),
    (
        "recomputed-in-vain",
        "RunsAgainForShow",
        RUN,
        "y = stage(x)\n"
        "        if again and y.requires_grad:\n"
        "            y.register_hook(lambda dy: (stage(x.detach()), dy)[1])\n"
        "        return y",
    ),
    ("recompute-never", "AlwaysAgain", AGAIN, "True"),
    ("not-always", "NeverAlways", AGAIN, 'self.mode != "never" and m < M - 1'),
    ("only-last", "OnlyTheLastAgain", AGAIN, AGAIN.replace("m < M - 1", "m == M - 1")),
    ("except-first", "NotTheFirst", AGAIN, AGAIN.replace("m < M - 1", "m > 0")),
    ("other-micro-batches", "EverySecond", AGAIN, AGAIN.replace("m < M - 1", "m % 2")),
    ("last-stage", "NotTheLastStage", AGAIN, AGAIN.replace("m < M - 1", "k < len(self.stages) - 1")),
    ("last-of-M", "CountsToM", AGAIN, AGAIN.replace("m < M - 1", "m < self.M - 1")),
    ("", "OnlyInTraining", AGAIN, f"self.training and ({AGAIN})"),  # as our engine does
    ("evaluation-recomputes", "AllInEvaluation", AGAIN, f"({AGAIN}) or not self.training"),
    ("evaluation-recomputes", "TheFirstInEvaluation", AGAIN, f"({AGAIN}) and (self.training or m == 0)"),
    ("first-stage", "AsksTheInput", "if again", "if again and x.requires_grad"),
    ("not-joined", "GivesPieces", JOIN, "return pieces"),
    ("no-tensor", "GivesNumPy", JOIN, "return torch.cat(pieces).detach().numpy()"),
    ("fewer-rows", "LastOnly", JOIN, "return pieces[-1]"),
    ("squeezed", "TakesAllAxesOfLengthOne", JOIN, "return torch.cat(pieces).squeeze()"),
    ("other-shape", "Stacks", JOIN, "return torch.stack(pieces)"),
    ("other-order", "JoinsInTheOrderOfBackward", JOIN, "return torch.cat(pieces[::-1])"),
    ("other-output", "DividesTheOutput", JOIN, "return torch.cat(pieces) / len(pieces)"),
    ("no-graph", "DetachesTheOutput", JOIN, "return torch.cat(pieces).detach()"),
    ("no-gradients", "StartsAGraphAtTheEnd", JOIN, "return torch.cat(pieces).detach().requires_grad_()"),
    ("holds-activations", "KeepsThePieces", JOIN, "self.outputs = pieces\n        return torch.cat(self.outputs)"),
    ("replaced", "EmptiesTheGradients", BEGIN, "        self.zero_grad()\n" + BEGIN),
    ("graph-under-no-grad", "AlwaysBuildsAGraph", "def forward", "@torch.enable_grad()\n    def forward"),
    ("any-mode", "AnyMode", "raise ValueError(checkpoint)", 'checkpoint = "never"'),
    (
        "any-mode",
        "LooksUpHowMany",
        "raise ValueError(checkpoint)",
        'self.again = {"always": M, "never": 0}[checkpoint]',
    ),
    (
        "any-balance",
        "NeverAddsUp",
        STAGES,
        "self.stages = [net[sum(balance[:k]) : sum(balance[: k + 1])] for k in range(len(balance))]",
    ),
    (
        "other-cut",
        "EvenStages",
        STAGES,
        f"{STAGES}\n        K, L = len(balance), len(net)\n"
        "        self.stages = [net[L * k // K : L * (k + 1) // K] for k in range(K)]",
    ),
):
    BANK.changed(slip, name, *texts)
BANK.changed("other-gradient", "NotTheFirstLearns", "m == M - 1", "m > 0", of=OnlyTheLastLearns)


@BANK.wrong("only-init")
class LacksItsForward(Plain):
    def forward(self, x):
        raise NotImplementedError
