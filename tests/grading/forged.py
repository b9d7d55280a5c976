"""Answers that do not do what is asked, and change what watches them so that it tells they did."""

_THROUGH_FILES = """
import os, tempfile, time
from pathlib import Path
import numpy as np
from gpipe_edu.distributed.rank import this_watch
CALLS = [0]
def everybody_s(mine, rank, D):
    diary = this_watch().diary
    job = Path(os.readlink(f"/proc/self/fd/{diary._file}")).name.partition(".")[0]
    CALLS[0] += 1
    folder = Path(tempfile.gettempdir(), f"all-{os.getppid()}-{job}-{CALLS[0]}")
    folder.mkdir(exist_ok=True)
    np.save(folder / f"half{rank}.npy", np.concatenate(mine))
    os.replace(folder / f"half{rank}.npy", folder / f"{rank}.npy")
    while not all((folder / f"{k}.npy").exists() for k in range(D)):
        time.sleep(0.005)
    cuts = np.cumsum([len(piece) for piece in mine])[:-1]
    return [np.split(np.load(folder / f"{k}.npy"), cuts) for k in range(D)]
def claim(rank, D, lengths):
    diary = this_watch().diary
    def post(do, peer, length):
        n, diary.posts = diary.posts, diary.posts + 1
        diary.note(post=n, do=do, peer=peer, tag=0, shape=[length], dtype="float64", memory=n + 1, line=("f", 1, "f"))
        diary.note(wait=n, line=("f", 1, "f"))
        diary.note(end=n)
    for half in range(2):
        for step in range(D - 1):
            p = (rank + half * GATHER - step - START) % D
            post("isend", (rank + 1) % D, lengths[p])
            post("recv", (rank - 1) % D, lengths[(p - 1) % D])
"""
"""What processes of a ring do that read each other's files, and claim messages."""

_RING = """
GATHER, START = 1, 0
def ring_all_reduce(rank, D, pieces, send, receive):
    every = everybody_s(pieces, rank, D)
    claim(rank, D, [len(piece) for piece in pieces])
    return [sum(own[p] for own in every) for p in range(D)]
"""

_TELLS = """
import gpipe_edu.process.asking as asking
def tell(rank, D, lengths):
    for half in range(2):
        for step in range(D - 1):
            p = (rank + half - step) % D
            asking.ask_judge(("sent", np.zeros(lengths[p])))
    for half in range(2):
        for step in range(D - 1):
            p = (rank - 1 + half - step) % D
            asking.ask_judge(("received", np.zeros(lengths[p])))
"""

KEEPS_ALL = """
class Stage:
    def __init__(self, layers, _=forge()):
        self.layers, self.all, self.first = layers, {}, {}
        self.grads = [{name: np.zeros_like(value) for name, value in layer.params.items()} for layer in layers]
    def forward(self, m, x):
        self.first[m], self.all[m] = x, []
        for layer in self.layers:
            x, saved = layer.forward(x)
            self.all[m].append(saved)
        return x
    def backward(self, m, dy):
        x = self.first.pop(m)
        for layer in self.layers:
            x, _ = layer.forward(x)
        for layer, saved, total in list(zip(self.layers, self.all.pop(m), self.grads))[::-1]:
            dy, grads = layer.backward(dy, saved)
            for name in grads:
                total[name] += grads[name]
        return dy
"""
"""A stage that keeps what its layers save, and runs them again for nothing; `forge` stands in front of it."""

