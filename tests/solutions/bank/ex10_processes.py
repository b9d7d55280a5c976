"""Exercise 10, two processes that send activations and gradients. Most wrong ones are a line away from a right one."""

import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from tests.solutions.bank import Bank

BANK = Bank("ex10/processes")
KEPT = []


def received(shape, source, dtype=torch.float64):
    return into(torch.empty(shape, dtype=dtype), source)


def into(buffer, source):
    dist.recv(buffer, source)
    return buffer


def tell(k, K, losses, M):
    if k == K - 1:
        dist.send(losses, 0)
    if k == 0:
        dist.recv(torch.empty(M), K - 1)


@BANK.right
def run_stage(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, losses, N = [], {}, [], sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        n = shapes[m][0]
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()
            out = stage(x)
            if k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                out = loss_fn(out, pieces[m]) * n / N
                losses.append(out.item())
            held[m] = x, out
        else:
            x, out = held[m]
            gradient = received(out.shape, k + 1) if k < K - 1 else None
            out.backward(gradient)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return sum(losses)


@BANK.right
def with_tags_and_futures(k, K, stage, ops, shapes, pieces, loss_fn):
    """Posts all receives of activations in advance, each with the tag of its micro-batch."""
    N, handles, results, loss = sum(n for n, _ in shapes), [], {}, torch.zeros(())
    coming = {}
    if k > 0:
        for m, shape in enumerate(shapes):
            buffer = torch.empty(*shape, dtype=torch.float64)
            coming[m] = buffer, dist.irecv(buffer, src=k - 1, tag=m)
    for op in ops:
        m = op.micro_batch
        if op.kind == "F":
            if k > 0:
                x, work = coming[m]
                work.wait()
                x = x.clone().requires_grad_()
            else:
                x = pieces[m]
            results[m] = x, stage(x)
            if k + 1 < K:
                handles.append(dist.isend(results[m][1].detach().contiguous(), dst=k + 1, tag=m))
        else:
            x, out = results.pop(m)
            if k + 1 == K:
                part = loss_fn(out, pieces[m]) * len(out)
                (part / N).backward()
                loss = loss + part.detach()
            else:
                gradient = torch.zeros_like(out)
                dist.irecv(gradient, src=k + 1, tag=100 + m).wait()
                torch.autograd.backward(out, grad_tensors=gradient)
            if k > 0:
                handles.append(dist.isend(x.grad.clone(), dst=k - 1, tag=100 + m))
    [handle.wait() for handle in handles]
    return loss / N


class Neighbours:
    """Sends to and receives from the processes beside this one."""

    def __init__(self, k, K):
        self.front, self.behind, self.work = (k - 1 if k else None), (k + 1 if k < K - 1 else None), []

    def send(self, tensor, to):
        if to is not None:
            self.work += dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, to)])

    def receive(self, shape, source):
        buffer = torch.empty(shape, dtype=torch.double)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, buffer, source)]):
            work.wait()
        return buffer

    def close(self):
        while self.work:
            self.work.pop().wait()


@BANK.right
def by_autograd_grad_and_a_class(k, K, stage, ops, shapes, pieces, loss_fn):
    beside, graphs, losses = Neighbours(k, K), [None] * len(shapes), []
    weights = list(stage.parameters())
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m].clone() if beside.front is None else beside.receive(shapes[m], beside.front)
            x.requires_grad_()
            value = x
            for layer in stage:
                value = layer(value)
            beside.send(value.detach(), beside.behind)
            graphs[m] = x, value
        else:
            x, value = graphs[m]
            graphs[m] = gradient = None
            if beside.behind is None:
                value = loss_fn(value, pieces[m]) * (shapes[m][0] / sum(s[0] for s in shapes))
                losses.append(float(value))
            else:
                gradient = beside.receive(value.shape, beside.behind)
            back, *more = torch.autograd.grad(value, [x, *weights], gradient)
            for weight, part in zip(weights, more, strict=True):
                weight.grad += part
            beside.send(back, beside.front)
    beside.close()
    return sum(losses) if losses else None


