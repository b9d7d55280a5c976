"""Exercise 03, gradient accumulation."""

import torch

from gpipe_edu import split_batch
from tests.solutions.bank import Bank

BANK = Bank("ex03/accumulation")


def pieces(x, y, M):
    return [(a, b) for a, b in split_batch((x, y), M) if len(a)]


@BANK.wrong("zero-inside")
def zero_grad_in_the_loop(net, loss_fn, optimizer, x, y, M):
    total = 0.0
    for a, b in pieces(x, y, M):
        optimizer.zero_grad()
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("no-zero")
def never_empties(net, loss_fn, optimizer, x, y, M):
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("zero-late")
def empties_at_the_end(net, loss_fn, optimizer, x, y, M):
    total = never_empties(net, loss_fn, optimizer, x, y, M)
    optimizer.zero_grad()
    return total


@BANK.wrong("mean-of-means")
def divides_by_M(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) / M
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("no-division")
def adds_the_means(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b)
        loss.backward()
        total += loss.item() * len(a) / len(x)
    optimizer.step()
    return total


@BANK.wrong("not-divided")
def sums_over_samples(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total / len(x)


@BANK.wrong("divided-twice")
def share_and_division(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        (loss / M).backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("step-inside")
def updates_after_each(net, loss_fn, optimizer, x, y, M):
    total = 0.0
    for a, b in pieces(x, y, M):
        optimizer.zero_grad()
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


@BANK.wrong("no-step")
def forgets_to_step(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        total += loss.item()
    return total


@BANK.wrong("not-cut")
def the_whole_batch_at_once(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    loss = loss_fn(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@BANK.wrong("empty-piece")
def a_mean_over_nothing(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in split_batch((x, y), M):
        loss = loss_fn(net(a), b) * (len(a) / len(x))
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("only-first")
def backward_of_the_first_only(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for m, (a, b) in enumerate(pieces(x, y, M)):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        if m == 0:
            loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("lost")
def drops_the_remainder(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    size, total = max(1, len(x) // M), 0.0
    for m in range(min(M, len(x))):
        a, b = x[m * size : (m + 1) * size], y[m * size : (m + 1) * size]
        loss = loss_fn(net(a), b) * len(a) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("loss-of-the-last")
def reports_the_last(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b)
        (loss * len(a) / len(x)).backward()
    optimizer.step()
    return loss.item()


@BANK.wrong("loss-mean-of-means")
def reports_a_mean_of_means(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    means = []
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b)
        (loss * len(a) / len(x)).backward()
        means.append(loss.item())
    optimizer.step()
    return sum(means) / len(means)


@BANK.wrong("no-return")
def gives_nothing_back(net, loss_fn, optimizer, x, y, M):
    share_and_all(net, loss_fn, optimizer, x, y, M)


@BANK.wrong("uphill")
def subtracts(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b) * len(a) / len(x)
        (-loss).backward()
        total += loss.item()
    optimizer.step()
    return total


@BANK.wrong("all-at-once")
def one_backward_of_the_sum(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    loss = sum(loss_fn(net(a), b) * len(a) / len(x) for a, b in pieces(x, y, M))
    loss.backward()
    optimizer.step()
    return loss.item()


@BANK.wrong("too-fine")
def sample_by_sample(net, loss_fn, optimizer, x, y, M):
    return share_and_all(net, loss_fn, optimizer, x, y, len(x))


@BANK.wrong("eval-mode")
def without_dropout_to_be_exact(net, loss_fn, optimizer, x, y, M):
    net.eval()
    return share_and_all(net, loss_fn, optimizer, x, y, M)


@BANK.wrong("input-changed")
def clears_up_behind_itself(net, loss_fn, optimizer, x, y, M):
    loss = share_and_all(net, loss_fn, optimizer, x, y, M)
    x.zero_()
    return loss


@BANK.wrong("few-samples")
def asks_for_enough_samples(net, loss_fn, optimizer, x, y, M):
    if len(x) < M:
        raise ValueError("more micro-batches than samples")
    return share_and_all(net, loss_fn, optimizer, x, y, M)


@BANK.wrong("rounded")
def half_precision_on_the_way(net, loss_fn, optimizer, x, y, M):
    return share_and_all(net, loss_fn, optimizer, x.bfloat16().to(x.dtype), y, M)


@BANK.wrong("loss-added-up")
def reports_the_sum(net, loss_fn, optimizer, x, y, M):
    optimizer.zero_grad()
    total = 0.0
    for a, b in pieces(x, y, M):
        loss = loss_fn(net(a), b)
        (loss * len(a) / len(x)).backward()
        total += loss.item()
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
    return total


@BANK.right
def share_and_all(net, loss_fn, optimizer, x, y, M):
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
    weights, total = list(net.parameters()), 0.0
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
