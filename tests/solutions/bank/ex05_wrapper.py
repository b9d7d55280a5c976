"""Exercise 05, second part: the GPipe wrapper.

Most wrong answers differ from `Plain` in one method, as a learner's would in one line.
"""

import copy
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

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
        super().__init__(OrderedDict(net.named_children()))
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


class PlainList(Plain):
    def keep(self, net, balance):
        self.stages = stages_of(net, balance)


class Copies(Plain):
    def keep(self, net, balance):
        super().keep(copy.deepcopy(net), balance)


class ModuleListOfStages(Plain):
    def keep(self, net, balance):
        self.stages = nn.ModuleList(stages_of(net, balance))


class NetAndStages(Plain):
    def keep(self, net, balance):
        self.net = net
        self.stages = nn.ModuleList(stages_of(net, balance))


class Enumerates(Plain):
    def keep(self, net, balance):
        for i, layer in enumerate(net):
            self.add_module(str(i), layer)
        self.stages = stages_of(net, balance)


class StageByStage(Plain):
    def order(self, K, M):
        return [(m, k) for k in range(K) for m in range(M)]


class OneByOne(Plain):
    def order(self, K, M):
        return [(m, k) for m in range(M) for k in range(K)]


class LastFirst(Plain):
    def order(self, K, M):
        return [(M - 1 - m, k) for m, k in super().order(K, M)]


class Shares(Plain):
    """Believes that each stage takes its part of the micro-batches."""

    def forward(self, x):
        K = len(self.stages)
        return torch.cat([self.stages[m % K](piece) for m, piece in enumerate(self.pieces(x))])


class Chunks(Plain):
    def pieces(self, x):
        return list(torch.chunk(x, self.M))


