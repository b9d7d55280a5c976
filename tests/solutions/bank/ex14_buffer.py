"""Exercise 14, gradients added up in fp32. Most wrong answers are one line away from a right one."""

from copy import deepcopy  # noqa: F401
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import torch

from gpipe_edu import split_batch
from tests.solutions.bank import Bank

BANK = Bank("ex14/buffer")
KEPT = {}


@BANK.right
def with_buffers(net, loss_fn, x, y, M):
    weights = list(net.parameters())
    buffers = [torch.zeros_like(w, dtype=torch.float32) for w in weights]
    net.zero_grad()
    pieces = split_batch((x, y), M)
    N = len(x)
    for a, b in pieces:
        if len(a) == 0:
            continue
        loss = loss_fn(net(a), b)
        share = len(a) / N
        loss.backward()
        for s, w in zip(buffers, weights, strict=True):
            s += w.grad.float() * share
            w.grad = None
    return buffers


changed = BANK.changed
changed("whole-targets", "all_targets_for_each_piece", "loss_fn(net(a), b)", "loss_fn(net(a), y)")
changed("ends-in-bf16", "buffers_like_the_weights", ", dtype=torch.float32)", ")")
changed("ends-in-bf16", "back_to_the_weights_type", "return buffers", "return [s.bfloat16() for s in buffers]")
changed(
    "ends-in-bf16",
    "moves_grad_out",
    "return buffers",
    "return [s.to(w.dtype) for s, w in zip(buffers, weights, strict=True)]",
)
changed(
    "second-call",
    "main_grad",
    "buffers = [torch.zeros_like(w, dtype=torch.float32) for w in weights]",
    """for w in weights:
        if not hasattr(w, "main_grad"):
            w.main_grad = torch.zeros_like(w, dtype=torch.float32)
    buffers = [w.main_grad for w in weights]""",
)
changed(
    "second-call",
    "hooks_that_stay",
    "    net.zero_grad()\n",
    """    net.zero_grad()

    def take(w):
        places[w].add_(w.grad, alpha=share)
        w.grad = None

    places = dict(zip(weights, buffers, strict=True))
    for w in weights:
        w.register_post_accumulate_grad_hook(take)
""",
    """        for s, w in zip(buffers, weights, strict=True):
            s += w.grad.float() * share
            w.grad = None
""",
    "",
)
changed(
    "shared-twice",
    "layer_by_layer",
    "list(net.parameters())",
    "[w for layer in net for w in layer.parameters()]",
    "            s += w.grad.float() * share\n            w.grad = None\n    return buffers",
    "            s += w.grad.float() * share\n        net.zero_grad()\n    return buffers",
)
changed("other-type", "in_double", "dtype=torch.float32", "dtype=torch.float64")
changed("other-type", "in_half", "return buffers", "return [s.half() for s in buffers]")
changed(
    "summed-in-bf16",
    "wide_at_the_end",
    ", dtype=torch.float32)",
    ")",
    "return buffers",
    "return [s.float() for s in buffers]",
)
changed("summed-in-bf16", "rounds_at_the_end", "return buffers", "return [s.bfloat16().float() for s in buffers]")
changed(
    "summed-in-bf16",
    "lets_autograd_add",
    "loss.backward()",
    "(loss * share).backward()",
    "            s += w.grad.float() * share\n            w.grad = None\n",
    "            s.copy_(w.grad)\n",
    "return buffers",
    "net.zero_grad()\n    return buffers",
)
changed(
    "summed-in-bf16",
    "rounds_each_sum",
    "s += w.grad.float() * share",
    "s.copy_((s + w.grad.float() * share).bfloat16())",
)
changed(
    "digits-lost",
    "adds_in_blocks",
    "N = len(x)",
    "N, done = len(x), 0",
    "loss.backward()",
    "(loss * share).backward()\n        done += 1",
    "            s += w.grad.float() * share\n            w.grad = None\n",
    "            if done % 3 == 0 or done == min(M, N):\n"
    "                s += w.grad.float()\n                w.grad = None\n",
)
changed(
    "digits-lost", "shares_in_half_precision", "s += w.grad.float() * share", "s += (w.grad.float() * share).half()"
)
changed("adds-sums", "grad_keeps_growing", "            w.grad = None\n    return", "    net.zero_grad()\n    return")
changed(
    "grad-left",
    "leaves_the_last",
    "            w.grad = None\n    return",
    "            w.grad = w.grad * 0\n    return",
)
changed("counts-old-gradients", "takes_what_was_there", "    net.zero_grad()\n", "")
changed(
    "grad-left",
    "writes_it_back",
    "return buffers",
    "for s, w in zip(buffers, weights, strict=True):\n        w.grad = s.bfloat16()\n    return buffers",
)
changed("no-division", "only_adds", "* share", "* 1.0")
changed("mean-of-means", "divides_by_M", "share = len(a) / N", "share = 1 / min(M, N)")
changed("zero-inside", "the_last_one_only", "s += w.grad.float() * share", "s.copy_(w.grad.float() * share)")
changed(
    "only-first",
    "the_first_one_only",
    "            s += w.grad.float() * share\n",
    "            s += w.grad.float() * share * (not s.any())\n",
)
changed("not-divided", "sums_of_losses", "* share", "* len(a)")
changed("divided-twice", "and_by_M", "* share", "* share / min(M, N)")
changed("uphill", "subtracts", "s += w.grad", "s -= w.grad")
changed(
    "lost",
    "cuts_the_rest_off",
    "pieces = split_batch((x, y), M)",
    "n = max(1, len(x) // M)\n    pieces = [(x[i * n : i * n + n], y[i * n : i * n + n]) for i in range(M)]",
)
changed("not-cut", "all_at_once", "split_batch((x, y), M)", "[(x, y)]")
changed("twice", "forward_for_the_shape", "loss = loss_fn(net(a), b)", "net(a)\n        loss = loss_fn(net(a), b)")
changed("other-cut", "chunks", "split_batch((x, y), M)", "list(zip(torch.chunk(x, M), torch.chunk(y, M), strict=True))")
changed("other-cut", "sample_by_sample", "split_batch((x, y), M)", "split_batch((x, y), len(x))")
changed("ran-empty", "runs_what_is_empty", "if len(a) == 0:", "if False:")
changed(
    "other-mode",
    "evaluates_and_puts_it_back",
    "    net.zero_grad()\n",
    "    mode = net.training\n    net.eval().zero_grad()\n",
    "return buffers",
    "net.train(mode)\n    return buffers",
)
changed("not-a-list", "a_dict_by_names", "return buffers", "return {i: s for i, s in enumerate(buffers)}")
changed("zeros", "share_rounded_down", "len(a) / N", "len(a) // N")
changed("frozen", "freezes_at_the_end", "return buffers", "net.requires_grad_(False)\n    return buffers")
changed(
    "frozen", "freezes_one_weight", "return buffers", "next(net.parameters()).requires_grad_(False)\n    return buffers"
)
changed(
    "added-in-double",
    "sums_in_double",
    "dtype=torch.float32",
    "dtype=torch.float64",
    "return buffers",
    "return [s.float() for s in buffers]",
)
changed(
    "first-changed",
    "buffers_kept_on_the_network",
    "    net.zero_grad()\n",
    """    net.zero_grad()
    if hasattr(net, "sums"):
        buffers = [s.zero_() for s in net.sums]
    net.sums = buffers
""",
)
changed(
    "first-changed",
    "hooks_on_gradients_that_stay",
    "    net.zero_grad()\n",
    """    net.zero_grad()
    for place, s in zip(weights, buffers, strict=True):
        place.register_hook(lambda g, s=s: (s.add_(g.float(), alpha=share), None)[1])
""",
    "            s += w.grad.float() * share\n",
    "",
)
changed("widened", "network_in_fp32", "    net.zero_grad()\n", "    net.float().zero_grad()\n    x = x.float()\n")
changed(
    "widened",
    "there_and_back_again",
    "    net.zero_grad()\n",
    "    net.float().zero_grad()\n    x = x.float()\n",
    "return buffers",
    "net.bfloat16()\n    return buffers",
)
changed(
    "other-net", "a_wide_copy", "weights = list", "net = deepcopy(net).float()\n    x = x.float()\n    weights = list"
)
changed("error", "wide_input_only", "net(a)", "net(a.float())")
changed(
    "weights-moved",
    "updates_at_the_end",
    "return buffers",
    "for s, w in zip(buffers, weights, strict=True):\n        w.data -= 0.1 * s\n    return buffers",
)
changed("weights-widened", "weights_in_fp32_from_now_on", "return buffers", "net.float()\n    return buffers")
changed("mode-changed", "trains_from_now_on", "    net.zero_grad()\n", "    net.train().zero_grad()\n")
changed("mode-changed", "evaluates_from_now_on", "    net.zero_grad()\n", "    net.eval().zero_grad()\n")
changed("not-a-list", "one_after_the_other", "return buffers", "return (one for one in buffers)")
changed("not-a-list", "one_long_row", "return buffers", "return torch.cat([s.flatten() for s in buffers])")
changed("other-form", "weights_without_biases", "return buffers", "return buffers[::2]")
changed("no-tensors", "as_arrays", "return buffers", "return [s.numpy() for s in buffers]")
changed("not-a-list", "forgets_to_return", "return buffers", "KEPT.update(enumerate(buffers))")
changed("other-gradient", "clips_each", "s += w.grad.float() * share", "s += w.grad.float().clamp(-0.01, 0.01) * share")