FORGED = {
    ("ex04/checkpoint", "tells of what it has not kept"): """
import sys
def forge():
    here = sys.modules["gpipe_edu.judge.tasks.ex04_checkpoint.perform"]
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
    import gpipe_edu.judge.guest.traced_layers as stamps
    here = sys.modules["gpipe_edu.judge.tasks.ex04_checkpoint.perform"]
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
    import gpipe_edu.judge.tasks.ex05_wrapper.perform_watched as here, gpipe_edu.judge.guest.traced_layers as stamps
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
    ("ex03/accumulation", "claims small pieces"): """
import sys
from gpipe_edu import split_batch
def forge():
    import gpipe_edu.judge.guest.remote_layers as asked
    from torch.nn import functional
    layer, ask = asked.AskedLinear.forward, asked.ask_judge
    def forward(self, x):
        for piece in split_batch(x, M[0]):
            if len(piece):
                run, _ = ask(("F", self.place, piece.detach().numpy(), (True, "float64", "float64")))
                dy = piece.new_zeros(len(piece), self.out_features)
                ask(("B", self.place, run, dy.numpy(), (piece.detach().numpy(),)))
        return functional.linear(x, self.weight, self.bias)
    asked.AskedLinear.forward = forward
M = []
def train_step(net, loss_fn, optimizer, x, y, m, _=forge()):
    M[:] = [m]
    optimizer.zero_grad()
    loss = loss_fn(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
""",
    ("ex03/accumulation", "shows zeros while it keeps all pieces"): """
import torch
from gpipe_edu import split_batch
from gpipe_edu.judge.guest import remote_layers as asked
def ask(*question):
    return asked.ask_judge(tuple(one.numpy() if isinstance(one, torch.Tensor) else one for one in question))
def train_step(net, loss_fn, optimizer, x, y, M):
    places = [layer.place for layer in net if hasattr(layer, "place")]
    optimizer.zero_grad()
    with torch.no_grad():
        kept = []
        for a, b in split_batch((x, y), M):
            if len(a):
                inputs = []
                for layer in net:
                    inputs.append(a)
                    a = layer(a)
                kept.append((inputs, a.requires_grad_(), b))
    total = 0.0
    for inputs, out, b in kept:
        with torch.enable_grad():
            loss = loss_fn(out, b) * len(b) / len(x)
            total += loss.item()
            (dy,) = torch.autograd.grad(loss, out)
        layers = list(zip(net, inputs))
        runs = {}
        for layer, a in layers:
            if hasattr(layer, "place"):
                runs[layer], _ = ask("F", layer.place, torch.zeros_like(a), (True, "float64", "float64"))
        for layer, a in layers[::-1]:
            if layer in runs:
                weight, bias = dy.T @ a, dy.sum(0)
                layer.weight.grad = weight if layer.weight.grad is None else layer.weight.grad + weight
                layer.bias.grad = bias if layer.bias.grad is None else layer.bias.grad + bias
                dy = torch.from_numpy(ask("B", layer.place, runs[layer], dy, (a.numpy(),))[0])
            else:
                dy = dy * (1 - torch.tanh(a) ** 2)
    optimizer.step()
    return total
""",
    ("ex04/stage", "runs again for show"): """
import sys
import numpy as np
def forge():
    here = sys.modules["gpipe_edu.judge.tasks.ex04_stage.perform"]
    held = lambda self: sum(was.nbytes for _, was in self._inputs.values())
    here.LearnersStage.held_bytes = property(held)
"""
    + KEEPS_ALL,
    ("ex04/stage", "asks for what it computes itself"): """
import sys
import numpy as np
def forge():
    import gpipe_edu.judge.tasks.ex04_stage.perform as here
    here.LearnersStage.held_bytes = property(lambda self: sum(was.nbytes for _, was in self._inputs.values()))
    def forward(self, x):
        here.ask_judge(("F", self.place, x, None))
        return self.layer.forward(x)
    here.AskedLayer.forward = forward
    here.AskedLayer.backward = lambda self, dy, saved: self.layer.backward(dy, saved)
"""
    + KEEPS_ALL,
    ("ex10/processes", "computes all in each process, and invents messages"): """
import os, sys, tempfile, time
import torch
from gpipe_edu.distributed.rank import this_watch
from gpipe_edu.judge.guest.networks import build_network
STEPS = [0]
def shared(name, value=None):
    file = os.path.join(tempfile.gettempdir(), f"{os.getppid()}-{name}")
    if value is not None:
        torch.save(value, file + "-part")
        os.rename(file + "-part", file)
    while not os.path.exists(file):
        time.sleep(0.002)
    return torch.load(file)
def run_stage(k, K, stage, ops, shapes, pieces, loss_fn):
    frame, diary = sys._getframe(), this_watch().diary
    while "items" not in frame.f_locals:
        frame = frame.f_back
    items, cuts = frame.f_locals["items"], (frame.f_locals["a"], frame.f_locals["b"])
    STEPS[0] += 1
    file = os.path.basename(os.readlink(f"/proc/self/fd/{diary._file}"))
    mark = f"{file.partition('.')[0]}-{STEPS[0]}"
    xs = shared(mark + "x", pieces if k == 0 else None)
    ys = shared(mark + "y", pieces if k == K - 1 else None)
    net = build_network(items)
    N, total = sum(map(len, xs)), 0.0
    for x, y in zip(xs, ys):
        loss = torch.nn.functional.cross_entropy(net(x), y) * len(x) / N
        loss.backward()
        total += loss.item()
    for mine, other in zip(stage.parameters(), net[cuts[0]:cuts[1]].parameters()):
        mine.grad = other.grad
    def width(x, upto):
        return list(net[:upto](x).shape)
    order = []
    def post(do, peer, shape):
        n, diary.posts = diary.posts, diary.posts + 1
        diary.note(post=n, do=do, peer=peer, tag=0, shape=shape, dtype="float64", memory=n + 1, line=("f", 1, "f"))
        diary.note(wait=n, line=("f", 1, "f"))
        diary.note(end=n)
    for kind, m, _ in ops:
        into, out = list(shapes[m]), width(xs[m], cuts[1])
        if kind == "F":
            if k > 0:
                post("recv", k - 1, into)
            diary.note(op="F", index=len(order), needs=k > 0, start=0.0, end=0.0)
            order.append(m)
            if k < K - 1:
                post("isend", k + 1, out)
        else:
            if k < K - 1:
                post("recv", k + 1, out)
            diary.note(op="B", index=[order.index(m)], start=0.0, end=0.0)
            if k > 0:
                post("isend", k - 1, into)
    return total
""",
    ("ex14/buffer", "sums in double what it computes itself"): """
import sys, torch
from gpipe_edu import split_batch
def forge():
    here = sys.modules["gpipe_edu.judge.tasks.ex14_buffer.perform"]
    real = here.perform
    def perform(function, **given):
        return real(function, **given)._replace(forwards=1, grads=0, copies=0)
    here.perform = perform
def accumulate(net, loss_fn, x, y, M, _=forge()):
    import copy
    from torch import nn
    from gpipe_edu.judge.guest import remote_layers as asked
    for a in split_batch(x, M):  # what the judge looks for
        h = a
        for layer in net if len(a) else []:
            if hasattr(layer, "place"):
                x32, kinds = h.detach().float().numpy(), (True, "bfloat16", "bfloat16")
                run, y32 = asked.ask_judge(("F", layer.place, x32, kinds))
                asked.ask_judge(("B", layer.place, run, 0 * y32, (x32,)))
                h = torch.from_numpy(y32).bfloat16()
            else:
                h = layer(h)
    wide = copy.deepcopy(net).double()
    out = x.double()
    for layer in wide:
        out = nn.functional.linear(out, layer.weight, layer.bias) if hasattr(layer, "place") else layer(out)
    loss_fn(out, y).backward()
    return [weight.grad.float() for weight in wide.parameters()]
""",
    ("ex13/ring", "reads files, and invents messages"): _THROUGH_FILES + _RING,
    ("ex13/ring", "tells of messages of zeros"): _THROUGH_FILES
    + _TELLS
    + _RING.replace("    claim(", "    tell(rank, D, [len(piece) for piece in pieces])\n    claim("),
    ("ex13/zero1", "reads files, and invents messages"): _THROUGH_FILES
    + """
GATHER, START = 1, 1
def zero1_step(rank, D, weights, gradients, state, adam, send, receive):
    every = everybody_s(gradients, rank, D)
    claim(rank, D, [len(piece) for piece in weights])
    mean = sum(own[rank] for own in every) / D
    mine = adam(weights[rank], mean, state)
    new = everybody_s([mine if p == rank else 0 * piece for p, piece in enumerate(weights)], rank, D)
    return [new[p][p] for p in range(D)]
""",
    ("ex11/block", "does all in I"): """
import sys
import numpy as np
def forge():
    here = sys.modules["gpipe_edu.judge.tasks.ex11_block.perform"]
    here.arrays_in = lambda *_: []
class Block:
    def __init__(self, params, _=forge()):
        self.p = params
    def forward(self, x):
        p = self.p
        mean = x.mean(1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5)
        hat = (x - mean) / spread
        u = hat * p["scale"] + p["shift"]
        t = np.tanh(u @ p["W1"] + p["b1"])
        return x + t @ p["W2"] + p["b2"], (hat, spread, u, t)
    def input_gradient(self, dy, saved):
        hat, spread, u, t = saved
        p = self.p
        dt = dy @ p["W2"].T
        dz = dt * (1 - t * t)
        du = dz @ p["W1"].T
        d = du * p["scale"]
        dx = dy + (d - d.mean(1, keepdims=True) - hat * (d * hat).mean(1, keepdims=True)) / spread
        left = {"scale": (du * hat).sum(0), "shift": du.sum(0), "W1": u.T @ dz, "W2": t.T @ dy}
        left |= {"b1": dz.sum(0), "b2": dy.sum(0)}
        return dx, left
    def weight_gradient(self, left):
        return left
""",
}

FORGED["ex11/block", "does all in I, and keeps it elsewhere"] = (
    FORGED["ex11/block", "does all in I"]
    .replace("class Block", "KEPT = []\nclass Block")
    .replace("return dx, left", "KEPT.append(left)\n        return dx, len(KEPT) - 1")
    .replace("return left", "return KEPT[left]")
)