class SplitsBySize(Plain):
    def pieces(self, x):
        return list(x.split(max(1, len(x) // self.M)))


class KeepsEmptyPieces(Plain):
    def pieces(self, x):
        return split_batch(x, self.M)


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


class NeverCuts(Plain):
    def pieces(self, x):
        return [x]


class CutsRowsOnly(Plain):
    def pieces(self, x):
        return super().pieces(x) if x.dim() == 2 else [x]


class CutsToTrainOnly(Plain):
    def pieces(self, x):
        return super().pieces(x) if torch.is_grad_enabled() else [x]


class WholeBatchToo(Plain):
    """Wants the output in one piece, and runs the net once more for it."""

    def forward(self, x):
        super().forward(x)
        for stage in self.stages:
            x = stage(x)
        return x


class RemembersM(Plain):
    def pieces(self, x):
        self.M = min(self.M, len(x))
        return super().pieces(x)


class Detaches(Plain):
    def run(self, stage, x, again):
        return super().run(stage, x.detach(), again)


class DetachesWithAStart(Plain):
    def run(self, stage, x, again):
        return super().run(stage, x.detach().requires_grad_(), again)


class NoGrad(Plain):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


class LastOnly(Plain):
    def join(self, pieces):
        return pieces[-1]


class JoinsInTheOrderOfBackward(Plain):
    def join(self, pieces):
        return torch.cat(pieces[::-1])


class Interleaves(Plain):
    def pieces(self, x):
        M = min(self.M, len(x))
        return [x[m::M] for m in range(M)]


class DividesTheOutput(Plain):
    def join(self, pieces):
        return torch.cat(pieces) / len(pieces)


class DividesTheGradient(Plain):
    def join(self, pieces):
        output = torch.cat(pieces)
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient / len(pieces))
        return output


class DividesTheInput(Plain):
    def pieces(self, x):
        return [piece / self.M for piece in super().pieces(x)]


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


class EveryoneAgain(Plain):
    def again(self, m, k, M):
        return self.mode != "never"


class NobodyAgain(Plain):
    def again(self, m, k, M):
        return False


class OnlyTheLastAgain(Plain):
    def again(self, m, k, M):
        return self.mode == "always" or (self.mode == "except_last" and m == M - 1)


class NotTheLastStage(Plain):
    def again(self, m, k, M):
        return self.mode == "always" or (self.mode == "except_last" and k < len(self.stages) - 1)


class CountsToM(Plain):
    def again(self, m, k, M):
        return self.mode == "always" or (self.mode == "except_last" and m < self.M - 1)


class AsksTheInput(Plain):
    def run(self, stage, x, again):
        return super().run(stage, x, again and x.requires_grad)


class LayerByLayer(Plain):
    def run(self, stage, x, again):
        for layer in stage:
            x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        return x


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


class Reentrant(Plain):
    def run(self, stage, x, again):
        return checkpoint(stage, x, use_reentrant=True) if again else stage(x)


class ReentrantWithAStart(Plain):
    def forward(self, x):
        return super().forward(x.detach().requires_grad_(torch.is_grad_enabled()))

    def run(self, stage, x, again):
        return checkpoint(stage, x, use_reentrant=True) if again else stage(x)


class ForgetsRandomness(Plain):
    def run(self, stage, x, again):
        return checkpoint(stage, x, use_reentrant=False, preserve_rng_state=False) if again else stage(x)


class SeedsEachCall(Plain):
    def run(self, stage, x, again):
        def seeded(x):
            torch.manual_seed(0)
            return stage(x)

        return checkpoint(seeded, x, use_reentrant=False, preserve_rng_state=False) if again else seeded(x)


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


class NeverDropsWhereItRecomputes(Plain):
    def run(self, stage, x, again):
        if again:
            stage.eval()
        return super().run(stage, x, again)


class KeepsThePieces(Plain):
    def join(self, pieces):
        self.outputs = pieces
        return torch.cat(self.outputs)


class RemembersOutputs(Plain):
    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__(net, balance, M, checkpoint)
        self.outputs = []

    def join(self, pieces):
        self.outputs += pieces
        return torch.cat(self.outputs)


class EvenStages(Plain):
    def keep(self, net, balance):
        super().keep(net, balance)
        K, L = len(balance), len(net)
        self.stages = [net[L * k // K : L * (k + 1) // K] for k in range(K)]


class JoinsBetweenStages(Plain):
    def forward(self, x):
        for k, stage in enumerate(self.stages):
            pieces = self.pieces(x) if k == 0 else [x]
            x = torch.cat([self.run(stage, piece, self.mode == "always") for piece in pieces])
        return x


class AnyMode(Plain):
    def __init__(self, net, balance, M, checkpoint="except_last"):
        super().__init__(net, balance, M, checkpoint if checkpoint in ("always", "except_last") else "never")


class AlwaysBuildsAGraph(Plain):
    def forward(self, x):
        with torch.enable_grad():
            return super().forward(x)


class AlwaysInTraining(Plain):
    def run(self, stage, x, again):
        stage.train()
        return super().run(stage, x, again)


# Not as decorators: a class travels with its decorators.
for answer in (Plain, ByHand, Threads, IsASequential):
    BANK.right(answer)
for slip, answer in {
    "not-registered": PlainList,
    "copied": Copies,
    "other-keys": ModuleListOfStages,
    "numbered-anew": Enumerates,
    "registered-twice": NetAndStages,
    "stage-by-stage": StageByStage,
    "one-by-one": OneByOne,
    "order": LastFirst,
    "stages-share": Shares,
    "chunk": Chunks,
    "too-many-pieces": SplitsBySize,
    "empty-piece": KeepsEmptyPieces,
    "dropped": Drops,
    "padded": Pads,
    "not-cut": NeverCuts,
    "only-rows-cut": CutsRowsOnly,
    "only-training-cut": CutsToTrainOnly,
    "whole-batch-too": WholeBatchToo,
    "M-changed": RemembersM,
    "detached": Detaches,
    "no-graph": NoGrad,
    "other-order": JoinsInTheOrderOfBackward,
    "other-output": DividesTheOutput,
    "scaled": DividesTheGradient,
    "changed": DividesTheInput,
    "one-micro-batch": OnlyTheLastLearns,
    "last-too": EveryoneAgain,
    "keeps-everything": NobodyAgain,
    "only-last": OnlyTheLastAgain,
    "last-stage": NotTheLastStage,
    "first-stage": AsksTheInput,
    "last-of-M": CountsToM,
    "layer-by-layer": LayerByLayer,
    "recomputed-twice": TwiceAgain,
    "reentrant": Reentrant,
    "no-input-gradient": ReentrantWithAStart,
    "other-dropout": ForgetsRandomness,
    "same-dropout": SeedsEachCall,
    "no-dropout": NeverDropsWhereItRecomputes,
    "other-recompute": LooksUpLate,
    "more-rows": RemembersOutputs,
    "holds-activations": KeepsThePieces,
    "other-cut": EvenStages,
    "joined-between": JoinsBetweenStages,
    "any-mode": AnyMode,
    "graph-under-no-grad": AlwaysBuildsAGraph,
    "never-evaluates": AlwaysInTraining,
}.items():
    BANK.wrong(slip)(answer)