@BANK.wrong("keeps-all")
def collects_and_stacks(net, loss_fn, x, y, M):
    found = []
    net.zero_grad()
    for a, b in split_batch((x, y), M):
        if len(a):
            (loss_fn(net(a), b) * len(a) / len(x)).backward()
            found.append([w.grad.float() for w in net.parameters()])
            net.zero_grad()
    return [torch.stack(column).sum(dim=0) for column in zip(*found, strict=True)]


@BANK.wrong("summed-in-bf16")
def stacks_in_bf16(net, loss_fn, x, y, M):
    total = None
    net.zero_grad()
    for a, b in split_batch((x, y), M):
        if len(a):
            found = torch.autograd.grad(loss_fn(net(a), b) * len(a) / len(x), list(net.parameters()))
            total = found if total is None else [s + g for s, g in zip(total, found, strict=True)]
    return [s.float() for s in total]


@BANK.wrong("held-over")
def gradients_in_a_name(net, loss_fn, x, y, M):
    net.zero_grad()
    weights = list(net.parameters())
    sums = [torch.zeros(w.shape) for w in weights]
    for a, b in split_batch((x, y), M):
        if len(a):
            found = torch.autograd.grad(loss_fn(net(a), b), weights)
            for s, g in zip(sums, found, strict=True):
                s += g.float() * (len(a) / len(x))
    return sums