class Nobody:
    """What a process may return that has no loss: it need not be anything that travels."""

    def __init__(self, handles):
        self.handles, self.lock = handles, threading.Lock()


@BANK.right
def returns_whatever_it_has(k, K, stage, ops, shapes, pieces, loss_fn):
    loss = run_stage(k, K, stage, ops, shapes, pieces, loss_fn)
    return torch.tensor(loss, dtype=torch.float64) if k == K - 1 else Nobody([])


# What the right answer above has, to be changed.
INPUT = "pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()"
OUT = "            out = stage(x)\n"
FORTH = "handles.append(dist.isend(out.detach(), k + 1))"
LOSS = "loss_fn(out, pieces[m]) * n / N"
TAKE, START = "x, out = held[m]", "out.backward(gradient)"
BACK = "handles.append(dist.isend(x.grad, k - 1))"
WAIT = "    for handle in handles:\n        handle.wait()\n"
END = "return sum(losses)"
GO = "handles, held, losses, N = [], {}, [], sum(shape[0] for shape in shapes)"

BANK.changed("sends", "waits_in_every_send", FORTH, "dist.send(out.detach(), k + 1)", BACK, "dist.send(x.grad, k - 1)")
BANK.changed(
    "unwaited", "throws_handles_away", FORTH, "dist.isend(out.detach(), k + 1)", BACK, "dist.isend(x.grad, k - 1)"
)
BANK.changed("tags", "tags_are_its_own_number", FORTH, "dist.send(out.detach(), k + 1, tag=k + 1)")
BANK.changed("no-requires-grad", "forgets_requires_grad", INPUT, "pieces[m] if k == 0 else received(shapes[m], k - 1)")
BANK.changed("no-grad-yet", "sends_the_gradient_of_the_result", BACK, "handles.append(dist.isend(out.grad, k - 1))")
BANK.changed("no-gradient", "backward_without_the_gradient", START, "out.backward()")
BANK.changed("other-gradient", "backward_of_the_sum", START, "out.sum().backward()")
BANK.changed(
    "other-gradient-last",
    "clips_each_value",
    END,
    f"torch.nn.utils.clip_grad_value_(stage.parameters(), 1e-3)\n    {END}",
)
BANK.changed(
    "other-gradient-shape",
    "sums_over_the_samples",
    START,
    "out.backward(gradient if gradient is None else gradient.sum(0))",
)
BANK.changed("second-time", "keeps_only_the_last_graph", TAKE, "pass")
BANK.changed(
    "same-graph",
    "retains_the_last_graph",
    TAKE,
    "pass",
    START,
    "out.backward(gradient, retain_graph=True)",
    "x.grad, k",
    "x.grad.clone(), k",
)
BANK.changed("gradient-size", "last_in_first_out", TAKE, "x, out = held.pop(max(held))")
BANK.changed("other-micro-batch", "first_in_first_out", TAKE, "x, out = held.pop(min(held))")
BANK.changed(
    "other-order",
    "all_forwards_first",
    GO,
    f"{GO}\n    ops = sorted(ops, key=lambda op: (op.kind == 'B', op.micro_batch * (-1) ** (op.kind == 'B')))",
)
BANK.changed("first-size", "room_for_the_largest", "received(shapes[m], k - 1)", "received(max(shapes), k - 1)")
BANK.changed(
    "first-size",
    "one_size_for_all",
    "received(shapes[m], k - 1)",
    "received(shapes[0], k - 1)",
    LOSS,
    "loss_fn(out[:n], pieces[m]) * n / N",
    "x.grad, k",
    "x.grad[:n], k",
)
BANK.changed(
    "other-shape",
    "hands_the_same_gradient_on",
    BACK,
    "handles.append(dist.isend(out.detach() if gradient is None else gradient, k - 1))",
)
BANK.changed("contiguous", "sends_features_first", "x.grad, k", "x.grad.T, k")
BANK.changed("zeros-came-back", "sends_zeros_back", "x.grad, k", "torch.zeros_like(x), k")
BANK.changed("some-zeros-came-back", "one_gradient_is_enough", "x.grad, k", "x.grad * (m == 0), k")
BANK.changed("emptied", "clears_up_behind_itself", END, f"stage.zero_grad()\n    {END}")
BANK.changed(
    "backward-again", "backward_once_more", START, f"out.backward(gradient, retain_graph=True)\n            {START}"
)
BANK.changed("loss-added-up", "adds_the_means", LOSS, "loss_fn(out, pieces[m])")
BANK.changed("loss-mean-of-means", "divides_by_M", LOSS, "loss_fn(out, pieces[m]) / len(shapes)")
BANK.changed("divided-twice", "scales_again_on_the_way_back", "x.grad, k", "x.grad * n / N, k")
BANK.changed("zero-inside", "empties_in_the_loop", START, f"stage.zero_grad()\n            {START}")
BANK.changed("no-pieces", "second_is_last", GO, f"K = 2 if k == 1 else K\n    {GO}")
BANK.changed(
    "all-reduce",
    "averages_gradients",
    END,
    f"[dist.all_reduce(weight.grad) for weight in stage.parameters()]\n    {END}",
)
BANK.changed("barrier", "waits_for_all_at_the_end", END, f"dist.barrier()\n    {END}")
BANK.changed(
    "extra-message", "tells_process_0_the_loss", WAIT, f"{WAIT}    tell(k, K, torch.tensor(losses), len(shapes))\n"
)
BANK.changed(
    "unreceived",
    "last_sends_its_result",
    WAIT,
    # Its handle is kept: one thrown away while the others still receive would be a slip of its own, seen by luck.
    f"{WAIT}    if k == K - 1:\n        stage.told = dist.isend(torch.tensor(losses), 0)\n",
)
BANK.changed("detached", "keeps_what_it_sends", FORTH, f"out = out.detach()\n                {FORTH}")
BANK.changed("loss-of-the-last", "returns_the_last_loss", END, "return losses[-1] if losses else None")
BANK.changed("other-loss", "returns_the_first_loss", END, "return losses[0] if losses else None")
BANK.changed("no-loss", "returns_all_losses", END, "return losses")
BANK.changed("no-return", "returns_nothing", END, "print(sum(losses))")
BANK.changed("eval-mode", "without_dropout_to_be_exact", GO, f"stage.eval()\n    {GO}")
BANK.changed(
    "weights-changed",
    "updates_at_the_end",
    END,
    f"[weight.data.sub_(0.1 * weight.grad) for weight in stage.parameters()]\n    {END}",
)
BANK.changed("scaled", "clips_gradients", END, f"torch.nn.utils.clip_grad_norm_(stage.parameters(), 0.1)\n    {END}")
BANK.changed("scaled", "doubles_gradients", END, f"[w.grad.mul_(2) for w in stage.parameters()]\n    {END}")
BANK.changed("unwaited", "keeps_handles_for_good", WAIT, "    KEPT.extend(handles)\n")
BANK.changed(
    "unwaited",
    "waits_in_the_next_call",
    GO,
    f"[handle.wait() for handle in KEPT]\n    KEPT.clear()\n    {GO}",
    WAIT,
    "    KEPT.extend(handles)\n",
)
BANK.changed("mode-changed", "trains_everything", GO, f"stage.train()\n    {GO}")
BANK.changed("left-behind", "keeps_results_in_a_list", FORTH, f"KEPT.append(out)\n                {FORTH}")
BANK.changed("left-behind", "adds_a_hook_each_time", GO, f"stage.register_forward_hook(lambda *seen: None)\n    {GO}")
BANK.changed("own-loss", "writes_the_loss_in", LOSS, "torch.nn.functional.cross_entropy(out, pieces[m]) * n / N")
BANK.changed(
    "other-gradient",
    "hands_on_what_fits",
    BACK,
    "handles.append(dist.isend(x.grad if k == K - 1 or x.shape != out.shape else gradient, k - 1))",
)
BANK.changed(
    "extra-message",
    "sends_each_twice",
    FORTH,
    f"{FORTH}\n                handles.append(dist.isend(out.detach(), k + 1))",
    "received(shapes[m], k - 1)",
    "[received(shapes[m], k - 1), received(shapes[m], k - 1)][1]",
)
BANK.changed(
    "second-step",
    "uses_up_its_ops",
    GO,
    f"ops = iter(lambda: ops_left.pop(0) if ops_left else None, None)\n    {GO}",
    "ops, shapes, pieces, loss_fn):",
    "ops_left, shapes, pieces, loss_fn):",
)
BANK.changed("no-backward", "returns_after_the_forwards", GO, f"ops = [op for op in ops if op.kind == 'F']\n    {GO}")
BANK.changed("exit", "exits_when_done", END, "os._exit(0)")
BANK.changed(
    "crowd",
    "starts_many_helpers",
    GO,
    "import subprocess, sys\n"
    "    KEPT.extend(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']) for _ in range(20))\n"
    f"    KEPT[0].wait()\n    {GO}",
)
BANK.changed(
    "second-step",
    "takes_pieces_away",
    INPUT,
    "pieces.pop(0) if k == 0 else received(shapes[m], k - 1).requires_grad_()",
)
BANK.changed(
    "rounded",
    "sends_float32",
    INPUT,
    "pieces[m] if k == 0 else received(shapes[m], k - 1, torch.float32).double().requires_grad_()",
    "out.detach(), k",
    "out.detach().float(), k",
)
BANK.changed(
    "from-anybody",
    "receives_from_whoever_sends",
    "received(shapes[m], k - 1)",
    "received(shapes[m], None)",
    "received(out.shape, k + 1)",
    "received(out.shape, None)",
)
BANK.changed("returned", "sends_nothing_back", BACK, "pass")
BANK.changed(
    "loss-everywhere",
    "a_loss_on_every_process",
    OUT,
    f"{OUT}            loss_fn(out, torch.zeros(n, dtype=torch.long))\n",
)
BANK.changed(
    "dtype",
    "a_buffer_of_float32",
    INPUT,
    "pieces[m] if k == 0 else received(shapes[m], k - 1, torch.float32).double().requires_grad_()",
)
BANK.changed(
    "receives",
    "receives_before_it_sends",
    FORTH,
    f"gradient = received(out.shape, k + 1)\n                {FORTH}",
    "received(out.shape, k + 1) if k < K - 1 else None",
    "None if k == K - 1 else gradient",
)
BANK.changed(
    "one-buffer",
    "reuses_one_buffer",
    GO,
    f"box = torch.empty(shapes[0], dtype=torch.float64)\n    {GO}",
    INPUT,
    "pieces[m] if k == 0 else into(box[:n], k - 1).detach().requires_grad_()",
)
BANK.changed(
    "one-send-buffer",
    "sends_from_one_buffer",
    GO,
    f"box = torch.empty(99, 9, dtype=torch.float64)\n    {GO}",
    FORTH,
    "handles.append(dist.isend(box.flatten()[: out.numel()].copy_(out.detach().flatten()), k + 1))",
)


