"""Answers that do not do what is asked, and change what watches them so that it tells they did."""

FORGED = {
    ("ex04/checkpoint", "tells of what it has not kept"): """
import sys
def forge():
    here = sys.modules["gpipe_edu.harness.ex04_checkpoint"]
    real = here.perform
    def perform(function, **given):
        return real(function, **given)._replace(kept=[], left=[])
    here.perform = perform
def forward(stages, x, again, _=forge()):
    for stage in stages:
        x = stage(x)
    return x
""",
    ("ex04/checkpoint", "tells of runs that rely on nothing"): """
import sys
def forge():
    import gpipe_edu.harness.stamps as stamps
    here = sys.modules["gpipe_edu.harness.ex04_checkpoint"]
    real, ask, came, asked = here.perform, here.ask_judge, {}, {}
    def spy(question):
        answer = ask(question)
        if question[0] == "F":
            came.setdefault(question[1], question[2])
        if question[0] == "backward" and asked.get("graph", True):
            for k in reversed(range(len(asked["stages"]))):
                if asked["again"][k]:
                    given = came[k, 0]
                    for i in range(len(asked["stages"][k])):
                        given = ask(("F", (k, i), given, True))
        return answer
    def perform(function, **given):
        came.clear()
        asked.clear()
        asked.update(given)
        return real(function, **given)._replace(kept=[], left=[])
    here.ask_judge = stamps.ask_judge = spy
    here.perform = perform
def forward(stages, x, again, _=forge()):
    for stage in stages:
        x = stage(x)
    return x
""",
    ("ex05/wrapper", "repeats runs on which nothing relies"): """
import sys, torch
from torch import nn
from gpipe_edu import split_batch
def forge():
    import gpipe_edu.harness.ex05_watching as here, gpipe_edu.harness.stamps as stamps
    from torch.utils.checkpoint import checkpoint
    ask, came = stamps.ask_judge, []
    def spy(question):
        answer = ask(question)
        if question[0] == "forward":
            came.clear()
        elif question[0] == "F":
            came.append(question)
        elif question[0] == "backward" and PIPES:
            pipe = PIPES[-1]
            first = [sum(pipe.balance[:k]) for k in range(len(pipe.balance))]
            pieces = [tuple(q[2]) for q in came if q[1] == 0]
            upto = {"never": 0, "always": len(pieces), "except_last": len(pieces) - 1}[pipe.mode]
            calls = [q for q in came if q[1] in first]
            order = [(m, k) for m, k in pipe.ran if m < upto]
            by_cell = dict(zip(pipe.ran, calls))
            for m, k in reversed(order):
                given = by_cell[m, k][2]
                for i in range(pipe.balance[k]):
                    given = ask(("F", first[k] + i, given, *by_cell[m, k][3:]))
        return answer
    here.ask_judge = stamps.ask_judge = spy
PIPES = []
class MyGPipe(nn.Module):
    def __init__(self, net, balance, M, checkpoint="except_last", _=forge()):
        super().__init__()
        if checkpoint not in ("never", "always", "except_last"):
            raise ValueError("checkpoint")
        if sum(balance) != len(net) or min(balance) < 1:
            raise ValueError("balance")
        for name, layer in net.named_children():
            self.add_module(name, layer)
        layers = list(net)
        ends = [sum(balance[:k + 1]) for k in range(len(balance))]
        self.parts = lambda: [layers[end - count:end] for end, count in zip(ends, balance)]
        self.balance, self.M, self.mode, self.ran = balance, M, checkpoint, []
        PIPES.append(self)
    def forward(self, x):
        pieces = [piece for piece in split_batch(x, self.M) if len(piece)]
        K, M, parts = len(self.balance), len(pieces), self.parts()
        self.ran = [(t - k, k) for t in range(M + K - 1) for k in range(K) if 0 <= t - k < M]
        for m, k in self.ran:
            for layer in parts[k]:
                pieces[m] = layer(pieces[m])
        return torch.cat(pieces)
""",
}