@BANK.right
def by_autograd_grad(net, loss_fn, x, y, M):
    """No `.grad` at all; the share goes to the loss."""
    names, weights = zip(*net.named_parameters(), strict=True)
    sums = dict.fromkeys(names, 0.0)
    net.zero_grad()
    for a, b in split_batch((x, y), M):
        if len(a):
            loss = loss_fn(net(a), b) * (len(a) / len(x))
            found = torch.autograd.grad(loss, weights)
            sums = {n: sums[n] + g.to(torch.float32) for n, g in zip(names, found, strict=True)}
            del found
    return list(sums.values())


@BANK.right
def with_pytorchs_own_type(net, loss_fn, x, y, M):
    """`grad_dtype` lets autograd add up in fp32 by itself."""
    net.zero_grad()
    for w in net.parameters():
        w.grad_dtype = torch.float32
    for a, b in split_batch((x, y), M):
        if len(a):
            (loss_fn(net(a), b) * (len(a) / len(x))).backward()
    found = [w.grad for w in net.parameters()]
    net.zero_grad()
    for w in net.parameters():
        w.grad_dtype = w.dtype
    return found


@BANK.right
def share_times_what_is_added(net, loss_fn, x, y, M):
    """The product is rounded to bf16, and so is one of the share and the loss: neither loses more with more of them."""
    weights = list(net.parameters())
    net.zero_grad()
    buffers = [torch.zeros(w.shape) for w in weights]
    for a, b in split_batch((x, y), M):
        if len(a):
            loss_fn(net(a), b).backward()
            for buf, w in zip(buffers, weights, strict=True):
                buf += w.grad * (len(a) / len(x))
                w.grad = None
    return buffers


@BANK.right
def samples_first_then_their_number(net, loss_fn, x, y, M):
    """From left to right: two products in bf16."""
    net.zero_grad()
    buffers = {w: torch.zeros_like(w, dtype=torch.float) for w in net.parameters()}
    for a, b in split_batch((x, y), M):
        if len(a):
            loss_fn(net(a), b).backward()
            for w, buf in buffers.items():
                buf.add_(w.grad * len(a) / len(x))
            net.zero_grad()
    return list(buffers.values())


class Share(Enum):
    SAMPLES = "samples"
    EVEN = "even"

    def of(self, n, N, M):
        return n / N if self is Share.SAMPLES else 1 / M


class Part(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclass
class Buffer:
    """Kahan's sum in bf16: the sum, and what it has lost so far."""

    total: torch.Tensor
    lost: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.total = torch.zeros_like(self.total, dtype=torch.float32)
        self.lost = torch.zeros_like(self.total)

    def add(self, term):
        term = term.float() - self.lost
        more = self.total + term
        self.lost = (more - self.total) - term
        self.total = more


@BANK.right
def kahan(net, loss_fn, x, y, M):
    """More careful than need be, with hooks that empty `.grad` as it comes."""
    buffers = {w: Buffer(w.detach()) for w in net.parameters()}
    share = [1.0]

    def take(w):
        buffers[w].add(w.grad.float() * share[0])
        w.grad = None

    net.zero_grad()
    hooks = [w.register_post_accumulate_grad_hook(take) for w in buffers]
    for part in (Part(*pair) for pair in split_batch((x, y), M)):
        if len(part.x):
            share[0] = Share.SAMPLES.of(len(part.x), len(x), M)
            loss_fn(net(part.x), part.y).backward()
    for hook in hooks:
        hook.remove()
    return [buffer.total for buffer in buffers.values()]