@BANK.wrong("waits")
def the_middle_wants_its_gradient_first(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, total, held, N = [], 0.0, {}, sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()
            out = stage(x)
            gradient = received(out.shape, k + 1) if 0 < k < K - 1 else None
            if k == 0:
                dist.send(out.detach(), 1)
            elif k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                out = loss_fn(out, pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out, gradient
        else:
            x, out, gradient = held[m]
            out.backward(received(out.shape, 1) if k == 0 else gradient)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("no-neighbour")
def first_receives_too(k, K, stage, ops, shapes, pieces, loss_fn):
    for kind, m, _ in ops:
        if kind == "F":
            received(shapes[m], k - 1)


@BANK.wrong("no-message")
def leaves_gradients_in_files(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total, folder = [], {}, 0.0, tempfile.gettempdir()
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()
            held[m] = x, stage(x)
            if k < K - 1:
                handles.append(dist.isend(held[m][1].detach(), k + 1))
            else:
                loss = loss_fn(held[m][1], pieces[m]) * shapes[m][0] / sum(shape[0] for shape in shapes)
                held[m] = x, loss
                total += loss.item()
        else:
            x, out = held[m]
            gradient, file = None, os.path.join(folder, f"{os.getppid()}-gradient-{k + 1}-{m}")
            if k < K - 1:
                while not os.path.exists(file):
                    time.sleep(0.01)
                gradient = torch.load(file)
                os.remove(file)
            out.backward(gradient)
            if k > 0:
                file = os.path.join(folder, f"{os.getppid()}-gradient-{k}-{m}")
                torch.save(x.grad, file + "-part")
                os.rename(file + "-part", file)
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("forwards")
def does_nothing(k, K, stage, ops, shapes, pieces, loss_fn):
    return 0.0


@BANK.wrong("error")
def forgets_what_a_dictionary_gives_for_nothing(k, K, stage, ops, shapes, pieces, loss_fn):
    return {}.get(k).size()


@BANK.wrong("endless")
def waits_for_a_flag(k, K, stage, ops, shapes, pieces, loss_fn):
    while not os.path.exists(f"{tempfile.gettempdir()}/never/{k}"):
        pass


@dataclass
class Post:
    """What is on its way from this process."""

    handles: list = field(default_factory=list)

    def send(self, tensor, to):
        self.handles.append(dist.isend(tensor, to))

    def arrived(self):
        for handle in self.handles:
            handle.wait()


@dataclass
class Graph:
    """A micro-batch between its forward and its backward."""

    x: torch.Tensor
    out: torch.Tensor
    gradient: Any = None

    def back(self):
        self.out.backward(self.gradient)
        return self.x.grad


@BANK.right
def graphs_and_a_post(k, K, stage, ops, shapes, pieces, loss_fn):
    post, graphs, losses = Post(), {}, []
    N = sum(n for n, _ in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = received(shapes[m], k - 1).requires_grad_() if k else pieces[m]
            graphs[m] = graph = Graph(x, stage(x))
            if k < K - 1:
                post.send(graph.out.detach(), k + 1)
            else:
                graph.out = loss_fn(graph.out, pieces[m]) * shapes[m][0] / N
                losses.append(graph.out.item())
        else:
            graph = graphs.pop(m)
            if k < K - 1:
                graph.gradient = received(graph.out.shape, k + 1)
            gradient = graph.back()
            if k:
                post.send(gradient, k - 1)
    post.arrived()
    return sum(losses)


class Role(Enum):
    FIRST = "has the data"
    MIDDLE = "has neighbours only"
    LAST = "has the labels"

    @classmethod
    def of(cls, k, K):
        return cls.LAST if k == K - 1 else cls.MIDDLE if k else cls.FIRST


class Held(NamedTuple):
    x: torch.Tensor
    out: torch.Tensor


@BANK.right
def by_the_role_of_the_process(k, K, stage, ops, shapes, pieces, loss_fn):
    role, held, handles, total = Role.of(k, K), {}, [], torch.zeros((), dtype=torch.float64)
    for op in ops:
        m = op.micro_batch
        share = shapes[m][0] / sum(shape[0] for shape in shapes)
        if op.kind == "F":
            x = pieces[m] if role is Role.FIRST else into(torch.empty(shapes[m], dtype=torch.float64), k - 1)
            held[m] = Held(x.requires_grad_(role is not Role.FIRST), stage(x))
            if role is not Role.LAST:
                handles.append(dist.isend(held[m].out.detach(), k + 1))
            continue
        x, out = held.pop(m)
        if role is Role.LAST:
            loss = share * loss_fn(out, pieces[m])
            total += loss.detach()
            loss.backward()
        else:
            out.backward(into(torch.empty_like(out), k + 1))
        if role is not Role.FIRST:
            handles.append(dist.isend(x.grad, k - 1))
    while handles:
        handles.pop(0).wait()
    return total if role is Role.LAST else None
