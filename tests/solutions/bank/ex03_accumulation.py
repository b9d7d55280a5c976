"""Exercise 03, gradient accumulation. Most wrong answers are one line away from a right one."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch

from gpipe_edu import split_batch
from tests.solutions.bank import Bank

BANK = Bank("ex03/accumulation")


def pieces(x, y, M):
    return [(a, b) for a, b in split_batch((x, y), M) if len(a)]


@BANK.right
def share_and_all(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total, N = 0.0, len(x)
    for m, (a, b) in enumerate(pieces(x, y, M)):  # noqa: B007
        loss = loss_fn(net(a), b)
        part = loss * len(a) / N
        part.backward()
        total += part.item()
    optimizer.step()
    return total


@BANK.right
def a_total_in_single_precision(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = torch.zeros(())
    for a, b in zip(torch.chunk(x, M), torch.chunk(y, M), strict=True):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total


@BANK.right
def loss_as_an_array(net, loss_fn, optimizer, x, y, M):
    """Of no dimension: it is printed and compared as a number is."""
    optimizer.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.numpy()


@BANK.right
def layer_by_layer(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        h = a
        for layer in net:
            h = layer(h)
        loss = loss_fn(h, b) * len(a) / len(x)
        loss.backward()
        total += loss
    optimizer.step()
    return total.detach()


@BANK.right
def sizes_by_hand(net, loss_fn, optimizer, x, y, M):
    for parameter in net.parameters():
        parameter.grad = None
    total = torch.zeros((), dtype=x.dtype)
    for start in range(0, len(x), -(-len(x) // M)):
        rows = slice(start, start + -(-len(x) // M))
        loss = loss_fn(net(x[rows]), y[rows]) * len(x[rows]) / len(x)
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


@BANK.right
def by_hand_with_autograd_grad(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    weights, total = [weight for weight in net.parameters() if weight.requires_grad], 0.0
    sums = [torch.zeros_like(weight) for weight in weights]
    for a, b in zip(torch.tensor_split(x, M), torch.tensor_split(y, M), strict=True):
        if a.shape[0] == 0:
            continue
        loss = a.shape[0] * loss_fn(net(a), b)
        for kept, more in zip(sums, torch.autograd.grad(loss, weights), strict=True):
            kept += more
        total += float(loss)
    for weight, kept in zip(weights, sums, strict=True):
        weight.grad = kept / x.shape[0]
    optimizer.step()
    return total / x.shape[0]


@BANK.right
def in_a_closure(net, loss_fn, optimizer, x, y, M):
    def closure():
        optimizer.zero_grad()
        total = 0.0
        for a, b in pieces(x, y, M):
            loss = loss_fn(net(a), b) * len(a) / len(x)
            loss.backward()
            total += loss.item()
        return total

    return optimizer.step(closure)


@BANK.right
def piece_after_piece(net, loss_fn, optimizer, x, y, M):
    """Calls itself for the rest, with its own loss and graph still in a variable."""

    def train(rest):
        if not rest:
            return 0.0
        (a, b), *rest = rest
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        return loss.item() + train(rest)

    optimizer.zero_grad()
    total = train(pieces(x, y, M))
    optimizer.step()
    return total


@BANK.right
def sums_losses_at_the_end(net, loss_fn, optimizer, x, y, M):
    """A loss keeps its graph, of which the backward has left no activations."""
    net.zero_grad()
    losses = []
    for a, b in pieces(x, y, M):
        output = net(a)
        losses.append(loss_fn(output, b) * len(a) / len(x))
        losses[-1].backward()
    optimizer.step()
    return torch.stack(losses).sum().item()


@BANK.wrong("forward-again")
def the_loss_of_every_piece_first(net, loss_fn, optimizer, x, y, M):
    total = loss_of_all(net, loss_fn, x, y, M)
    share_and_all(net, loss_fn, optimizer, x, y, M)
    return total


OUTPUTS = []
CE = torch.nn.CrossEntropyLoss()


def loss_of_all(net, loss_fn, x, y, M):
    with torch.no_grad():
        return sum(loss_fn(net(a), b).item() * len(a) for a, b in pieces(x, y, M)) / len(x)


def loss_without_a_graph(net, loss_fn, a, b, N):
    with torch.no_grad():
        return loss_fn(net(a), b).item() * len(a) / N


LOOP = "for m, (a, b) in enumerate(pieces(x, y, M)):"
ZERO, STEP, PART, BACK, ADD = (
    "optimizer.zero_grad()",
    "optimizer.step()",
    "loss * len(a) / N",
    "part.backward()",
    "part.item()",
)

BANK.changed("zero-inside", "zero_grad_in_the_loop", LOOP, f"{LOOP}\n        {ZERO}")
BANK.changed("no-zero", "never_empties", f"    {ZERO}\n", "")
BANK.changed("zero-late", "empties_at_the_end", f"    {ZERO}\n", "", STEP, f"{STEP}\n    {ZERO}")
BANK.changed("mean-of-means", "divides_by_M", PART, "loss / M")
BANK.changed("no-division", "adds_the_means", BACK, "loss.backward()")
BANK.changed("not-divided", "sums_over_samples", BACK, "(loss * len(a)).backward()")
BANK.changed("divided-twice", "share_and_division", BACK, "(part / M).backward()")
BANK.changed(
    "step-inside", "updates_after_each", BACK, f"{BACK}\n        {STEP}", f"    {STEP}\n    return", "    return"
)
BANK.changed("no-step", "forgets_to_step", f"    {STEP}\n", "")
BANK.changed("not-cut", "the_whole_batch_at_once", LOOP, LOOP.replace("pieces(x, y, M)", "[(x, y)]"))
BANK.changed("empty-piece", "a_mean_over_nothing", LOOP, LOOP.replace("pieces(x, y, M)", "split_batch((x, y), M)"))
BANK.changed("only-first", "backward_of_the_first_only", BACK, f"{BACK} if m == 0 else None")
BANK.changed(
    "lost", "drops_the_remainder", LOOP, f"x, y = x[: max(N // M, 1) * M], y[: max(N // M, 1) * M]\n    {LOOP}"
)
BANK.changed("loss-of-the-last", "reports_the_last", "return total", "return loss.item()")
BANK.changed("loss-mean-of-means", "reports_a_mean_of_means", ADD, "loss.item() / min(M, N)")
BANK.changed("loss-added-up", "reports_the_sum", ADD, "loss.item()")
BANK.changed("other-loss", "reports_the_first", ADD, "(loss.item() if m == 0 else 0)")
BANK.changed("no-return", "gives_nothing_back", "    return total\n", "")
BANK.changed("no-loss", "gives_a_list_back", "return total", "return [total]")
BANK.changed("loss-with-graph", "adds_up_tensors", ADD, "part")
BANK.changed("uphill", "subtracts", BACK, "(-part).backward()")
BANK.changed(
    "shortened", "clips_out_of_habit", STEP, f"torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)\n    {STEP}"
)
BANK.changed(
    "all-at-once",
    "one_backward_of_the_sum",
    BACK,
    "whole = part + (whole if m else 0)",
    STEP,
    f"whole.backward()\n    {STEP}",
)
BANK.changed("graph-kept", "retains_to_be_safe", BACK, "part.backward(retain_graph=True)")
BANK.changed("twice", "the_loss_once_more", ADD, "(loss_fn(net(a), b) * len(a) / N).item()")
BANK.changed("forward-again", "the_loss_without_a_graph", ADD, "loss_without_a_graph(net, loss_fn, a, b, N)")
BANK.changed("loss-after", "the_loss_at_the_end", "return total", "return loss_of_all(net, loss_fn, x, y, M)")
BANK.changed("kept-after", "draws_them_later", PART, f"{PART}; OUTPUTS.append(output)", "net(a)", "(output := net(a))")
BANK.changed("kept-after", "plots_losses_later", BACK, f"{BACK}; OUTPUTS.append(part)")
BANK.changed(
    "outputs-kept",
    "joins_outputs_for_the_loss",
    ZERO,
    f"{ZERO}\n    outputs = []",
    "net(a)",
    "outputs.append(net(a)) or outputs[-1]",
    "return total",
    "return loss_fn(torch.cat(outputs).detach(), y)",
)
BANK.changed(
    "all-at-once",
    "goes_back_one_piece_later",
    BACK,
    "if m: before.backward()\n        before = part",
    STEP,
    f"before.backward()\n    {STEP}",
)
RATE = "for group in optimizer.param_groups: group['lr']"
BANK.changed(
    "other-setting",
    "a_smaller_rate_for_sums",
    BACK,
    "(part * M).backward()",
    STEP,
    f"{RATE} /= M\n    {STEP}\n    {RATE} *= M",
)
BANK.changed("other-setting", "decays_the_rate", STEP, f"{STEP}\n    {RATE} *= 0.99")
BANK.changed(
    "weights-moved",
    "weight_decay_by_hand",
    STEP,
    f"with torch.no_grad():\n        for weight in net.parameters(): weight *= 0.999\n    {STEP}",
)
BANK.changed(
    "layer-mode",
    "gives_the_mode_back_to_all",
    ZERO,
    f"{ZERO}\n    was = net.training",
    STEP,
    f"{STEP}\n    net.train(was)",
)
BANK.changed("unfrozen", "trains_all", ZERO, f"{ZERO}\n    net.requires_grad_(True)")
BANK.changed(
    "frozen-layer",
    "divides_every_gradient",
    PART,
    "loss * len(a)",
    STEP,
    f"for weight in net.parameters(): weight.grad /= N\n    {STEP}",
    "return total",
    "return total / N",
)
BANK.changed(
    "own-loss",
    "knows_the_loss_of_labels",
    "loss_fn(net(a), b)",
    "(loss_fn if b.is_floating_point() else CE)(net(a), b)",
)
BANK.changed(
    "own-loss",
    "target_and_output",
    "loss_fn(net(a), b)",
    "loss_fn(*((b, net(a)) if b.is_floating_point() else (net(a), b)))",
)
BANK.changed("whole-targets", "all_targets_for_each_piece", "loss_fn(net(a), b)", "loss_fn(net(a), y)")
BANK.changed("only-small", "at_most_16_pieces", ZERO, f"{ZERO}\n    M = min(M, 16)")
BANK.changed("lost", "single_samples_are_too_few", LOOP, f"{LOOP}\n        if len(a) == 1 and M < N: continue")
BANK.changed("input-changed", "clamps_the_targets", ZERO, f"{ZERO}\n    y.clamp_(0, 8)")
BANK.changed("eval-mode", "without_dropout_to_be_exact", ZERO, f"{ZERO}\n    net.eval()")
BANK.changed("eval-mode", "ready_to_be_asked", ZERO, f"{ZERO}\n    net.train()", STEP, f"{STEP}\n    net.eval()")
BANK.changed("train-mode", "as_every_training_loop_begins", ZERO, f"{ZERO}\n    net.train()")
BANK.changed("input-changed", "clears_up_behind_itself", STEP, f"{STEP}\n    x.zero_()")
BANK.changed("input-asks", "asks_for_all_gradients", ZERO, f"{ZERO}\n    x.requires_grad_()")
BANK.changed("numbers-counted", "shares_of_numbers", PART, "loss * b.numel() / N")
BANK.changed(
    "other-gradient", "clips_each_piece", BACK, f"{BACK}; torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)"
)
BANK.changed("clipped", "clips_each_value", STEP, f"torch.nn.utils.clip_grad_value_(net.parameters(), 1)\n    {STEP}")
BANK.changed(
    "shortened", "clips_what_is_long", STEP, f"torch.nn.utils.clip_grad_norm_(net.parameters(), 2)\n    {STEP}"
)
BANK.changed("rounded", "single_precision_on_the_way", ZERO, f"{ZERO}\n    x = x.float().to(x.dtype)")
BANK.changed("few-digits", "half_precision_on_the_way", ZERO, f"{ZERO}\n    x = x.bfloat16().to(x.dtype)")
BANK.changed("own-loss", "knows_the_loss", "loss_fn(net(a), b)", "torch.nn.functional.cross_entropy(net(a), b)")
BANK.changed("only-small", "mini_batches_have_64", ZERO, f"{ZERO}\n    x, y = x[:64], y[:64]")
BANK.changed(
    "few-samples", "asks_for_enough_samples", ZERO, f"{ZERO}\n    assert len(x) >= M, 'more micro-batches than samples'"
)


BANK.changed(
    "decay-twice",
    "adds_the_decay_itself",
    STEP,
    "decay = optimizer.param_groups[0]['weight_decay']\n"
    "    for weight in net.parameters():\n"
    "        if weight.grad is not None: weight.grad += decay * weight.detach()\n"
    f"    {STEP}",
)
BANK.changed(
    "frozen-layer",
    "zeros_for_frozen_weights",
    STEP,
    "for weight in net.parameters():\n"
    "        if weight.grad is None: weight.grad = torch.zeros_like(weight)\n"
    f"    {STEP}",
)
BANK.changed(
    "frozen-late",
    "empties_what_is_trained",
    ZERO,
    "for weight in net.parameters():\n        if weight.requires_grad: weight.grad = None",
)


@BANK.wrong("frozen-late")
def sums_for_what_is_trained(net, loss_fn, optimizer, x, y, M):
    weights, total = [weight for weight in net.parameters() if weight.requires_grad], 0.0
    sums = [torch.zeros_like(weight) for weight in weights]
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        for kept, more in zip(sums, torch.autograd.grad(loss, weights), strict=True):
            kept += more
        total += loss.item()
    for weight, kept in zip(weights, sums, strict=True):
        weight.grad = kept
    optimizer.step()
    return total


@BANK.wrong("frozen-layer")
def gradients_of_all_weights(net, loss_fn, optimizer, x, y, M):
    weights, total = list(net.parameters()), 0.0
    sums = [torch.zeros_like(weight) for weight in weights]
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        for kept, more in zip(sums, torch.autograd.grad(loss, weights), strict=True):
            kept += more
        total += loss.item()
    for weight, kept in zip(weights, sums, strict=True):
        weight.grad = kept
    optimizer.step()
    return total


@BANK.wrong("memory")
def never_moves_on(net, loss_fn, optimizer, x, y, M):
    start, sums = 0, []
    while start < len(x):
        sums.append(torch.zeros(1000, 1000))
    return share_and_all(net, loss_fn, optimizer, x, y, M)


@BANK.wrong("too-fine")
def sample_by_sample(net, loss_fn, optimizer, x, y, M):
    return share_and_all(net, loss_fn, optimizer, x, y, len(x))


@BANK.wrong("remembers")
def cuts_once_and_for_all(net, loss_fn, optimizer, x, y, M, cut={}):  # noqa: B006
    x, y = cut.setdefault(len(x), (x, y))
    return share_and_all(net, loss_fn, optimizer, x, y, M)


@dataclass
class Meter:
    """Weights the losses of micro-batches, and adds them up."""

    N: int
    total: float = 0.0

    def share(self, loss, n):
        part = loss * (n / self.N)
        self.total += part.item()
        return part


@BANK.right
def a_meter_for_the_losses(net, loss_fn, optimizer, x, y, M):
    meter = Meter(len(x))
    optimizer.zero_grad()
    for a, b in pieces(x, y, M):
        meter.share(loss_fn(net(a), b), len(a)).backward()
    optimizer.step()
    return meter.total


class Weight(Enum):
    """By what the loss of a micro-batch is multiplied."""

    SAMPLES = "its samples"
    SHARE = "its share of all samples"

    def of(self, n, N):
        return n if self is Weight.SAMPLES else n / N


class Piece(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor

    @property
    def n(self):
        return len(self.x)


@BANK.right
def one_weight_for_the_gradient_another_for_the_loss(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    N, total = len(x), 0.0
    for piece in map(Piece, x.tensor_split(M), y.tensor_split(M)):
        if piece.n:
            loss = loss_fn(net(piece.x), piece.y)
            (loss * Weight.SHARE.of(piece.n, N)).backward()
            total += loss.item() * Weight.SAMPLES.of(piece.n, N)
    optimizer.step()
    return total / N
